"""Measured constants: each with the side it is on and what it cost."""

"""Bounds of a program's values and derivatives over a whole ball of w: what proved constants are made of."""

"""Estimation and proof of the constants of a problem, each with its side and its provenance."""

"""Bounds of a program's values and derivatives over a ball of w, from which proved constants are computed."""

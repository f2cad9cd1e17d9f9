"""Formulas that are read off a user's program: what depends on λ only, and sums of functions of linear maps of w."""

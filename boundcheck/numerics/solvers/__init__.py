"""Hypergradient solvers, one algorithm a file; `hypergradient.py` runs any of them by name."""

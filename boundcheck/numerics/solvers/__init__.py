"""Hypergradient solvers, one algorithm in each file; `hypergradient.py` runs any of them by name."""

"""The search for the instance on which a bound is closest to false: families with known constants, and their ascent.

Joins theory and torch, as `compare` does: formulas come from the catalogue, runs from here.
"""

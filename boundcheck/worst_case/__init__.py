"""Search for the problem with the largest error/bound, among families of problems with known constants.

Like `compare`, this package uses theory and torch: formulas are from the catalogue, and runs are computed here.
"""

"""Formulas recognised in a user's program: parts that depend only on λ, and sums of functions of linear maps of w."""

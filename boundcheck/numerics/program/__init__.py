"""Analysis of a user's function: its operations, its degree, its rounding and its derivatives."""

"""A user's problem with formulas that are read off its program: the same functions, quicker."""

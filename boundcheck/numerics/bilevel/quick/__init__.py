"""Faster versions of a user's problem: formulas that are derived from its recorded program."""

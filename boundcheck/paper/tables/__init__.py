"""The paper's tables 1 and 2."""

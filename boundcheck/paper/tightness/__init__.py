"""How tight every bound is, over many problems."""

"""A bilevel problem as an object: its maps, iterations, derivatives and structure."""

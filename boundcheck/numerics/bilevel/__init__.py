"""A bilevel problem as an object: maps, iterations, derivatives and their structure."""

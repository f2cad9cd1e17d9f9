"""What the built-in problems are made of: data, steps, closed forms and norms."""

"""Parts of the built-in problems: data, steps, closed forms and norms."""

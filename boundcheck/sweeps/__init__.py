"""`check` or `plan` over a grid: the options of a problem, values of λ, steps and methods."""

"""Run `check` or `plan` over a grid: options of a problem, values of λ, steps and methods."""

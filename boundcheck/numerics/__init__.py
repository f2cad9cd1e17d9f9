"""Everything with numbers in it: problems, solvers, constants and error curves. It uses torch and never sympy."""

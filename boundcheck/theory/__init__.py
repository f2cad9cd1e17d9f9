"""What the papers prove: sympy, never torch. Start at `bounds/`, one theorem per file."""

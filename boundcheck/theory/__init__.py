"""The theorems of the papers, in sympy; never imports torch. Start at `bounds/`, one theorem per file."""

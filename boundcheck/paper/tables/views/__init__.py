"""The tables of these experiments, and the comparison with the claims of the paper. No result is computed here."""

"""The figures of this experiment, and the comparison with the claims of the paper. No result is computed here."""

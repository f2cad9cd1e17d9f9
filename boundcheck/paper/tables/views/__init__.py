"""The figures of this experiment, and what it says of the paper's claims. No number is computed here."""

"""What people look at of this experiment: its figures, and what it says of the paper's claims. No number is computed here."""

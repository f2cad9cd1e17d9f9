"""What a user's function is made of: its operations, its degree, its rounding and its derivatives."""

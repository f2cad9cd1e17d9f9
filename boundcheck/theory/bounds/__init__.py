"""The theorems: one per file, named after it. Each file exports `BOUND`, and the catalogue finds it by its name."""

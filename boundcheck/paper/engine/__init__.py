"""What runs the paper's experiments: slices, workers, checkpoints and output."""

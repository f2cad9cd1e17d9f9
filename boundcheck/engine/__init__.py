"""Run many independent tasks that can be stopped and resumed: slices, workers and checkpoints."""

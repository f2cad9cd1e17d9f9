"""Twenty problems as people write them: plain torch, with no hint of how they are checked."""

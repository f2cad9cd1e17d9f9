"""The paper's equilibrium models."""

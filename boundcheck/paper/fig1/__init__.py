"""The paper's figure 1."""

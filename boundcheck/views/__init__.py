"""Output for people: tables in the terminal, figures and pages. This package does not import torch."""

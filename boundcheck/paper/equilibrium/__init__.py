"""The equilibrium models of the paper."""

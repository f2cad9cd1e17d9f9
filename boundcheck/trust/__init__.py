"""The accuracy of a hypergradient: to a tolerance, from any library, along a run."""

"""Can I trust this hypergradient? To a tolerance, from any library, along a run."""

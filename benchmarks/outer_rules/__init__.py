"""Rules for the accuracy of hypergradients along a descent on λ, to compare `boundcheck.minimise` with."""

"""The old path of `boundcheck.numerics.estimate`, kept for one release."""

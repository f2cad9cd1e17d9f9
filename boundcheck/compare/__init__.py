"""Compare error curves with bounds. This package joins theory and numerics."""

"""Where theory and numerics meet: error curves, and what is said of them."""

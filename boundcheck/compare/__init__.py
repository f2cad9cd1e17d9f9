"""Where theory and numerics meet: error curves are compared with bounds."""

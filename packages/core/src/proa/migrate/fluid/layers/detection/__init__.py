"""Detection in 1.x."""

"""Many small clients trained at once under vmap."""

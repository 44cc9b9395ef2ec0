"""Named data sets, the user's own data, partitions, and the federation made of them."""

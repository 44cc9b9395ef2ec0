"""Ways to divide labelled samples among clients, one file each."""

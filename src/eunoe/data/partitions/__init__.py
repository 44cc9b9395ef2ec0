"""Ways to divide labeled samples among clients, one file each."""

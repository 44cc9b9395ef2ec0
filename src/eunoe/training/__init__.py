"""One client's participation in a round, and the aggregation of all."""

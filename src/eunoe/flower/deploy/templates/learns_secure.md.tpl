With data = "own" no sample leaves a node, and under secure aggregation the server sees sums:

- From a round's clients together: who they are, and the sum of what they send. Nothing about one client's share
  of the sum, unless the server works together with many of the other clients; with a threshold of t of n clients
  these are 2t - n or more.
- A server that deviates from the protocol can compare the sums of rounds of its choice, with and without a client.
- `validate=true` on a node: how many validation samples it has of each class, how many of them the model gets
  right, and their summed loss, in plain.
- An error on a node: its text, which may name paths, labels and classes.

The server receives sums over all nodes, not your update. Nodes check each other's signatures to be sure of this,
so put `node-K.pub` of every node, your own included, and nothing else into the folder `peers` here: from the
operator, not from the server, and with the fingerprints compared. Without it the node does not join. `state` also
records what this node has masked and signed and which sums it helped to unmask: do not empty it between runs.


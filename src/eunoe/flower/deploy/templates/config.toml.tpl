# What the federation computes, as in any run of Eunoe: `eunoe run config.toml` does the same
# without a network.
seed = 0
rounds = 5
participation = 1.0

[data]
name = "digits"

# For trials. With data = "own" in pyproject.toml every node has its own data, and this is not used.
[partition]
name = "dirichlet"
clients = @nodes@
alpha = 0.3

[model]
name = "mlp"

[training]
epochs = 3
batch_size = 16
lr = 0.1

[loss]
name = "wsm"

[method]
name = "fedavg"

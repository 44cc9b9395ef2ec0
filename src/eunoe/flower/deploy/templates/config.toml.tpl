# The training, as in any config of Eunoe: `eunoe run config.toml` simulates the same without a network.
seed = 0
rounds = 5
participation = 1.0

[data]
name = "digits"

# For trials; not used with data = "own" in pyproject.toml, where every node has its own data.
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

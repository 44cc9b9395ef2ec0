[project]
name = "eunoe-federation"
version = "1.0.0"
description = "Measure and prevent forgetting in federated learning"
dependencies = ["flwr>=1.41", "eunoe[flower]"]

[tool.flwr.app]
publisher = "eunoe"
# Only this travels to the nodes: never keys, data or results.
fab-include = ["*.py", "config.toml"]

[tool.flwr.app.components]
serverapp = "server_app:app"
clientapp = "client_app:app"

[tool.flwr.app.config]
# The run folder on the server; a run that is already there is resumed.
folder = "run"
# Whose data the clients train on: "partition" (parts of one data set, for trials) or "own".
data = "partition"
# With data = "own": whether the nodes' data may grow during the run.
growing = false
# Number of clients; each node has one of the numbers 0, 1, ... as client=NUMBER in its --node-config.
clients = @nodes@
# The nodes' public keys on the server: only the node with the key of node-K.pub in this folder is client K.
# start.py has its own, in trial/.
keys = "keys"
# A round completes with at least this many clients' replies ...
quorum = @quorum@
# ... after at most this many seconds; clients that have not replied by then are dropped and reported.
timeout = 600.0
# Seconds to wait for all clients before the first round.
join-timeout = 600.0
# With data = "own": also evaluate on the validation data of the nodes that agree (validate=true in their
# --node-config; those of start.py do).
validate-on-clients = false

[tool.eunoe]
# Where the SuperLink finds the signed app, as in nginx.conf and environment.sh.
apps = "http://127.0.0.1:@apps@"

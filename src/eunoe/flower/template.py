"""The files of the app that `eunoe flower init` writes, with gaps for nodes, port and hosts."""

CONFIG = """\
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
clients = {nodes}
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
"""

PROJECT = """\
[project]
name = "eunoe-federation"
version = "1.0.0"
description = "Federated learning that does not forget"
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
# Number of clients; each node has one of the numbers 0, 1, ... as client=NUMBER in its --node-config.
clients = {nodes}
# The nodes' public keys on the server: only the node with the key of node-K.pub in this folder is client K.
keys = "keys"
# A round completes with at least this many clients' replies ...
quorum = {quorum}
# ... after at most this many seconds; clients that have not replied by then are dropped and reported.
timeout = 600.0
# Seconds to wait for all clients before the first round.
join-timeout = 600.0
# With data = "own": also evaluate on the validation data of the nodes that agree (validate=true in their
# --node-config; those of start.py do).
validate-on-clients = false
"""

SERVER = '''\
"""The server of this federation."""

from pathlib import Path

from eunoe.flower.server import server_app

app = server_app(Path(__file__).with_name("config.toml"))
'''

CLIENT = '''\
"""A client of this federation."""

from pathlib import Path

from eunoe.flower.client import client_app

app = client_app(Path(__file__).with_name("config.toml"))
'''

START = '''\
"""Runs this federation on one machine: a server and its nodes as processes of their own, over TLS.

Start it again after an interruption to resume the run.
"""

from pathlib import Path

from eunoe.flower.loopback import start

NODES = {nodes}
PORT = {port}
# With data = "own" in pyproject.toml: the path of each node's data, a .npz with x and y or a folder.
OWN_DATA: list[str] = []

if __name__ == "__main__":
    run = start(Path(__file__).parent, NODES, PORT, OWN_DATA)
    print(f"finished; what was forgotten: eunoe report {{run}}")
'''

IGNORED = """\
/.flwr/
/certificates/
/keys/
/logs/
/run/
/state/
/superlink.db*
"""

# The same list is in docs/flower.md.
LEARNS = """\
- From every client: how many samples it trains on, its trained model, how many steps that took, and its loss
  on one batch before and after. A model alone reveals much about its data: under losses that leave out the
  classes that a client lacks (tce, wsm), the classifier's rows of those classes come back unchanged.
- `validate=true` on a node: how many validation samples it has of each class, how many of them the model gets
  right, and their summed loss.
- Method flashback: how many samples of each class it trains on; with `knowledge = "relative"` the shares,
  with `"probabilities"` neither.
- Method labelwise: which classes it trains on.
- Methods scaffold and fedcurv: further vectors as long as the model, computed from its data. Methods fednova
  and fedcm: a number for its work.
- `training.single_class = "skip"`: a skipped client has a single class; not which one.
- An error on a node: its text, which may name paths, labels and classes.
"""

README = """\
# A federation

`config.toml` configures the training, `pyproject.toml` (last section) how the federation runs.

## On one machine

    python start.py

starts the server (a SuperLink) and {nodes} nodes on 127.0.0.1 and shows the server's output. Results are in
`run/`: `eunoe report run` writes the report. Started again, an interrupted run is resumed.

Nodes prove who they are by their keys, but Flower's commands need no login. While the server runs, every user
of this machine can start a run at port {port}, and so run code as you: take a machine whose users you trust.

## On several machines

Eunoe must be installed on all of them. `certificates/server.crt` is good for {hosts} and for
a year; make another folder with `--host` for other names or when the year is over. Before you start anything:
`export FLWR_TELEMETRY_ENABLED=0`.

On the server, in this folder:

    flower-superlink --host 0.0.0.0 --port {port} --enable-supernode-auth --database superlink.db \\
      --ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.crt \\
      --ssl-keyfile certificates/server.key --disable-runtime-dependency-installation

Commands need no login here either: whoever reaches that port can register a key or start a run, which is code
on the server and on every node. Let only the nodes and yourself through the firewall. Nodes need the paths
under /v1/fleet/ only; a proxy in front of the port can keep those under /v1/control/, which are the commands,
for yourself.

For each node K, register its public key with the server, copy `certificates/ca.crt` and `keys/node-K.key` to
that node only, and then remove `keys/node-K.key` here:

    flwr supernode register keys/node-K.pub NAME

where NAME is a connection in the file that `flwr config list` names:

    [superlink.NAME]
    address = "HOST:{port}"
    root-certificates = "/path/to/certificates/ca.crt"

On node K (K from 0), with its own data in a .npz file (arrays x and y) or a folder (one folder per class):

    flower-supernode --superlink HOST:{port} --root-certificates ca.crt \\
      --auth-supernode-private-key node-K.key \\
      --node-config 'client=K state="/path/to/keep" data="/path/to/data.npz"'

Let the system start it again when it ends (systemd: Restart=always). A node that was killed is refused until
it has missed its heartbeats for a minute. `state` is where the node keeps what its method remembers between
rounds; what is there survives a restart.

Then, from this folder, with data = "own" in pyproject.toml:

    flwr run . NAME --stream

After a crash of the server: start the SuperLink and run this once more. The run resumes after its last
finished round, with the same results.

## What the keys prove

A node's key proves that it is registered and, by `keys` in `pyproject.toml`, which client it is: only the
node with the key of `keys/node-K.pub` on the server is client K. It does not prove that what the node reports
is true, neither its model nor its number of samples, by which it is weighted in the average; with
`method.weighting = "uniform"` all weigh the same.

## What the server learns of a client's data

With data = "own" no sample leaves a node. There is neither secure aggregation nor differential privacy here,
and the server sees what each client sends:

{learns}
Whoever can start a run can read all that the nodes can read, since a run is code.
"""

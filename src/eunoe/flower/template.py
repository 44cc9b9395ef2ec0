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
# With data = "own": whether the nodes' data may grow while the run goes on.
growing = false
# Number of clients; each node has one of the numbers 0, 1, ... as client=NUMBER in its --node-config.
clients = {nodes}
# The nodes' public keys on the server: only the node with the key of node-K.pub in this folder is client K.
# start.py has others, in trial/.
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

[tool.eunoe]
# Where the SuperLink finds the signed app; nginx.conf and environment.sh say the same.
apps = "http://127.0.0.1:{apps}"
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
/environment.sh
/keys/
/logs/
/nginx.conf
/nodes/
/operator/
/proxy/
/run/
/signed/
/state/
/superlink.db*
/trial/
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

PEERS = """ When all are there, send the folder to every node as `peers`, by another way than through the
   server."""

SEEN = f"""\
With data = "own" no sample leaves a node. There is no secure aggregation here (`[secure_aggregation]` in
`config.toml`), and the server sees what each client sends:

{LEARNS}"""

SUMMED = """\
With data = "own" no sample leaves a node, and under secure aggregation the server sees sums:

- From a round's clients together: who they are, and the sum of what they send. Of one client's share in it
  nothing, unless the server works with so many of the others that none is left to hide among.
- `validate=true` on a node: how many validation samples it has of each class, how many of them the model gets
  right, and their summed loss, in plain.
- An error on a node: its text, which may name paths, labels and classes.
"""

README = """\
# A federation

`config.toml` configures the training, `pyproject.toml` (last sections) how the federation runs.

## On one machine

    python start.py

starts the server (a SuperLink) and {nodes} nodes on 127.0.0.1, with keys of their own in `trial/`, and shows
the server's output. Results are in `run/`: `eunoe report run` writes the report. Started again, an
interrupted run is resumed.

Flower's commands need no login. While the server runs, every user of this machine can start a run at port
{port}, and so run code as you: take a machine whose users you trust.

## On several machines

The operator decides what runs, the server averages, {nodes} nodes train. Eunoe must be installed on all of
them, and nginx on the server. `certificates/server.crt` is good for {hosts}
and for a year; make another folder with `--host` for other names or when the year is over.

1. **Nodes.** Send the folder `nodes/node-K` to node K (K from 0 to {last}). Nothing in it is secret. Its
   README says what to do there: the node makes its key, which never leaves it, and sends you `node-K.pub`.
   Compare the fingerprint with the node's owner, for instance by telephone, and put the file into
   `keys/`.{peers}

2. **Operator.** Set `data = "own"` in `pyproject.toml`. Then, and after every change of `config.toml` or
   `pyproject.toml`, in this folder:

       eunoe flower sign . --key operator/signing.key

   Nodes run nothing that is not signed so. `operator/signing.key` is yours alone: keep it on a machine of
   yours and copy this folder to the server without `operator/`.

3. **Server.** In this folder on the server, as an ordinary user:

       . ./environment.sh
       nginx -p "$PWD" -c nginx.conf
       flower-superlink --host 127.0.0.1 --port {link} --enable-supernode-auth --database superlink.db \\
         --ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.crt \\
         --ssl-keyfile certificates/server.key --disable-runtime-dependency-installation

   Port {port} is the only one to open: there nginx passes on what nodes need. Ports {link} (Flower's
   commands, which need no login) and {apps} (the signed app) are for this machine only. Whoever can log in to
   the server can start a run there, so let nobody else do so.

4. **Run.** On the server, in this folder, in another shell:

       . ./environment.sh
       for key in keys/node-*.pub; do flwr supernode register "$key" server; done
       flwr run @eunoe/eunoe-federation==1.0.0 server --stream

   A key that is registered already is refused, which does no harm. The server says for which clients it
   waits, and since when.

After a crash of the server: start nginx and the SuperLink and run the last command once more. The run resumes
after its last finished round, with the same results. To stop the proxy:
`nginx -p "$PWD" -c nginx.conf -s stop`.

## What the keys prove

A node's key proves that it is registered and, by `keys` in `pyproject.toml`, which client it is: only the
node with the key of `keys/node-K.pub` on the server is client K. It does not prove that what the node reports
is true, neither its model nor its number of samples, by which it is weighted in the average; with
`method.weighting = "uniform"` all weigh the same.

## What the server learns of a client's data

{learns}
Whoever can sign an app can read all that the nodes can read, since an app is code.
"""

# Node @node@

This folder is for one node. Nothing in it is secret: `ca.crt` proves the server's identity, and
`trusted-entities.yaml` names the key with which an app must be signed to run here. Eunoe must be installed. In
this folder, once:

    eunoe flower key @node@

writes `node-@node@.key`, which stays here, and `node-@node@.pub`. Send the latter to the operator and compare
the fingerprint. When the operator has registered it, start the node, with your own data in a .npz file (arrays
x and y) or a folder (one folder per class):

    umask 077
    DATA=/path/to/data.npz
    export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME="$PWD/.flwr"
    flower-supernode --superlink @host@:@port@ --root-certificates ca.crt \
      --trusted-entities trusted-entities.yaml --auth-supernode-private-key node-@node@.key \
      --port @app_port@ --node-config "client=@node@ state=\"$PWD/state\" data=\"$DATA\"@signs@"

@peers@Port @app_port@ is for this machine only: there the SuperNode talks to the app that it starts. Two
SuperNodes on one machine need two ports. Other users of the machine can reach the port, so use a machine whose
users you trust.

Let the system restart the node when it ends (systemd: Restart=always). After a kill it is refused until it has
missed its heartbeats for a minute. The folder `state` holds the state of the node's method between rounds and
survives a restart.

`validate=true` in `--node-config` lets the server evaluate models on your validation data; it receives counts
per class and a loss.

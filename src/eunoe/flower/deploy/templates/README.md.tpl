# A federation

`config.toml` configures the training, `pyproject.toml` (last sections) how the federation runs.

## On one machine

    python start.py

starts the server (a SuperLink) and @nodes@ nodes on 127.0.0.1, with their own keys in `trial/`, and shows the
server's output. Results are in `run/`; `eunoe report run` writes the report. The same command resumes an
interrupted run.

Flower's commands need no login. While the server runs, every user of this machine can start a run at port
@port@, and so run code as you. Use a machine whose users you trust.

## On several machines

The operator decides what runs, the server aggregates, @nodes@ nodes train. Eunoe must be installed on all of
them, and nginx on the server. `certificates/server.crt` is valid for one year and for these hosts:
@hosts@. Make another folder with `--host` for other names or after a year.

1. **Nodes.** Send the folder `nodes/node-K` to node K (K from 0 to @last@). Nothing in it is secret. Its
   README explains what to do: the node makes its key, which never leaves it, and sends you `node-K.pub`.
   Compare the fingerprint with the node's owner, for instance by telephone, and put the file into
   `keys/`.@peers@

2. **Operator.** Set `data = "own"` in `pyproject.toml`. Then, and after every change of `config.toml` or
   `pyproject.toml`, in this folder:

       eunoe flower sign . --key operator/signing.key

   Nodes run only signed apps. Keep `operator/signing.key` on your own machine, and copy this folder to the
   server without `operator/`.

3. **Server.** In this folder on the server, as an ordinary user:

       . ./environment.sh
       nginx -p "$PWD" -c nginx.conf
       flower-superlink --host 127.0.0.1 --port @link@ --enable-supernode-auth --database superlink.db \
         --ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.crt \
         --ssl-keyfile certificates/server.key --disable-runtime-dependency-installation

   Open port @port@ only: there nginx passes on what nodes need. Ports @link@ (Flower's commands, which need no
   login) and @apps@ (the signed app) are for this machine only. Everybody who can log in to the server can
   start a run there.

4. **Run.** On the server, in this folder, in another shell:

       . ./environment.sh
       for key in keys/node-*.pub; do flwr supernode register "$key" server; done
       flwr run @eunoe/eunoe-federation==1.0.0 server --stream

   An error about a key that is already registered does no harm. The server prints which clients it waits for.

After a crash of the server, start nginx and the SuperLink and run the last command again. The run resumes after
its last finished round, with the same results. To stop the proxy: `nginx -p "$PWD" -c nginx.conf -s stop`.

## What the keys prove

A node's key proves that it is registered and, by `keys` in `pyproject.toml`, which client it is: only the
node with the key of `keys/node-K.pub` on the server is client K. It does not prove that the node's model and its
number of samples, which is its weight in the average, are true. `method.weighting = "uniform"` weights all clients
equally.

## What the server learns of a client's data

@learns@
An app is code: whoever can sign one can read everything that the nodes can read.

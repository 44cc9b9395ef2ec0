"""Runs this federation on one machine: a server and its nodes as processes of their own, over TLS.

Start it again after an interruption to resume the run.
"""

from pathlib import Path

from eunoe.flower.loopback import start

NODES = 2
PORT = 8443
# With data = "own" in pyproject.toml: the path of each node's data, a .npz with x and y or a folder.
OWN_DATA: list[str] = []

if __name__ == "__main__":
    run = start(Path(__file__).parent, NODES, PORT, OWN_DATA)
    print(f"finished; what was forgotten: eunoe report {run}")

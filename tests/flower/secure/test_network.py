"""Secure aggregation for real: five nodes as processes of their own on 127.0.0.1, over TLS, some killed.

A killed node stays dead until its run has ended; then it is started again for the next one.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from eunoe.flower.deploy.init import init
from eunoe.flower.loopback import Loopback
from eunoe.simulation.running import run
from tests.flower.secure.test_federation import assert_same, records, without
from tests.flower.test_network import ROOT, Submitted, app, free_port

pytestmark = pytest.mark.slow
NODES, VICTIM, TIMEOUT = 5, 3, 240.0
SETTINGS = {
    "seed": 3,
    "rounds": 1,
    "participation": 1.0,
    "partition": {"name": "dirichlet", "clients": NODES, "alpha": 0.3},
    "model": {"name": "mlp", "hidden": [16]},
    "training": {"epochs": 1, "batch_size": 32},
    "loss": "wsm",
    "engine": {"name": "serial"},
    "secure_aggregation": {"threshold": 3},
    "probes": [],
}


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("flower") / "app", free_port()
    init(folder, NODES, port=port)
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), before])
    try:
        with Loopback(folder, NODES, port) as here:
            here.start_link()
            for node in range(NODES):
                here.register(node)
                here.start_node(node)
            yield here
    finally:
        os.environ["PYTHONPATH"] = before


class SecureRun:
    """A run of one round, and what its nodes have received and sent in it."""

    def __init__(self, here: Loopback, name: str, held: list[int], **settings: Any) -> None:
        """Clients in `held` wait in their training until the run is released."""
        self.here, self.gate = here, here.folder.parent / f"{name}.gate"
        method = {"name": "tests.flower.methods:Held", "gate": str(self.gate), "held": held}
        self.settings = {**SETTINGS, "method": method, **settings}
        self.before = {node: len(self._log(node)) for node in range(NODES)}
        self.submitted = Submitted(here, app(here, name, self.settings), TIMEOUT)

    def _log(self, node: int) -> str:
        return (self.here.folder / "logs" / f"node-{node}.log").read_text()

    def seen(self, node: int, what: str) -> bool:
        return f"{what} message" in self._log(node)[self.before[node] :]

    def wait_for(self, node: int, what: str, revive: bool = False) -> None:
        self.submitted.until(lambda: self.seen(node, what), revive)

    def training(self, nodes) -> None:
        """Wait until these nodes train, all nodes being there."""
        for node in range(NODES):
            self.wait_for(node, "Receiving: query.keys", revive=True)
        for node in nodes:
            self.wait_for(node, "Receiving: train.masked")

    def sent(self, node: int, what: str) -> bool:
        """Whether a reply of a node has arrived."""
        return (
            "Sent successfully"
            in self._log(node)[self.before[node] :].partition(f"Sending: {what} message")[2]
        )

    def release(self) -> None:
        self.gate.touch()

    def kill(self, node: int) -> None:
        self.here.nodes[node].kill()
        self.here.nodes[node].wait()


def test_a_node_killed_after_its_vector_arrived_is_in_the_sum(here, tmp_path):
    running = SecureRun(here, "after", [0])
    running.training([VICTIM])
    running.submitted.until(lambda: running.sent(VICTIM, "train.masked"))
    running.kill(VICTIM)
    assert not running.seen(0, "Sending: train.masked")
    running.release()
    done = running.submitted.wait()
    assert not running.seen(VICTIM, "Receiving: query.unmask")
    assert records(done)[0]["dropped"] == []
    assert_same(done, run(running.settings, out=tmp_path / "with"))


def test_a_node_killed_before_its_vector_arrived_is_not_in_the_sum(here, tmp_path):
    # Nodes help to unmask a vector for one sum only, whatever the run is called.
    running = SecureRun(here, "before", [0, VICTIM], seed=1)
    running.training([VICTIM])
    running.kill(VICTIM)
    running.release()
    done = running.submitted.wait()
    assert not running.seen(VICTIM, "Sending: train.masked")
    assert records(done)[0]["dropped"] == [VICTIM]
    assert_same(done, run({**running.settings, "engine": without(VICTIM, 1)}, out=tmp_path / "without"))


def test_fewer_than_the_threshold_end_the_run_and_nothing_is_unmasked(here):
    running = SecureRun(here, "too-few", list(range(NODES)), seed=2)
    running.training([1, 2, VICTIM])
    for node in (1, 2, VICTIM):
        running.kill(node)
    running.release()
    running.submitted.until(lambda: running.submitted.process.poll() is not None)
    output = running.submitted.output.read_text()
    assert re.search(
        r"secure aggregation: 2 of 5 clients are left in round 1, fewer than the threshold of 3; nothing was "
        r"unmasked; client 1: it did not reply within 240 s; client 2: .*; client 3: ",
        output,
    )
    assert not any(running.seen(node, "Receiving: query.unmask") for node in range(NODES))
    assert running.submitted.rounds() == 0
    assert not Path(running.submitted.folder / "model.safetensors").exists()

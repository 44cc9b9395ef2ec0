"""Runs through random faults: nothing is lost, nothing hangs, and the bits are those of the calm run.

Two hundred faults in all, twenty of them without the slow ones. Where a fault excludes a client, the calm
run excludes the same one.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.chaos.scenario import Scenario
from tests.faults import results

SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("engine", "seed", "in_clients", "outside"),
    [
        ("serial", 1, 4, 4),
        ("process", 2, 7, 5),
        pytest.param("serial", 3, 20, 12, marks=SLOW),
        pytest.param("vectorized", 4, 10, 8, marks=SLOW),
        pytest.param("process", 5, 20, 15, marks=SLOW),
        pytest.param("process", 6, 20, 15, marks=SLOW),
    ],
)
def test_on_one_machine(
    tmp_path: Path, tally: Counter[str], engine: str, seed: int, in_clients: int, outside: int
) -> None:
    choice = {"name": engine, "workers": 2 if engine == "process" else None}
    check(Scenario(seed, choice, tmp_path, in_clients=in_clients, outside=outside), tally)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "in_clients", "outside"), [(7, 24, 6), (8, 24, 6)])
def test_on_a_ray_cluster(
    tmp_path: Path, tally: Counter[str], cluster: Any, seed: int, in_clients: int, outside: int
) -> None:
    rng = np.random.default_rng(seed)

    def lose_node() -> None:
        nodes = sorted(cluster.worker_nodes, key=lambda node: node.node_id)
        lost = nodes[int(rng.integers(len(nodes)))]
        (raylet,) = lost.all_processes["raylet"]
        os.kill(raylet.process.pid, signal.SIGKILL)
        cluster.remove_node(lost, allow_graceful=False)
        cluster.add_node(num_cpus=1)

    choice = {"name": "ray", "address": cluster.address}
    scenario = Scenario(seed, choice, tmp_path, in_clients=in_clients, outside=outside, lose_node=lose_node)
    check(scenario, tally)


def check(scenario: Scenario, tally: Counter[str]) -> None:
    calm = results(scenario.calm())
    assert results(scenario.carry_out()) == calm
    assert scenario.happened.total() == len(scenario.plan["faults"]) + len(scenario.outside)
    tally.update(scenario.happened)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that trains nobody and two nodes of one core, on this machine."""
    utils = pytest.importorskip("ray.cluster_utils")
    cluster = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()

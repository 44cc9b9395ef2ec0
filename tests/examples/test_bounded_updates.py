import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from bounded_updates import BoundedUpdates

import eunoe

CONFIG = {"rounds": 1, "participation": 1, "engine": {"name": "serial"}, "probes": []}


def test_a_change_twice_as_long_as_the_bound_is_halved():
    start = eunoe.run({**CONFIG, "training": {"lr": 1e-30}}).weights().parameters
    change = eunoe.run(CONFIG).weights().parameters - start
    bound = float(change.norm()) / 2
    found = eunoe.run(CONFIG, method=BoundedUpdates(bound=bound)).weights().parameters
    torch.testing.assert_close(found - start, change / 2, rtol=0, atol=1e-6)


def test_with_a_bound_that_nobody_reaches_it_is_fedavg():
    plain = eunoe.run({**CONFIG, "participation": 3}).weights().parameters
    found = eunoe.run({**CONFIG, "participation": 3}, method=BoundedUpdates(bound=1e9)).weights()
    assert torch.equal(found.parameters, plain)

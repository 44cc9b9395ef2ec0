import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from running_mean import RunningMean

import eunoe

CONFIG = {"rounds": 3, "participation": 3, "engine": {"name": "serial"}, "probes": []}


def test_the_reported_model_is_the_running_mean_of_the_global_models():
    models = [eunoe.run({**CONFIG, "rounds": rounds}).weights().parameters for rounds in (1, 2)]
    start = eunoe.run({**CONFIG, "rounds": 1, "training": {"lr": 1e-30}}).weights().parameters
    expected = 0.25 * start + 0.25 * models[0] + 0.5 * models[1]
    found = eunoe.run({**CONFIG, "rounds": 2}, method=RunningMean(decay=0.5)).weights().parameters
    torch.testing.assert_close(found, expected)


def test_without_decay_it_is_fedavg():
    plain = eunoe.run(CONFIG).weights().parameters
    assert torch.equal(eunoe.run(CONFIG, method=RunningMean(decay=0.0)).weights().parameters, plain)

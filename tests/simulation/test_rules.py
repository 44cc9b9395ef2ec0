"""A configuration that breaks each rule of the compatibility table, and one that breaks none."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eunoe.config.options import FeatureShift
from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.data.samples import Samples
from eunoe.simulation import compatibility
from eunoe.simulation.build import UserObjects, build_simulation
from eunoe.simulation.compatibility import RULES, Setup
from tests.helpers import blobs

DIGITS = {"data": "digits", "partition": {"name": "iid", "clients": 4}}
LOCAL, CENTRAL, MEDIAN = {"method": "local"}, {"method": "central"}, {"aggregation": "median"}
SECURE, ATTACK, TOPK = {"secure_aggregation": {}}, {"attack": {"name": "nan"}}, {"name": "topk", "share": 0.1}
PRIVATE = {"privacy": {"clip": 1.0, "noise": 1.0, "delta": 0.01}}
# It divides the data again, and so needs a partition.
DIGITS = {"data": "digits", "partition": {"name": "dirichlet", "clients": 4}}
DRIFT = {"stream": {"name": "label_drift", "start": 1, "end": 2}, **DIGITS}
DOMAIN = {"stream": {"name": "domain", "start": 1, "end": 2}}
ARRIVAL = {"stream": {"name": "arrival", "over": 2}}
STALE = {"staleness": {"max": 2}}
OWN = {"private": "classifier"}
GMA = {"server_optimizer": {"name": "sgd", "gma": 0.5}}
CLIENT_MATRIX = {"metric": "client_matrix", "data": "test", "every": 1}
PROBE = {"probes": [{"metric": "drift", "every": 1}]}


class Sum(nn.Module):
    """Takes two fields."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(5, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.classifier(a + b)


def data(y: Any = None, x: Any = None) -> Federation:
    """Twenty samples of four clients."""
    x = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32) if x is None else x
    y = np.arange(20) % 3 if y is None else y
    return Federation.from_arrays(x, y, client_ids=np.arange(20) % 4)


REGRESSION, MULTILABEL = data(np.linspace(0, 1, 20)), data(np.tri(3, dtype=np.int64)[np.arange(20) % 3])
IDS = data(x=np.arange(120).reshape(20, 6) % 7)
FIELDS = data(x={name: np.ones((20, 5), np.float32) for name in ("a", "b")})
NOISE = FeatureShift(kind="noise", strength=1.0)
FEW = blobs()
ALONE, EMPTY = (replace(FEW, train_end=FEW.offsets[:-1] + samples) for samples in (1, 0))
UNTESTED = replace(
    FEW, data=replace(FEW.data, test=Samples(torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64)))
)
PUBLIC = Federation.from_arrays(np.zeros((40, 5), np.float32), np.arange(40) % 3, clients=4, public=0.5)
NORMED = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
UNIFORM = {"method": {"name": "fedavg", "weighting": "uniform"}}

# The message that a configuration gets, the configuration, and the federation.
CASES: list[tuple[str, dict[str, Any], Federation | None]] = [
    ("attack 'label_flip' requires", {"attack": {"name": "label_flip", "share": 0.5}}, MULTILABEL),
    ("replay requires", {"replay": {}}, REGRESSION),
    ("evaluation.personal requires classification", {"evaluation": {"personal": 2}}, REGRESSION),
    ("training.single_class requires", {"training": {"single_class": "skip"}}, REGRESSION),
    ("stale_counts requires", {"stale_counts": 1}, None),
    ("training.label_counts = 'seen' requires", {"training": {"label_counts": "seen"}}, None),
    ("loss has no effect", {**CENTRAL, "loss": "wsm"}, None),
    ("weighting has no effect", {"method": {"name": "central", "weighting": "uniform"}}, None),
    ("stream cannot be combined with method='central'", {**CENTRAL, **DRIFT}, None),
    ("replay cannot be combined with method='central'", {**CENTRAL, "replay": {}}, None),
    ("attack cannot be combined with method='central'", {**CENTRAL, **ATTACK}, None),
    ("compress cannot be combined with method='central'", {**CENTRAL, "compress": TOPK}, None),
    ("secure_aggregation cannot be combined with method='central'", {**CENTRAL, **SECURE}, None),
    ("privacy cannot be combined with method='central'", {**CENTRAL, **PRIVATE}, None),
    ("staleness cannot be combined with method='central'", {**CENTRAL, **STALE}, None),
    ("staleness cannot be combined with method='local'", {**LOCAL, **STALE}, None),
    ("in terms of the newest model", {**STALE, "method": "fedcurv"}, None),
    ("private cannot be combined with method='central'", {**CENTRAL, **OWN}, None),
    ("private cannot be combined with method='local'", {**LOCAL, **OWN}, None),
    ("it needs whole models", {**OWN, "method": "fedcm"}, None),
    ("private cannot be combined with compress", {**OWN, "compress": TOPK}, None),
    ("private cannot be combined with secure_aggregation", {**OWN, **SECURE}, None),
    ("private cannot be combined with privacy", {**OWN, **PRIVATE}, None),
    ("private cannot be combined with attack 'noise'", {**OWN, "attack": {"name": "noise"}}, None),
    ("private cannot be combined with probes", {**OWN, **PROBE}, None),
    ("training.head_epochs requires private", {"training": {"head_epochs": 1}}, None),
    ("all of its steps", {**OWN, "training": {"head_epochs": 1}, "method": "scaffold"}, None),
    ("averaging cannot be combined with method='local'", {**LOCAL, "averaging": {"last": 2}}, None),
    ("attack cannot be combined with method='local'", {**LOCAL, **ATTACK}, None),
    ("probes cannot be combined with method='local'", {**LOCAL, **PROBE}, None),
    (
        "retain cannot be combined with method='local'",
        {**LOCAL, **DIGITS, "retain": [{"name": "same", "data": "digits"}]},
        None,
    ),
    ("compress cannot be combined with method='local'", {**LOCAL, "compress": TOPK}, None),
    ("secure_aggregation cannot be combined with method='local'", {**LOCAL, **SECURE}, None),
    ("privacy cannot be combined with method='local'", {**LOCAL, **PRIVATE}, None),
    (
        "stream 'domain' cannot be combined with method='local'",
        {**LOCAL, **DOMAIN},
        replace(FEW, shift=NOISE),
    ),
    ("stop.test_target cannot be combined with", {**LOCAL, "stop": {"test_target": 0.5}}, None),
    ("'label_flip' cannot be", {"attack": {"name": "label_flip", "share": 0.5}, **DRIFT}, None),
    ("attack 'upload_lie' cannot be", {"attack": {"name": "upload_lie", "share": 0.5}}, None),
    ("server_optimizer cannot be", {"method": "feddf", "server_optimizer": "momentum"}, PUBLIC),
    ("aggregation='median' cannot be combined with method", {**MEDIAN, "method": "fedcurv"}, None),
    ("aggregation='median' cannot be combined with server", {**MEDIAN, **GMA}, None),
    ("training.precision='fp16' requires a GPU", {"training": {"precision": "fp16"}}, None),
    ("would end in an illegal instruction", {"training": {"precision": "bf16"}}, None),
    ("probe 'probability' needs a public set", {"probes": [{"metric": "probability", "every": 1}]}, None),
    ("compress cannot be combined with secure", {"compress": TOPK, **SECURE}, None),
    ("compress cannot be combined with aggregation", {"compress": TOPK, **MEDIAN}, None),
    ("compress cannot be combined with server_optimizer", {"compress": TOPK, **GMA}, None),
    ("compress.share=0.9 makes updates larger", {"compress": {"name": "topk", "share": 0.9}}, None),
    ("it needs every client's model", {**SECURE, "method": "feddf"}, PUBLIC),
    ("secure_aggregation requires aggregation='mean'", {**SECURE, **MEDIAN}, None),
    ("training.single_class = 'skip'", {**SECURE, "training": {"single_class": "skip"}}, None),
    ("secure_aggregation cannot be combined with probes", {**SECURE, **PROBE}, None),
    ("secure_aggregation cannot be combined with stream 'arrival'", {**SECURE, **ARRIVAL}, None),
    ("stream 'label_drift' changes how many", {**SECURE, **DRIFT}, None),
    ("max_samples=1 is too small", {"secure_aggregation": {"max_samples": 1}}, None),
    ("privacy requires aggregation='mean'", {**PRIVATE, **MEDIAN}, None),
    ("it needs what clients send without clipping", {**PRIVATE, "method": "fedcurv"}, None),
    ("privacy cannot be combined with server_optimizer", {**PRIVATE, **GMA}, None),
    ("privacy cannot be combined with stream", {**PRIVATE, **DRIFT}, None),
    ("privacy requires method.weighting", PRIVATE, None),
    ("privacy cannot be combined with probes", {**PRIVATE, **UNIFORM, **PROBE}, None),
    ("privacy cannot be combined with batch norm", {**PRIVATE, **UNIFORM, "net": NORMED}, None),
    ("privacy.delta must be below", {"privacy": {**PRIVATE["privacy"], "delta": 0.5}, **UNIFORM}, None),
    ("one round spends epsilon", {"privacy": {**PRIVATE["privacy"], "epsilon": 0.01}, **UNIFORM}, None),
    ("a client_matrix on test data requires", {"probes": [CLIENT_MATRIX]}, REGRESSION),
    ("model.classifier 'etf' requires", {"model": {"name": "mlp", "classifier": "etf"}}, MULTILABEL),
    ("shift supports single-tensor inputs", {"net": Sum()}, replace(FIELDS, shift=NOISE)),
    ("shift supports real-valued inputs", {"model": "text_cnn"}, replace(IDS, shift=NOISE)),
    ("clients have no training sample", {}, EMPTY),
    ("batch normalization cannot train on", {"net": NORMED}, ALONE),
    ("requires model.dtype", {"training": {"precision": "bf16"}, "model": {"dtype": "float64"}}, None),
    ("each client needs a loss scale", {"training": {"precision": "fp16"}, "engine": "vectorized"}, None),
    ("evaluation.personal requires a test set", {"evaluation": {"personal": 2}}, UNTESTED),
    ("at most 100000000 can be evaluated", {"evaluation": {"personal": 2}}, None),
]


def broken(values: dict[str, Any], federation: Federation | None) -> dict[int, str]:
    """The messages of the rules that a configuration breaks, by the place of the rule."""
    net = values.pop("net", None)
    base = {"data": "given", "partition": "given", "participation": 3, "rounds": 3, "model": "mlp"}
    config = make_config({**base, **values})
    own = None if "data" in values else federation or blobs()
    objects = UserObjects(federation=own, model=net)
    setup = Setup(config, build_simulation(config, objects))
    conditions = ((place, rule, rule.broken(setup)) for place, rule in enumerate(RULES))
    return {
        place: rule.message.format(**setup.values(), value=value)
        for place, rule, value in conditions
        if value
    }


def test_every_rule_is_broken_by_a_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatibility, "bf16_crashes", lambda: True)
    monkeypatch.setattr(compatibility, "MOST_PERSONAL", 5)
    # A backbone must be loaded; tests/data has one.
    tested = {place for place, rule in enumerate(RULES) if "backbone" in rule.message}
    for says, values, federation in CASES:
        messages = broken(dict(values), federation)
        assert any(says in message for message in messages.values()), (says, messages)
        tested |= {place for place, message in messages.items() if says in message}
    assert [rule.message for place, rule in enumerate(RULES) if place not in tested] == []


def test_plain_averaging_breaks_none() -> None:
    assert broken({}, None) == {}

"""A bad client of a simulation: neither ends the run nor owns the model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eunoe.methods import ClientContext, Finished, Method
from eunoe.simulation.running import run
from tests.small_runs import FAST

HONEST: dict[str, Any] = {
    **FAST,
    "rounds": 4,
    "training": {"epochs": 5, "lr": 0.2},
    "participation": 1.0,
    "partition": {"name": "iid", "clients": 10},
    "model": {"name": "mlp", "hidden": [16]},
    "evaluation": {"last": 1},
}


class Huge(Method):
    """Client 3 sends parameters of 1e30 in round 2."""

    def finish(self, client: ClientContext) -> Finished:
        if client.id == 3 and client.context.round == 2:
            client.weights.fill_(1e30)
        return Finished()


class Variances(Method):
    """Clients 3, 5 and 7 multiply the variances of batch normalization by a factor."""

    factor: float = -1.0

    def finish(self, client: ClientContext) -> Finished:
        if client.id in (3, 5, 7):
            client.model.float_buffers[client.model.variances] *= self.factor
        return Finished()


class Index(Method):
    """Client 3 sets a buffer of indices to one value in round 2."""

    value: int = 63

    def finish(self, client: ClientContext) -> Finished:
        if client.id == 3 and client.context.round == 2:
            client.model.int_buffers[:64] = self.value
        return Finished()


class Copies(Method):
    """Clients 3, 5 and 7 send the same vector: what they received, moved to 0 by a tenth."""

    def finish(self, client: ClientContext) -> Finished:
        if client.id in (3, 5, 7):
            client.weights.copy_(0.9 * client.start.parameters)
        return Finished()


def batch_norm_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))


class Ordered(nn.Module):
    """Batch normalization, and a buffer with the order of the pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.arange(64).flip(0))
        self.net = batch_norm_net()

    def forward(self, x: Tensor) -> Any:
        return self.net(x.flatten(1)[:, self.order])


NORMALIZED: dict[str, Any] = {**HONEST, "rounds": 6, "training": {"epochs": 5, "lr": 0.05, "batch_size": 16}}


def accuracy(**values: Any) -> float:
    return run({**HONEST, **values}, progress=False).final("test.accuracy")


@pytest.fixture(scope="module")
def honest() -> float:
    return accuracy()


def test_parameters_of_1e30_are_dropped_and_nobody_else_is_blamed(honest: float, tmp_path: Path) -> None:
    done = run({**HONEST, "method": f"{__name__}:Huge"}, out=tmp_path / "run", progress=False)
    dropped = [(record["round"], one["client"]) for record in done.records for one in record["dropped"]]
    assert dropped == [(2, 3)]
    assert done.finished
    assert done.final("test.accuracy") == pytest.approx(honest, abs=0.03)


@pytest.mark.parametrize(
    "values",
    [
        {"attack": {"name": "size_lie", "scale": 1e9}},
        {"attack": {"name": "nan"}},
        {"attack": {"name": "scaled", "scale": 1e12}},
        {"attack": {"name": "sign_flip", "scale": 10}, "aggregation": {"name": "norm_clip"}},
        {"attack": {"name": "sign_flip", "scale": 10}, "aggregation": {"name": "median"}},
        {"attack": {"name": "upload_lie", "scale": -1e6}, "method": "scaffold"},
    ],
    ids=["size_lie", "nan", "scaled", "norm_clip", "median", "scaffold"],
)
def test_one_bad_client_of_ten_costs_little(honest: float, values: dict[str, Any]) -> None:
    assert accuracy(**values) > honest - 0.05


def test_negative_variances_are_dropped() -> None:
    done = run({**NORMALIZED, "method": f"{__name__}:Variances"}, model=batch_norm_net(), progress=False)
    dropped = {(one["client"], one["reason"]) for record in done.records for one in record["dropped"]}
    assert dropped == {
        (client, "its normalization statistics have a negative variance") for client in (3, 5, 7)
    }
    assert done.status["state"] == "finished"
    assert done.final("test.accuracy") > 0.8


@pytest.mark.parametrize("rule", ["krum", "multi_krum", "median", "trimmed_mean", "geometric_median"])
def test_large_variances_do_not_pass_a_robust_aggregation(rule: str) -> None:
    aggregation = {"krum": {"bad": 3}, "multi_krum": {"bad": 3}, "trimmed_mean": {"share": 0.3}}
    method = {"name": f"{__name__}:Variances", "factor": 50.0}
    values = {**NORMALIZED, "method": method, "aggregation": {"name": rule, **aggregation.get(rule, {})}}
    done = run(values, model=batch_norm_net(), progress=False)
    assert done.final("test.accuracy") > 0.8


@pytest.mark.parametrize("rule", ["mean", "median"])
@pytest.mark.parametrize("value", [63, 64])
def test_one_client_does_not_change_a_buffer_of_indices(rule: str, value: int) -> None:
    # 64 is out of bounds, for the server that evaluates this client's model and for all clients after it.
    method, probes = (
        {"name": f"{__name__}:Index", "value": value},
        [{"metric": "local_per_class", "every": 1}],
    )
    values = {**NORMALIZED, "aggregation": rule, "method": method, "probes": probes}
    done = run(values, model=Ordered(), progress=False)
    assert done.weights().int_buffers.tolist()[:64] == list(range(63, -1, -1))
    assert done.weights().int_buffers[64] > 0
    assert done.final("test.accuracy") > 0.8


def test_copies_are_named_under_krum(caplog: pytest.LogCaptureFixture) -> None:
    values = {**HONEST, "method": f"{__name__}:Copies", "aggregation": {"name": "multi_krum", "bad": 3}}
    done = run(values, progress=False)
    warning = "clients 3, 5, 7 sent nearly identical updates, which Krum prefers to honest ones"
    assert all(warning in record["warnings"][0] for record in done.records)
    assert "warnings" not in run({**values, "method": "fedavg"}, progress=False).records[0]


@pytest.mark.parametrize("rule", ["mean", "median"])
def test_honest_clients_with_batch_norm_are_not_dropped(rule: str) -> None:
    done = run({**HONEST, "rounds": 10, "aggregation": rule}, model=batch_norm_net(), progress=False)
    assert [record["dropped"] for record in done.records] == [[]] * 10

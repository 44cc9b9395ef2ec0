"""A bad client of a simulation: neither ends the run nor owns the model."""

from pathlib import Path
from typing import Any

import pytest

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

"""Runs with private parameters: engines, resuming, evaluation, bytes, refusals."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.errors import InputError
from eunoe.metrics.base import Rows
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import newest_checkpoint
from tests.engines.test_private import Normed
from tests.helpers import Net, blobs
from tests.small_runs import FAST, Stopped, bits, net, stop_after

OWN: dict[str, Any] = {**FAST, "rounds": 6, "participation": 2, "private": "classifier"}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "from the mean": {"private": {"names": ["body"], "start": "mean"}, "averaging": {"decay": 0.5}},
    "scaffold": {"method": "scaffold", "server_optimizer": {"name": "adam", "lr": 0.05}},
    "feddyn, stale": {"method": "feddyn", "staleness": {"max": 2}},
    "moon, median": {"method": "moon", "aggregation": "median", "participation": 4},
    "head epochs": {"training": {"epochs": 2, "head_epochs": 1, "lr": 0.2, "momentum": 0.5}},
    "statistics": {"private": "norm", "model": Normed},
}


def data() -> Any:
    return blobs(size=60, validation=0.2)


def small(out: Path | None, stop: int = 0, **values: Any) -> Run:
    torch.manual_seed(3)
    model = values.pop("model", Net)()
    more = {"on_round": stop_after(stop)} if stop else {}
    return run({**OWN, **values}, federation=data(), model=model, out=out, progress=False, **more)


@pytest.mark.parametrize("name", CASES)
def test_engines_agree_and_a_resumed_run_has_the_same_bits(tmp_path: Path, name: str) -> None:
    values = CASES[name]
    serial = small(tmp_path / "serial", **values)
    process = small(tmp_path / "process", **values, engine={"name": "process", "workers": 2})
    assert bits(process.folder) == bits(serial.folder)
    with pytest.raises(Stopped):
        small(tmp_path / "cut", 4, **values)
    torch.manual_seed(3)
    rest = resume(tmp_path / "cut", federation=data(), model=values.get("model", Net)())
    assert bits(rest.folder) == bits(serial.folder)
    plain = small(tmp_path / "plain", **{**values, "private": None, "training": FAST["training"]})
    assert bits(plain.folder) != bits(serial.folder)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "moon, median", "feddyn, stale"])
def test_the_vectorized_engine_agrees(tmp_path: Path, name: str) -> None:
    serial, stacked = (small(tmp_path / e, **CASES[name], engine=e) for e in ("serial", "vectorized"))
    torch.testing.assert_close(stacked.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-4)
    for client in range(4):
        pair = [each.weights(client=client).parameters for each in (stacked, serial)]
        torch.testing.assert_close(*pair, rtol=0, atol=1e-4)


def test_a_single_client_with_a_private_part_trains_as_the_plain_run() -> None:
    alone = {"participation": 1, "rounds": 3, "probes": []}
    one = blobs(clients=1)
    runs = [
        run({**FAST, **alone, **more}, federation=one, model=net(), progress=False)
        for more in ({}, {"private": "classifier"})
    ]
    plain, own = (each.weights(client=client) for each, client in zip(runs, (None, 0), strict=True))
    torch.testing.assert_close(own.parameters, plain.parameters)


def test_each_client_is_evaluated_with_its_own_part_and_the_test_set_with_the_mean(tmp_path: Path) -> None:
    done = small(tmp_path / "run", participation=3)
    simulation, record = done.simulation, done.records[-1]
    engine, federation = Engine(simulation, ClientStates(tmp_path)), simulation.federation
    parts = []
    for place, client in enumerate(record["validation"]["by_client"]["clients"]):
        own, rows = done.weights(client=client), federation.rows(client, "validation")
        (predictions,) = engine.evaluate([own], Rows("clients", rows))
        right = predictions.predicted == federation.samples("clients").y.numpy()[rows]
        assert record["validation"]["by_client"]["accuracy"][place] == pytest.approx(right.mean())
        parts.append(own.parameters[48:])
    # All four have taken part, and their own parts differ.
    assert not torch.equal(parts[0], parts[1])
    mean = done.weights()
    torch.testing.assert_close(mean.parameters[48:], torch.stack(parts).double().mean(0).float())
    (predictions,) = engine.evaluate([mean], Rows("test", torch.arange(60).numpy()))
    right = predictions.predicted == federation.data.test.y.numpy()
    assert record["test"]["accuracy"] == pytest.approx(right.mean())


def test_new_clients_start_from_the_initial_part_or_the_mean(tmp_path: Path) -> None:
    initial = net().state_dict()["classifier.bias"]
    for start in ("initial", "mean"):
        done = small(tmp_path / start, private={"names": ["classifier"], "start": start})
        saved, _ = newest_checkpoint(done.folder)
        assert saved is not None
        sent, mean = saved.vectors["weights/parameters"][-3:], done.weights().parameters[-3:]
        assert torch.equal(sent, initial) == (start == "initial")
        assert not torch.equal(mean, initial)


def test_bytes_up_are_those_of_the_shared_part(tmp_path: Path) -> None:
    assert small(tmp_path / "one").records[0]["bytes_up"] == 2 * 4 * 48
    assert small(tmp_path / "two", method="scaffold").records[0]["bytes_up"] == 2 * 2 * 4 * 48
    # Of 24 + 8 + 15 parameters; eight statistics and a counter stay too.
    normed = small(tmp_path / "three", **CASES["statistics"]).records[0]
    assert normed["bytes_up"] == 2 * 4 * 39


def test_a_client_without_a_model_of_its_own_is_an_error(tmp_path: Path) -> None:
    done = small(tmp_path / "run", rounds=1)
    with pytest.raises(InputError, match="there is no client 4: name one from 0 to 3"):
        done.weights(client=4)
    with pytest.raises(InputError, match="share one model"):
        done.weights("best", client=0)

"""Predictions with a client's own class shares: by hand, and against a direct computation from the logits."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config.options import FeatureShift
from eunoe.config.schema import make_config
from eunoe.core.rng import generator
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet, Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.losses.base import adjust_for_prior
from eunoe.metrics.evaluation import RoundMetrics
from eunoe.metrics.personal import Personal, draw_personal_rows
from eunoe.simulation.running import run
from tests.helpers import Same, blobs, make_simulation


def measured(simulation: Simulation, size: int) -> dict[str, Any]:
    federation, seed = simulation.federation, simulation.context.seed
    metrics = RoundMetrics(
        {"personal": Personal(samples=size)}, federation, seed, validation=False, test=False
    )
    return metrics(Serial(simulation, ClientStates(Path("none"))), 1, simulation.model.weights)


def two_clients(test_inputs: list[list[float]], test_labels: list[int]) -> Federation:
    """Client 0 has three samples of class 0 and one of class 1; client 1 has two of class 1."""
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    test = Samples(torch.tensor(test_inputs), torch.tensor(test_labels))
    data = DataSet("hand-made", Samples(torch.zeros(6, 3), labels), test, 3)
    ends = np.array([4, 6])
    return Federation(data, np.arange(6), np.array([0, 4, 6]), ends, ends)


def test_by_hand() -> None:
    # On class 0 the model is right by log 2; of class 1 it thinks that it is class 0, by log 2 too.
    lead = float(np.log(2))
    simulation = make_simulation(two_clients([[lead, 0.0, 0.0], [lead, 0.0, 0.0]], [0, 1]), Same())
    found = measured(simulation, 400)["personal"]
    # Client 0 (3 to 1) is right on its class 0 either way, and its prior of 3 keeps it wrong on class 1.
    # Client 1 has class 1 alone: wrong without the prior, and with it right.
    rows = draw_personal_rows(
        [np.array([0]), np.array([1]), np.array([], np.int64)],
        np.array([3, 1, 0]),
        400,
        np.random.default_rng(0),
    )
    assert abs((rows == 0).mean() - 0.75) < 0.1
    assert found["clients"] == 2
    assert found["with_prior"] - found["without_prior"] == pytest.approx(0.5)
    assert found["without_prior"] == pytest.approx(0.75 / 2, abs=0.05)


def test_a_prior_turns_weak_logits_but_not_strong_ones() -> None:
    # log 3 = 1.0986 separates client 0's classes.
    for lead, right in ((1.05, 0.0), (1.15, 1.0)):
        federation = two_clients([[0.0, lead, 0.0]], [1])
        # The test set has class 1 only, so both clients are tested on it.
        simulation = make_simulation(federation, Same())
        found = measured(simulation, 10)["personal"]
        assert found["without_prior"] == 1.0
        # Client 1 is always right.
        assert found["with_prior"] == pytest.approx((1 + right) / 2)


@given(st.lists(st.integers(0, 20), min_size=4, max_size=4), st.integers(1, 60), st.integers(0, 99))
def test_rows_are_of_the_clients_classes(counts: list[int], size: int, seed: int) -> None:
    labels = np.array([0, 0, 1, 1, 1, 2])
    by_class = [np.flatnonzero(labels == label) for label in range(4)]
    rows = draw_personal_rows(by_class, np.array(counts), size, np.random.default_rng(seed))
    possible = {label for label in range(3) if counts[label]}
    assert len(rows) == (size if possible else 0)
    assert set(labels[rows].tolist()) <= possible
    for own in by_class:
        # No sample comes a second time before all others of its class have come.
        times = Counter(rows[np.isin(rows, own)].tolist())
        most = [times.get(int(row), 0) for row in own]
        assert not most or max(most) - min(most) <= 1


def direct(simulation: Simulation, size: int) -> dict[str, float]:
    """The same from the logits of each client's samples, one client after the other."""
    federation = simulation.federation
    right: dict[str, list[float]] = {"without_prior": [], "with_prior": []}
    labels = federation.data.test.y.numpy()
    by_class = [np.flatnonzero(labels == label) for label in range(federation.classes)]
    for client in range(len(federation)):
        counts = federation.counts(client)
        rng = generator(simulation.context.seed, "personal test", client=client)
        rows = draw_personal_rows(by_class, counts.numpy(), size, rng)
        with torch.no_grad():
            logits = simulation.model.module.eval()(federation.inputs("test", torch.from_numpy(rows), client))
        right["without_prior"].append((logits.argmax(1).numpy() == labels[rows]).mean())
        adjusted = adjust_for_prior(logits, counts)
        right["with_prior"].append((adjusted.argmax(1).numpy() == labels[rows]).mean())
    return {name: float(np.mean(values)) for name, values in right.items()}


@pytest.mark.parametrize("shifted", [False, True])
def test_it_agrees_with_the_logits_of_each_client(shifted: bool) -> None:
    federation = blobs(alpha=0.2)
    if shifted:
        federation = replace(federation, shift=FeatureShift(kind="noise", strength=5))
    simulation = make_simulation(federation, evaluation={"chunk": 7})
    found = measured(simulation, 30)["personal"]
    assert found.pop("clients") == len(federation)
    assert found == pytest.approx(direct(simulation, 30))


def test_it_is_measured_once_at_the_end_and_changes_nothing_else(tmp_path: Path) -> None:
    values: dict[str, Any] = {"rounds": 3, "participation": 2, "probes": [], "engine": "serial"}
    federation = blobs()
    without = run(federation=federation, out=tmp_path / "without", **values)
    asked = {"personal": 20}
    runs = [
        run(federation=federation, out=tmp_path / engine, **{**values, "engine": engine, "evaluation": asked})
        for engine in ("serial", "process")
    ]
    assert [("personal" in record) for record in runs[0].records] == [False, False, True]
    assert runs[0].records == runs[1].records
    records = list(runs[0].records)
    found = records[-1].pop("personal")
    assert found["with_prior"] != found["without_prior"]
    assert records == list(without.records)


def test_a_run_that_stops_early_has_it_in_its_last_round(tmp_path: Path) -> None:
    made = run(
        federation=blobs(),
        out=tmp_path / "run",
        rounds=50,
        participation=2,
        probes=[],
        engine="serial",
        evaluation={"personal": 20},
        stop={"test_target": 0.8},
    )
    assert 1 < len(made.records) < 50
    assert ["personal" in record for record in made.records] == [False] * (len(made.records) - 1) + [True]


def test_without_a_common_class_there_is_nothing_to_measure() -> None:
    assert measured(make_simulation(two_clients([[0.0, 0.0, 0.0]], [2]), Same()), 10) == {}


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"evaluation\.personal"):
        make_config({"evaluation": {"personal": -1}})

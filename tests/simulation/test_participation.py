"""Participation as a schedule: selection, engines, resuming, privacy, secure sums."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.config.options import Participation, Privacy
from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.server.privacy import Accountant
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import blobs, make_simulation, select
from tests.small_runs import FAST, bits, net

SCHEDULE = {"start": 2, "end": 6}
BASE: dict[str, Any] = {**FAST, "rounds": 5, "participation": SCHEDULE}


def small(out: Path, **values: Any) -> Run:
    return run({**BASE, **values}, federation=blobs(clients=6), model=net(), out=out, progress=False)


def test_clients_by_round_by_hand() -> None:
    up, down = Participation(start=2, end=5, over=7), Participation(start=1.0, end=1, over=2)
    # 2 + 3 (r - 1) / 6, halves up.
    assert [up.participants(round, 8) for round in range(1, 10)] == [2, 3, 3, 4, 4, 5, 5, 5, 5]
    assert [down.participants(round, 8) for round in (1, 2, 3)] == [8, 1, 1]
    assert Participation(start=2, end=5, over=1).participants(1, 8) == 5


def test_the_schedule_ends_with_the_last_round_and_bad_ones_are_refused_in_one_line() -> None:
    config = make_config({"participation": {"start": 2, "end": 0.5}, "rounds": 30})
    assert config.participation == Participation(start=2, end=0.5, over=30)
    assert config.participant_range(20) == (2, 10)
    with pytest.raises(InputError, match="participation: end: must be a share above"):
        make_config({"participation": {"start": 2, "end": 1.5}})
    with pytest.raises(InputError, match="participation=9 is more than the 4 clients"):
        make_simulation(participation={"start": 2, "end": 9})


def test_each_round_selects_its_number_and_a_constant_schedule_is_the_number() -> None:
    scheduled = make_simulation(blobs(clients=6), participation=SCHEDULE, rounds=5)
    assert [len(select(scheduled, round)) for round in range(1, 8)] == [2, 3, 4, 5, 6, 6, 6]
    constant = make_simulation(blobs(clients=6), participation={"start": 3, "end": 3})
    plain = make_simulation(blobs(clients=6), participation=3)
    assert [select(constant, round) for round in (1, 2, 3)] == [select(plain, round) for round in (1, 2, 3)]


@pytest.mark.parametrize(
    "values",
    [{"method": "scaffold"}, {"secure_aggregation": {}, "participation": {"start": 3, "end": 6}}],
    ids=["scaffold", "secure"],
)
def test_engines_agree_and_a_resumed_run_with_more_rounds_keeps_its_schedule(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    serial = small(tmp_path / "serial", **values)
    assert bits(small(tmp_path / "process", engine="process", **values).folder) == bits(serial.folder)
    clients = [len(record["clients"]) for record in serial.records]
    assert clients == ([2, 3, 4, 5, 6] if "method" in values else [3, 4, 5, 5, 6])
    schedule = {**{**BASE, **values}["participation"], "over": 5}
    small(tmp_path / "cut", **{**values, "rounds": 3, "participation": schedule})
    rest = resume(tmp_path / "cut", rounds=5, federation=blobs(clients=6), model=net())
    assert bits(rest.folder) == bits(serial.folder)


def test_stacks_of_the_vectorized_engine_have_the_rounds_clients(tmp_path: Path) -> None:
    serial, stacked = (small(tmp_path / engine, engine=engine) for engine in ("serial", "vectorized"))
    torch.testing.assert_close(stacked.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-4)


def test_the_threshold_of_secure_sums_is_that_of_the_round() -> None:
    values: dict[str, Any] = {"secure_aggregation": {"threshold": 0.66}, "rounds": 4}
    simulation = make_simulation(blobs(clients=6), probes=[], participation={"start": 3, "end": 6}, **values)
    # 0.66 of 3, 4, 5 and 6 clients, rounded up.
    thresholds = [each.secure and each.secure.threshold for each in map(simulation.in_round, range(1, 5))]
    assert thresholds == [2, 3, 4, 4]
    for bad, says in (
        ({"start": 2, "end": 6}, "needs 3 or more"),
        ({"start": 6, "end": 2}, "needs 3 or more"),
    ):
        with pytest.raises(InputError, match=says):
            make_simulation(blobs(clients=6), probes=[], participation=bad, **values)


def test_robust_aggregation_is_checked_for_the_smallest_round() -> None:
    krum = {"aggregation": {"name": "krum", "bad": 1}}
    make_simulation(blobs(clients=6), participation={"start": 5, "end": 6}, **krum)
    with pytest.raises(InputError, match="4 take part"):
        make_simulation(blobs(clients=6), participation={"start": 6, "end": 4}, **krum)


def test_epsilon_composes_the_rounds_and_repeated_ones_count_as_the_largest() -> None:
    dp = pytest.importorskip("dp_accounting")
    options, schedule = Privacy(clip=1.0, noise=4.0, delta=1e-3), Participation(start=10, end=30, over=3)
    accountant = Accountant(options, 100, 30, schedule)

    def composed(*participants: int) -> float:
        exact = dp.rdp.RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
        for number in participants:
            event = dp.SampledWithoutReplacementDpEvent(100, number, dp.GaussianDpEvent(2.0))
            exact.compose(event)
        return float(exact.get_epsilon(1e-3))

    assert accountant.epsilon(2) == pytest.approx(composed(10, 20))
    assert accountant.epsilon(4) == pytest.approx(composed(10, 20, 30, 30))
    assert accountant.epsilon(3, rounds=2) == pytest.approx(composed(10, 20, 30))


def test_a_private_run_records_the_epsilon_of_its_schedule(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    privacy = {"clip": 1.0, "noise": 4.0, "delta": 1e-2}
    done = small(tmp_path / "run", privacy=privacy, method={"name": "fedavg", "weighting": "uniform"})
    accountant = Accountant(Privacy(**privacy), 6, 6, Participation(start=2, end=6, over=5))
    spent = [record["privacy"]["epsilon"] for record in done.records]
    assert spent == [accountant.epsilon(round) for round in range(1, 6)]
    assert spent[0] < accountant.epsilon(1, rounds=0)

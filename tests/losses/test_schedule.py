"""A schedule of losses: which one a round has, and that runs change it on every engine."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.losses.fedlc import FedLC
from eunoe.losses.schedule import Schedule
from eunoe.losses.wsm import WSM
from eunoe.simulation.build import assemble
from eunoe.simulation.many import Planned, execute
from eunoe.simulation.running import resume, run
from tests.small_runs import NAMED, Stopped, bits, stop_after

# Of these the first one scales logits, so that terms alone do not tell them apart.
UNLIKE: dict[str, Any] = {"name": "schedule", "first": "fedrs", "then": "wsm"}
SMALL: dict[str, Any] = {**NAMED, "loss": {"name": "schedule", "rounds": 2}}


def end(**changes: Any) -> torch.Tensor:
    return run({**SMALL, **changes}).weights().parameters


def test_the_loss_of_a_round() -> None:
    loss = registry.build("loss", "schedule", {"then": {"name": "fedlc", "tau": 0.5}, "rounds": 2})
    assert loss == Schedule(first=WSM(), then=FedLC(tau=0.5), rounds=2)
    assert [loss.in_round(round) for round in (1, 2, 3)] == [WSM(), WSM(), FedLC(tau=0.5)]
    three = Schedule(first=loss, then="ce", rounds=4)
    assert [three.in_round(round) for round in (2, 3, 5)] == [WSM(), FedLC(tau=0.5), CrossEntropy()]
    assert WSM().in_round(7) == WSM()


def test_label_counts_reach_the_loss_of_the_round() -> None:
    simulation, _ = assemble(make_config(SMALL))
    counts = torch.tensor([1.0, 3.0])
    assert torch.equal(simulation.in_round(2).loss.terms(counts), (counts / 4).log())
    assert torch.equal(simulation.in_round(3).loss.terms(counts), torch.zeros(2))


def test_a_single_class_teaches_nothing_if_one_of_the_losses_learns_nothing() -> None:
    alone = torch.tensor([0.0, 5.0])
    assert not Schedule(first="ce", then="wsm").learns_from(alone)
    assert not Schedule().learns_from(alone)
    assert Schedule(first="ce", then="fedrs").learns_from(alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"first": "mse"}, "supports losses of classification, not MeanSquaredError"),
        ({"then": "wms"}, "no loss is called 'wms'; did you mean 'wsm'"),
        ({"then": {"name": "fedlc", "taw": 1}}, "did you mean 'tau'"),
        ({"rounds": -1}, "rounds"),
    ],
)
def test_wrong_schedules_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        registry.build("loss", "schedule", options)
    assert "\n" not in str(error.value)


def test_a_run_has_the_bits_of_its_losses() -> None:
    assert torch.equal(end(rounds=2), end(rounds=2, loss="wsm"))
    assert torch.equal(end(loss={"name": "schedule", "rounds": 0}), end(loss="ce"))
    assert torch.equal(end(loss={"name": "schedule", "rounds": 4}), end(loss="wsm"))
    assert not torch.equal(end(), end(loss="wsm"))
    assert torch.equal(end(loss={"name": "schedule", "first": "ce", "rounds": 1}), end(loss="ce"))


def test_engines_agree_across_the_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Enough steps for the vectorized engine to record them before the loss changes.
    long = {**SMALL, "rounds": 6, "training": {"steps": 60, "batch_size": 4, "lr": 0.02}}
    long["loss"] = {**UNLIKE, "rounds": 3}
    serial = run(long)
    assert torch.equal(run(long, engine="process").weights().parameters, serial.weights().parameters)
    together = run(long, engine="vectorized").weights().parameters
    torch.testing.assert_close(together, serial.weights().parameters, rtol=0, atol=1e-4)
    assert "one after the other" not in caplog.text


def test_runs_in_lockstep_change_their_losses_each_in_its_round(tmp_path: Path) -> None:
    base = {**SMALL, "loss": {**UNLIKE, "rounds": 2}}
    del base["engine"]

    def plan(name: str, rounds: int) -> list[Planned]:
        values = {**base, "rounds": rounds}
        return [Planned(f"run {k}", {**values, "seed": k}, tmp_path / name / f"{k}") for k in range(3)]

    # One run is a round ahead of the others when all go on together.
    resume(execute(plan("together", 1))[2].folder, {"rounds": 2})
    together = execute(plan("together", 4))
    environments = [json.loads((each.folder / "environment.json").read_text()) for each in together]
    assert [each["lockstep"] for each in environments] == [3, 3, 3]
    for one, other in zip(together, execute(plan("alone", 4), exact=True), strict=True):
        torch.testing.assert_close(one.weights().parameters, other.weights().parameters, rtol=0, atol=1e-4)


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    whole = run(SMALL, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        run(SMALL, out=tmp_path / "cut", on_round=stop_after(1))
    assert bits(resume(tmp_path / "cut").folder) == bits(whole.folder)
    assert whole.values["loss"] == {"name": "schedule", "first": "wsm", "then": "ce", "rounds": 2}

"""How runs end whose model is worth nothing although all of its numbers are finite."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.analysis.comparison import MAIN, Comparison
from eunoe.methods import Aggregate, Method, RoundContext, ServerUpdate, Vectors, Weights
from eunoe.simulation.many import Planned, is_done
from eunoe.simulation.running import resume, run
from eunoe.trackers import Tracking
from tests.small_runs import FAST
from tests.trackers.noted import Noted

SMALL: dict[str, Any] = {**FAST, "participation": 8, "model": {"name": "mlp", "hidden": [16]}}


class Dies(Method):
    """FedAvg until some round; from there on the model says the last class, as surely as told."""

    since: int = 2
    surely: float = 0.0

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        update = super().aggregate(server, aggregate, context)
        if context.round < self.since:
            return update
        dead = torch.zeros_like(update.weights.parameters)
        dead[-1] = self.surely
        return ServerUpdate(
            Weights(dead, update.weights.float_buffers, update.weights.int_buffers), update.server
        )


def test_a_run_whose_loss_exploded_is_diverged_wherever_it_is_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    method = {"name": "tests.simulation.test_divergence:Dies", "surely": 1e10}
    ended = run(SMALL, method=method, out=tmp_path / "run")
    assert ended.status["state"] == "diverged"
    assert ended.status["reason"].startswith("all 4 rounds done, but its loss ended at ")
    assert not ended.finished
    assert "the run diverged: its loss ended at" in caplog.text
    assert "a smaller training.lr may help" in caplog.text
    assert Comparison([ended.read]).table(MAIN).rows[0][2:] == ["NC", "NC"]
    # A sweep does not run it again.
    assert is_done(Planned("run", {**SMALL, "method": method}, tmp_path / "run"))


def test_after_a_divergence_there_is_a_way_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    method = {"name": "tests.simulation.test_divergence:Dies", "surely": 1e10, "since": 3}
    ended = run({**SMALL, "rounds": 8}, method=method, out=tmp_path / "run")
    back = f"eunoe run --resume {tmp_path / 'run'} --from-round 2"
    assert back in ended.status["reason"]
    assert back in caplog.text
    seen = list[int]()
    resume(tmp_path / "run", from_round=2, on_round=lambda record: seen.append(record["round"]))
    assert seen == [3, 4, 5, 6, 7, 8]


def test_it_is_judged_again_when_it_goes_on(tmp_path: Path) -> None:
    method = {"name": "tests.simulation.test_divergence:Dies", "surely": 1e10}
    run({**SMALL, "rounds": 3}, method=method, out=tmp_path / "run")
    assert resume(tmp_path / "run", rounds=5).status["state"] == "diverged"


def test_a_run_that_fell_to_chance_is_diverged_after_ten_rounds(tmp_path: Path) -> None:
    method = {"name": "tests.simulation.test_divergence:Dies", "since": 3}
    shorter = run({**SMALL, "rounds": 11}, method=method)
    assert (shorter.status["state"], shorter.series("test.accuracy")[1].max() > 0.19) == ("finished", True)
    longer = run({**SMALL, "rounds": 12}, method=method)
    assert longer.status["state"] == "diverged"
    assert "to chance and stayed there" in longer.status["reason"]


def test_a_run_that_never_learned_is_finished_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    method = {"name": "tests.simulation.test_divergence:Dies", "since": 1}
    ended = run({**SMALL, "rounds": 10}, method=method)
    assert (ended.status["state"], ended.status["reason"]) == ("finished", "all 10 rounds done")
    assert "its accuracy never rose above chance" in caplog.text


def test_trackers_get_the_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tracking, "_figures", lambda tracking: {})
    monkeypatch.setattr(Noted, "calls", [])
    method = {"name": "tests.simulation.test_divergence:Dies", "surely": 1e10}
    run(SMALL, method=method, track=["tests.trackers.noted:Noted"])
    assert Noted.calls[-1] == ("close", "diverged")

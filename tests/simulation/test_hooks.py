"""What happens beside the rounds: when is evaluated, which model is best, what ends a run."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.errors import InputError
from eunoe.metrics.base import Evaluator
from eunoe.metrics.evaluation import RoundMetrics
from eunoe.simulation.hooks import Evaluate, Progress, Round, evaluated, stop_reason
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import RunState, start_state
from tests.helpers import make_simulation
from tests.small_runs import NAMED

# When is evaluated.


@pytest.mark.parametrize(
    ("rounds", "every", "last", "expected"),
    [
        (12, 5, 0, [4, 5, 9, 10]),
        (12, 5, 3, [4, 5, 9, 10, 11, 12]),
        (12, 1, 0, list(range(1, 13))),
        (12, 2, 0, list(range(1, 13))),
        (12, 0, 0, []),
        (12, 0, 2, [11, 12]),
        (12, 0, 100, list(range(1, 13))),
        (12, 12, 0, [11, 12]),
    ],
)
def test_the_evaluation_schedule(rounds: int, every: int, last: int, expected: list[int]) -> None:
    config = make_config({"rounds": rounds, "evaluation": {"every": every, "last": last}})
    assert [round for round in range(1, rounds + 1) if evaluated(round, config)] == expected


# Which model is the best.


class Scripted(RoundMetrics):
    """Returns scripted numbers, round by round."""

    def __init__(self, script: Sequence[dict[str, Any]]) -> None:
        self.script, self.metrics = iter(script), {}

    def __call__(
        self, evaluator: Evaluator, round: int, weights: Weights, elsewhere: Any = None, final: bool = True
    ) -> dict[str, Any]:
        return next(self.script)


def best_of(script: Sequence[dict[str, Any]]) -> RunState:
    simulation = make_simulation()
    run_state = start_state(simulation)
    engine = Serial(simulation, ClientStates(Path("none")))
    hook = Evaluate(make_config({}), engine, run_state, Scripted(script))
    for number, numbers in enumerate(script, 1):
        model = run_state.weights.copy()
        model.parameters.fill_(number)
        done = Round(number, model, model, {"round": number})
        hook.after_round(done)
        assert done.record == {"round": number, **numbers}
    return run_state


def test_the_best_model_is_chosen_on_validation_alone() -> None:
    def both(validation: float, test: float) -> dict[str, Any]:
        return {"validation": {"accuracy": validation}, "test": {"accuracy": test}}

    run_state = best_of([both(0.5, 0.9), both(0.7, 0.1), both(0.7, 1.0)])
    assert run_state.best is not None
    assert (run_state.best.parameters == 2).all()
    assert run_state.best_accuracy == 0.7
    assert best_of([{"test": {"accuracy": 0.3}}, {"test": {"accuracy": 0.9}}]).best is None


def test_nothing_measured_is_nothing_recorded() -> None:
    assert best_of([{}]).best is None


# What ends a run.


def test_stop_rules() -> None:
    record = {"validation": {"accuracy": 0.8}, "test": {"accuracy": 0.6}}

    def reason(seconds: float = 0.0, **stop: float) -> str:
        return stop_reason(make_config({"stop": stop}), record, Progress(), seconds)

    assert reason() == ""
    assert reason(target=0.8) == "validation accuracy reached 0.8"
    assert reason(target=0.81) == ""
    assert reason(test_target=0.6) == "test accuracy reached 0.6"
    assert reason(test_target=0.7) == ""
    assert reason(3599, hours=1) == ""
    assert reason(3600, hours=1) == "1 hours passed"
    assert stop_reason(make_config({"stop": {"target": 0.1}}), {}, Progress()) == ""


def test_evaluations_without_a_better_score() -> None:
    def since(*scores: float | None) -> int:
        return Progress({} if s is None else {"validation": {"accuracy": s}} for s in scores).since

    assert since() == since(0.5) == since(0.5, 0.6) == since(None, None) == 0
    assert since(0.5, 0.5) == 1
    # A round without evaluation does not count, a score that is not a number does.
    assert since(0.5, None, 0.4, math.nan, 0.5) == 3
    assert since(0.5, 0.4, 0.4, 0.51) == 0
    assert Progress([{"score": {"validation": 0.5}, "validation": {"accuracy": 0.9}}]).best == 0.5


def test_a_run_ends_when_it_no_longer_improves(tmp_path: Path) -> None:
    still = {**NAMED, "rounds": 9, "training": {"lr": 1e-12}, "stop": {"patience": 3}}
    done = run(**still, out=tmp_path / "a")
    assert len(done.records) == 4
    assert done.status["reason"] == "no better validation score in 3 evaluations"
    # A run that is resumed counts the evaluations before.
    run(**{**still, "rounds": 3}, out=tmp_path / "b")
    assert len(resume(tmp_path / "b", {"rounds": 9}).records) == 4
    assert len(resume(tmp_path / "b", {"stop": {"patience": 5}}).records) == 6
    with pytest.raises(InputError, match=r"stop\.patience requires validation data"):
        run(**still, split={"validation": 0.0}, out=tmp_path / "c")

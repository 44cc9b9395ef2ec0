"""How good a model is: numbers that can be counted by hand, and the score that picks the best model."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet, Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.metrics import Evaluation, EvaluationMetric, Metric, Predictions, Rows, Snapshot
from eunoe.metrics.evaluation import RoundMetrics, Score, make_score
from eunoe.metrics.named import round_metrics
from tests.helpers import Same, make_simulation


def hand_made() -> Federation:
    """Two clients with two samples to train on and three and one to validate on, and a test set of four."""
    labels = torch.tensor([0, 1, 0, 0, 1, 0, 1, 2])
    said = torch.tensor([0, 1, 0, 1, 1, 0, 1, 0])
    x = torch.nn.functional.one_hot(said, 3).float() * 2
    test = Samples(x[:4], torch.tensor([0, 1, 1, 1]))
    data = DataSet("hand-made", Samples(x, labels), test, 3)
    rows = np.arange(8)
    return Federation(data, rows, np.array([0, 5, 8]), np.array([2, 7]), np.array([5, 8]))


@pytest.fixture
def simulation() -> Simulation:
    return make_simulation(hand_made(), Same())


def evaluate(simulation: Simulation, **evaluations: bool) -> dict:
    record = measured(simulation, round_metrics(), **evaluations)
    record.pop("forgetting", None)
    return record


def measured(simulation: Simulation, metrics: dict[str, Metric], **evaluations: bool) -> dict:
    engine = Serial(simulation, ClientStates("none"))  # type: ignore[arg-type]
    asking = RoundMetrics(metrics, simulation.federation, simulation.context.seed, **evaluations)
    return asking(engine, 1, simulation.model.weights)


def test_numbers_by_hand(simulation: Simulation) -> None:
    found = evaluate(simulation)
    # Validation rows 2, 3, 4 of client 0 are labeled 0, 0, 1 and said to be 0, 1, 1; row 7 is 2, said 0.
    assert found["validation"]["accuracy"] == 0.5
    assert found["validation"]["per_class"] == [0.5, 1.0, 0.0]
    assert found["validation"]["clients"] == {
        "mean": pytest.approx(1 / 3),
        "deviation": pytest.approx(1 / 3),
        "worst_tenth": 0.0,
    }
    # The test set is labeled 0, 1, 1, 1 and said to be 0, 1, 0, 1.
    assert found["test"]["accuracy"] == 0.75
    assert found["test"]["per_class"][:2] == [1.0, pytest.approx(2 / 3)]
    assert np.isnan(found["test"]["per_class"][2])
    right, wrong = np.log(np.exp(2) + 2) - 2, np.log(np.exp(2) + 2)
    assert found["test"]["loss"] == pytest.approx((3 * right + wrong) / 4)
    assert "clients" not in found["test"]


def test_only_the_configured_places(simulation: Simulation) -> None:
    assert list(evaluate(simulation, validation=False)) == ["test"]
    assert list(evaluate(simulation, test=False)) == ["validation"]
    assert evaluate(simulation, validation=False, test=False) == {}


def test_a_federation_without_validation_parts_has_no_such_place() -> None:
    federation = hand_made()
    whole = Federation(federation.data, federation.order, federation.offsets, *[federation.offsets[1:]] * 2)
    assert list(evaluate(make_simulation(whole, Same()))) == ["test"]


@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_chunks_change_nothing(chunk: int) -> None:
    found = evaluate(make_simulation(hand_made(), Same(), evaluation={"chunk": chunk}))
    assert found["test"]["accuracy"] == 0.75
    assert found["validation"]["per_class"] == [0.5, 1.0, 0.0]


def test_the_clients_own_test_parts_are_evaluated_with_the_test_set() -> None:
    federation = hand_made()
    # Of client 0's rows 2, 3, 4 the last, labeled 1 and said to be 1, is for its test; row 7 is client 1's.
    ends = np.array([4, 7])
    split = Federation(federation.data, federation.order, federation.offsets, federation.train_end, ends)
    found = evaluate(make_simulation(split, Same()))
    assert list(found) == ["validation", "client_test", "test"]
    assert found["validation"]["accuracy"] == found["client_test"]["accuracy"] == 0.5
    assert found["client_test"]["per_class"][1:] == [1.0, 0.0]
    assert found["client_test"]["clients"]["worst_tenth"] == 0.0
    each = found["client_test"]["by_client"]
    assert (each["clients"], each["samples"], each["accuracy"]) == ([0, 1], [1, 1], [1.0, 0.0])
    assert list(evaluate(make_simulation(split, Same()), test=False)) == ["validation"]


class Certainty(EvaluationMetric):
    """Mean probability of the class that is predicted."""

    needs = ("logits",)

    def measure(self, evaluation: Evaluation) -> float:
        return float(evaluation.probabilities.max(axis=1).mean())


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_a_metric_gets_the_logits_that_it_needs(chunk: int) -> None:
    simulation = make_simulation(hand_made(), Same(), evaluation={"chunk": chunk})
    found = measured(simulation, round_metrics([Certainty()]))
    # Each sample's logits are a 2 and two zeros.
    certainty = pytest.approx(np.exp(2) / (np.exp(2) + 2))
    assert found["certainty"] == {"validation": certainty, "test": certainty}


class Undeclared(EvaluationMetric):
    def measure(self, evaluation: Evaluation) -> float:
        return float(evaluation.logits.max())


def test_a_metric_that_does_not_declare_its_needs_is_reported(simulation: Simulation) -> None:
    with pytest.raises(RuntimeError, match="must declare it: needs ="):
        measured(simulation, {"undeclared": Undeclared()})


class OnRowsOfItsOwn(Metric):
    """Accuracy on the first two test samples."""

    _right: float = 0.0

    def rows(self, *_: object) -> dict[str, Rows]:
        return {"first": Rows("test", np.arange(2))}

    def update(self, model: Snapshot) -> None:
        assert set(model.evaluations) == {"first", "test", "validation"}
        self._right = float(model.evaluations["first"].right.mean())

    def compute(self) -> dict[str, float]:
        return {"first": self._right}


def test_a_metric_may_ask_for_places_of_its_own(simulation: Simulation) -> None:
    # The test set is labeled 0, 1, 1, 1 and said to be 0, 1, 0, 1.
    assert measured(simulation, {"mine": OnRowsOfItsOwn()})["mine"] == {"first": 1.0}


class Silent(Metric):
    def update(self, model: Snapshot) -> None: ...

    def compute(self) -> dict[str, float]:
        return {}


def test_an_empty_metric_leaves_no_trace(simulation: Simulation) -> None:
    assert measured(simulation, {"silent": Silent()}, validation=False, test=False) == {}


def test_what_was_evaluate_elsewhere_is_recorded_and_forgotten_from(simulation: Simulation) -> None:
    asking = RoundMetrics(round_metrics(), simulation.federation, 0, test=False, validation=False)
    engine = Serial(simulation, ClientStates("none"))  # type: ignore[arg-type]
    numbers = {"accuracy": 0.25, "loss": 1.0, "per_class": [0.5, 0.0, np.nan], "by": [3]}
    first, second = (
        asking(engine, round, simulation.model.weights, {"validation": numbers}) for round in (1, 2)
    )
    assert list(first) == ["validation", "forgetting"]
    assert first["validation"]["by"] == [3]
    assert first["forgetting"] == {"on": "validation", "round": None, "fedntd": None}
    assert second["forgetting"] == {"on": "validation", "round": 0.0, "fedntd": 0.0}


def evaluation(predicted: list[int], owners: list[int] | None = None) -> Evaluation:
    predictions = Predictions(np.array(predicted), np.zeros(4), np.zeros(2))
    labels = np.array([0, 0, 0, 1])
    return Evaluation(predictions, labels, 2, None if owners is None else np.array(owners))


def snapshot(predicted: list[int]) -> Snapshot:
    return Snapshot(1, "global", {"validation": evaluation(predicted)}, torch.zeros(1))


@pytest.mark.parametrize(
    ("by", "score"),
    [(None, 0.5), ("worst_class", 1 / 3), ("balanced_accuracy", 2 / 3), ("worst_client", 0.0)],
)
def test_the_score_by_hand(by: Any, score: float) -> None:
    # Class 0 is right once in three, class 1 always; client 0 has nothing right, client 1 all.
    wrong_first = evaluation([1, 1, 0, 1], owners=[0, 0, 1, 1])
    assert make_score(by, CLASSIFICATION).measure(wrong_first) == pytest.approx(score)


def test_without_owners_no_client_is_the_worst() -> None:
    assert make_score("worst_client", CLASSIFICATION).measure(evaluation([0, 0, 0, 1])) is None


def test_the_best_score_is_that_of_all_rounds_and_of_a_restored_state() -> None:
    score = Score()
    assert score.state() == {}
    score.update(snapshot([0, 0, 1, 1]))
    score.update(snapshot([1, 1, 1, 1]))
    assert math.isclose(score.state()["best"], 0.75)
    again = Score()
    again.restore(score.state())
    assert not again.improves({"validation": evaluation([0, 0, 1, 1])})
    assert again.improves({"validation": evaluation([0, 0, 0, 1])})
    assert not again.improves({})


def test_a_score_supports_the_task() -> None:
    for by in ("worst_class", "auroc"):
        with pytest.raises(InputError, match=f"metric '{by}' supports classification and multilabel"):
            make_score(by, Regression())
    assert make_score("worst_class", MULTILABEL).by == "worst_class"

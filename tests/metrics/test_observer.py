"""The observer on models whose answers are set by hand, and the promise that watching changes nothing."""

import copy
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import eunoe
from eunoe.errors import InputError
from eunoe.metrics import Evaluation, EvaluationMetric
from eunoe.metrics.observer import Forgetting

EXAMPLE = Path(__file__).parents[2] / "examples" / "bare_loop.py"


class Answers(nn.Module):
    """Knows the answer to each of four questions, and says it with certainty."""

    def __init__(self, answers: list[int]) -> None:
        super().__init__()
        self.logits = nn.Parameter(10.0 * nn.functional.one_hot(torch.tensor(answers), 3).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits[x]


X, Y = torch.arange(4), torch.tensor([0, 0, 1, 1])  # class 2 never occurs


def watched(**options: object) -> Forgetting:
    watch = Forgetting((X, Y), 3, **options)
    watch.start(Answers([0, 0, 1, 2]))  # per class 1, 1/2
    watch.local(7, Answers([0, 0, 2, 2]), [4, 0, 0])  # 1, 0
    watch.local(9, Answers([2, 0, 1, 1]), [0, 4, 0])  # 1/2, 1
    watch.aggregated(Answers([0, 0, 1, 1]))  # 1, 1
    watch.local(9, Answers([2, 2, 1, 1]), [0, 4, 0])  # 0, 1
    watch.aggregated(Answers([2, 0, 1, 1]))  # 1/2, 1
    return watch


def test_outputs_other_than_classes_are_one_line():
    with pytest.raises(InputError, match=r"the model has outputs \[3\] for each sample, but classes=2"):
        Forgetting((X, Y), classes=2).start(Answers([0, 0, 1, 1]))


def test_measured_loops_are_compared_by_name_and_diagnosed():
    table = eunoe.compare([watched(name="ce").records, watched(name="wsm").records]).table()
    assert [row[:3] for row in table.rows] == [["ce", "1", "0.750"], ["wsm", "1", "0.750"]]
    diagnosis = eunoe.diagnose(watched().records)
    assert diagnosis.kind == "local"
    assert diagnosis.sentences[0] == "2 rounds, accuracy 75.0% at the end (best 100.0% in round 1)."
    assert "eunoe.ModelAverage(model)" in repr(diagnosis)


def test_with_an_average_accuracy_is_that_of_the_average():
    watch, average = Forgetting((X, Y), 3), Answers([0, 0, 2, 2])
    watch.start(Answers([0, 0, 1, 2]))
    watch.local(7, Answers([0, 0, 2, 2]))
    watch.aggregated(Answers([0, 0, 1, 1]), average=average)
    watch.local(7, Answers([0, 0, 2, 2]))
    watch.aggregated(Answers([2, 0, 1, 1]), average=average)
    second = watch.metrics[1]
    assert (second["test"]["per_class"], second["forgetting"]["round"]) == ([1.0, 0.0, None], 0.0)
    assert (second["sent"]["test"]["accuracy"], second["sent"]["forgetting"]["round"]) == (0.75, 0.25)
    # The steps of a round are those of the newest model, which clients train.
    start = next(probe["start"] for probe in watch.probes if probe["round"] == 2 and "merged" in probe)
    assert start == [1.0, 1.0, None]
    assert watch.summary()["sent_forgetting"] == 0.25


@pytest.mark.parametrize("label", ["labels", "label", "targets", "target", "y"])
def test_batches_of_dicts(label):
    pairs = Forgetting((X, Y), 3)
    for data in ({"x": X, label: Y}, [{"x": X[:3], label: Y[:3]}, {"x": X[3:], label: Y[3:], "id": ["a"]}]):
        watch = Forgetting(data, 3)
        for each in (pairs, watch):
            each.start(Answers([0, 0, 1, 2]))
            each.hidden(0)
            each.aggregated(Answers([0, 2, 1, 1]))
        assert watch.metrics[0]["test"] == pairs.metrics[-1]["test"]
    with pytest.raises(InputError, match="a batch has x, id, none of which is 'labels'"):
        Forgetting([{"x": X, "id": Y}], 3).start(Answers([0, 0, 1, 2]))


def test_records_by_hand():
    first, second = watched().metrics
    assert first["clients"] == [7, 9]
    assert first["test"]["per_class"] == [1.0, 1.0, None]
    assert first["test"]["accuracy"] == 1.0
    assert first["forgetting"] == {"on": "test", "round": None, "fedntd": None}
    assert second["test"]["accuracy"] == 0.75
    assert second["forgetting"] == {"on": "test", "round": 0.25, "fedntd": 0.25}
    wrong, right = 10 + np.log(1 + 2 * np.exp(-10)), np.log(1 + 2 * np.exp(-10))
    assert second["test"]["loss"] == pytest.approx((wrong + 3 * right) / 4, rel=1e-5)


def test_probes_by_hand():
    local, matrix, drift = watched().probes[:3]
    assert (local["probe"], matrix["probe"], drift["probe"]) == (
        "local_per_class",
        "client_matrix",
        "drift",
    )
    assert local["start"] == [1.0, 0.5, None]
    assert local["local"] == [[1.0, 0.0, None], [0.5, 1.0, None]]
    assert local["merged"] == [1.0, 1.0, None]
    # Client 7 has only class 0 and client 9 only class 1, so their data's accuracies are those classes'.
    assert matrix["start"] == [1.0, 0.5]
    assert matrix["after"] == [[1.0, 0.0], [0.5, 1.0]]
    # Client 7 changed one answer, client 9 two: distances 10 * sqrt(2) and 10 * sqrt(4), no answer in common.
    assert drift["from_start"] == pytest.approx([200**0.5, 20.0])
    assert drift["apart"] == pytest.approx(600**0.5)
    assert drift["cosine"] == pytest.approx(0.0, abs=1e-9)


def test_the_next_round_starts_from_the_merged_model():
    later = watched().probes[3]
    assert later["round"] == 2
    assert later["start"] == [1.0, 1.0, None]


def test_summary_in_words():
    summary = watched(name="toy", class_names=["cat", "dog", "eel"]).summary()
    assert summary["rounds"] == 2
    assert summary["round_forgetting"] == 0.25
    assert summary["lost_locally"] == 0.5  # round 2 only: class 0 went from 1 to 0, class 1 stayed
    assert summary["lost_in_aggregation"] == 0.0
    assert summary["aggregation_change"] == -0.25
    text = str(summary)
    assert text.startswith("toy: 2 rounds, accuracy 75.0% at the end (best 100.0% in round 1).")
    assert "aggregation gives 25.0 points back" in text
    assert "cat (50.0 points)" in text
    assert "eel" not in text


def test_without_label_counts_there_is_no_client_forgetting():
    watch = Forgetting((X, Y), 3)
    watch.start(Answers([0, 0, 1, 2]))
    watch.local(7, Answers([0, 0, 2, 2]))
    watch.aggregated(Answers([0, 0, 1, 1]))
    assert [probe["probe"] for probe in watch.probes] == ["local_per_class", "drift"]
    assert "others' data" not in str(watch.summary())


def test_a_loader_gives_the_same_as_tensors():
    watch = Forgetting(DataLoader(TensorDataset(X, Y), batch_size=3, shuffle=True), 3)
    watch.start(Answers([0, 0, 1, 2]))
    watch.local(7, Answers([0, 0, 2, 2]), [4, 0, 0])
    watch.aggregated(Answers([0, 0, 1, 1]))
    assert watch.metrics[0]["test"]["per_class"] == [1.0, 1.0, None]
    assert watch.probes[0]["local"] == [[1.0, 0.0, None]]


def test_watching_changes_neither_model_nor_random_numbers():
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3))
    model[1].eval()  # a frozen layer must stay frozen
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    watch = Forgetting(DataLoader(TensorDataset(torch.randn(4, 2), Y), shuffle=True), 3)
    torch.manual_seed(3)
    watch.start(model)
    watch.local(0, model)
    watch.aggregated(model)
    assert torch.equal(torch.rand(1), expected)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_the_same_model_forgets_nothing():
    watch, model = Forgetting((X, Y), 3), Answers([0, 2, 1, 1])
    watch.start(model)
    for _ in range(3):
        watch.local(0, model, [1, 1, 0])
        watch.local(1, model, [1, 0, 1])
        watch.aggregated(model)
    summary = watch.summary()
    names = [
        "round_forgetting",
        "fedntd",
        "lost_locally",
        "lost_in_aggregation",
        "local_change",
        "client_forgetting",
    ]
    assert [summary[name] for name in names] == [0.0] * 6


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda watch: watch.local(0, Answers([0, 0, 0, 0])), "call start"),
        (lambda watch: watch.aggregated(Answers([0, 0, 0, 0])), "call start"),
        (lambda watch: watch.summary(), "nothing was measured yet"),
        (lambda watch: Forgetting((X, Y), 1).start(Answers([0, 0, 0, 0])), "label 1, but classes=1"),
        (lambda watch: Forgetting([], 3).start(Answers([0, 0, 0, 0])), "empty"),
        (lambda watch: Forgetting((X, Y), 3, class_names=["cat"]), "1 class names for 3 classes"),
    ],
)
def test_misuse_is_explained(use, message):
    with pytest.raises(InputError, match=message):
        use(Forgetting((X, Y), 3))


def test_a_client_twice_in_a_round_is_refused():
    watch = Forgetting((X, Y), 3)
    watch.start(Answers([0, 0, 1, 2]))
    watch.local(7, Answers([0, 0, 2, 2]))
    with pytest.raises(InputError, match="client 7 was added twice"):
        watch.local(7, Answers([0, 0, 2, 2]))


def test_the_example_is_short_and_shows_forgetting(capsys):
    assert len(EXAMPLE.read_text().splitlines()) <= 60
    watch = runpy.run_path(str(EXAMPLE))["main"]()
    summary, printed = watch.summary(), capsys.readouterr().out
    assert printed.strip() == str(summary)
    assert summary["accuracy"] > 0.5
    # Clients with two classes forget locally what aggregation brings back.
    assert summary["client_forgetting"] > 0.1
    assert summary["local_change"] > 0 > summary["aggregation_change"]


def test_hidden_clients_leave_round_forgetting_only():
    watch = Forgetting((X, Y), 3)
    watch.start(Answers([0, 0, 1, 1]))
    for number, answers in ((1, [0, 0, 1, 1]), (4, [2, 0, 1, 1])):
        watch.hidden(7)
        watch.hidden(9)
        watch.aggregated(Answers(answers), number)
    assert [record["round"] for record in watch.metrics] == [1, 4]
    assert watch.metrics[1]["clients"] == [7, 9]
    assert watch.metrics[1]["forgetting"]["round"] == 0.25
    assert not watch.probes
    assert "Local training" not in str(watch.summary())


class Certainty(EvaluationMetric):
    """Mean probability of the class that is predicted."""

    needs = ("logits",)

    def measure(self, evaluation: Evaluation) -> float:
        return float(evaluation.probabilities.max(axis=1).mean())


def test_a_metric_of_the_users_own_is_recorded_beside_the_others():
    first, second = watched(metrics=[Certainty()]).metrics
    # Every answer is 10 against 0 and 0.
    assert first["certainty"] == second["certainty"] == {"test": pytest.approx(1 / (1 + 2 * np.exp(-10)))}
    assert second["forgetting"]["round"] == 0.25


def test_the_report_of_a_loop(tmp_path):
    text = watched(name="toy").report(tmp_path / "report.html").read_text()
    assert "</span>toy</th>" in text
    assert "chart-knowledge-lost" in text


@pytest.mark.parametrize("data", ["test.csv", (np.zeros((4, 3)), np.zeros(4))])
def test_test_data_that_are_no_batches_of_tensors_are_refused(data):
    with pytest.raises(InputError, match="a pair of tensors"):
        Forgetting(data, classes=2).start(torch.nn.Linear(3, 2))

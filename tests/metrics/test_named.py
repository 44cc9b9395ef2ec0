"""Metrics by name: what every run has, and what is refused."""

from typing import Any

import pytest

from eunoe.config.options import Named, Probe
from eunoe.core.tasks import MULTILABEL, Regression, Task
from eunoe.errors import InputError
from eunoe.metrics import Metric, Snapshot
from eunoe.metrics.named import check_metrics, recorded_name, round_metrics
from eunoe.metrics.standard import ByClient
from tests.metrics.own_metric import Brier, WorstClass

OWN = "tests.metrics.own_metric"
COMMON = ("loss", "per_class", "clients", "by_client", "forgetting")


def test_every_run_has_the_standard_ones_first() -> None:
    names = list(round_metrics([WorstClass(), f"{OWN}:Brier"]))
    assert names == ["accuracy", *COMMON, "worst_class", "brier"]


@pytest.mark.parametrize(
    ("task", "own"),
    [
        (MULTILABEL, ["f1", "subset_accuracy", "hamming_loss", "loss", "per_class"]),
        (Regression(), ["r2", "rmse", "mae", "loss"]),
    ],
)
def test_each_task_has_standard_ones_of_its_own(task: Task, own: list[str]) -> None:
    assert list(round_metrics(task=task)) == [*own, "clients", "by_client", "forgetting"]
    with pytest.raises(InputError, match="metric 'accuracy' supports classification, not"):
        round_metrics(["accuracy"], task)


def test_a_standard_one_with_options_takes_the_place_of_the_one_without() -> None:
    made = round_metrics([Named(name="by_client", most=5)])
    assert list(made) == ["accuracy", *COMMON]
    assert made["by_client"] == ByClient(most=5)


class MacroF1(Brier):
    pass


class AUROC(Brier):
    pass


def test_a_class_of_the_users_own_is_recorded_in_small_letters() -> None:
    assert recorded_name("mine:MacroF1", MacroF1()) == "macro_f1"
    assert recorded_name("mine:AUROC", AUROC()) == "auroc"
    assert recorded_name("installed", MacroF1()) == "installed"


class Round(Metric):
    """Called like something that a record has already."""

    def update(self, model: Snapshot) -> None: ...

    def compute(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["nonsense"], "no metric is called 'nonsense'"),
        (["forgeting"], "did you mean 'forgetting'"),
        (["forgetting"], "metric 'forgetting' is already measured: leave it out"),
        ([f"{OWN}:Brier"] * 2, "metric 'brier' is already measured"),
        (["drift"], "metric 'drift' measures clients' models: name it in probes"),
        ([Round()], "a round has another key 'round': rename your metric"),
        (["tests.helpers:Net"], "must derive from eunoe.metrics.Metric"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_line(metrics: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        round_metrics(metrics)
    assert "\n" not in str(refused.value)


def test_probes_are_for_metrics_that_look_at_clients_models() -> None:
    with pytest.raises(InputError, match="'accuracy' does not measure clients' models: name it in metrics"):
        check_metrics([], [Probe(metric="accuracy", every=1)])

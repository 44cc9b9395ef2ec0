"""The words of a task in figures that are written for classes."""

import altair as alt
import pytest

from eunoe.core.tasks import Classification, MultiLabel, Regression, Task
from eunoe.report.theme import Figure, described
from eunoe.report.wording import reworded


def figure() -> Figure:
    chart = alt.Chart(alt.InlineData(values=[{"class": "accuracy", "accuracy": 0.5}])).mark_point()
    chart = chart.encode(alt.X("accuracy:Q"), alt.Y("class:N", title="class"))
    return Figure(
        "a", "Accuracy of each class", "Classes", described(chart, "accuracy by class"), "Which classes"
    )


@pytest.mark.parametrize(
    ("task", "by_client", "what", "unit"),
    [
        (MultiLabel, False, "balanced accuracy", "label"),
        (MultiLabel, True, "share of right labels", "label"),
        (Regression, False, "explained variance", "client"),
    ],
)
def test_texts_change_and_data_do_not(task: type[Task], by_client: bool, what: str, unit: str) -> None:
    found = reworded(figure(), task, by_client)
    assert found.title == f"{what.capitalize()} of each {unit}"
    assert (found.caption, found.section) == (f"{unit.capitalize()}s", f"Which {unit}s")
    spec = found.chart.to_dict(validate=False)
    assert spec["description"] == f"{what} by {unit}"
    assert spec["encoding"]["x"]["field"] == "accuracy"
    assert spec["encoding"]["x"]["title"] == what
    assert spec["encoding"]["y"]["title"] == unit
    assert "accuracy" in str(spec["datasets"] if "datasets" in spec else spec["data"])


def test_of_classes_nothing_changes() -> None:
    one = figure()
    assert reworded(one, Classification, False) is one

"""Every figure: valid, described, drawn offline, and left out where nothing was measured."""

import csv
import dataclasses
import io
import json
import math
import re

import altair as alt
import pytest
import vl_convert

from eunoe.analysis.summary import summarize
from eunoe.core.tasks import Classification, MultiLabel, Regression, Task
from eunoe.report import theme
from eunoe.report.figures import (
    KINDS,
    all_figures,
    classes,
    client_forgetting,
    clients,
    curves,
)
from eunoe.report.figures.charts import Display, run_filter, table
from eunoe.report.theme import config
from eunoe.store.run_records import RunRecords
from tests.report.made_up import made_up_run

DISPLAY = Display(Classification, ["a", "b"])
RUNS = [made_up_run("fedavg", 0), made_up_run("fedavg", 1), made_up_run("wsm", 2)]


@pytest.fixture(scope="module")
def figures():
    # Clients are compared on the same seeds only.
    clients = all_figures([made_up_run("fedavg", 0), made_up_run("wsm", 0)], ["clients"])
    phases = [
        {**record, "phases": {"phase": record["round"] // 3, "present": 0.5, "past": 0.4, "seen": 0.45}}
        for record in RUNS[0].metrics
    ]
    streamed = all_figures([dataclasses.replace(RUNS[0], metrics=phases)], ["phases"])
    numbers = [{**record, "test": {"r2": 0.5, "loss": 0.5}} for record in RUNS[0].metrics]
    predicted = all_figures([dataclasses.replace(RUNS[0], metrics=numbers)], ["loss"])
    return {figure.name: figure for figure in [*all_figures(RUNS), *clients, *streamed, *predicted]}


def test_records_of_everything_fill_every_figure(figures):
    assert sorted(figures) == sorted(kind.name for kind in KINDS)


@pytest.mark.parametrize(
    ("clients", "labels"), [(5, "0 10 20 30 40"), (30, "0 30 60 90 120 150 180 210 240 290")]
)
def test_columns_of_a_matrix_have_labels_that_fit(clients, labels):
    run = made_up_run(rounds=2, clients=clients, probe_every=2)
    [figure] = all_figures([run], ["client-matrices"])
    picture = vl_convert.vegalite_to_svg(figure.chart.to_dict(), config=config("#000"))
    axis = re.search(r"X-axis titled 'data of client'.*?role-axis-title", picture, re.S).group()
    assert " ".join(re.findall(r">(\d+)</text>", axis)) == labels


@pytest.mark.parametrize("name", [kind.name for kind in KINDS])
def test_a_figure_is_valid_described_and_drawn(figures, name):
    spec = figures[name].chart.to_dict(validate=True)
    assert len(spec["description"]) > 30
    assert "http" not in json.dumps({key: value for key, value in spec.items() if key != "$schema"})
    assert "tooltip" in json.dumps(spec)
    picture = vl_convert.vegalite_to_svg(spec, config=config("#000"))
    assert picture.count("<path") > 5
    assert "NaN" not in picture


def test_what_was_not_measured_has_no_figure():
    bare = dataclasses.replace(RUNS[0], probes=[], timings=[], label_counts=None)
    names = [figure.name for figure in all_figures([bare])]
    assert names == [
        *("accuracy", "round-forgetting", "retention", "distribution", "per-class", "privacy"),
        *("clients", "costs"),
    ]
    empty = RunRecords("a", [{"schema": 1, "round": 1, "clients": []}])
    assert all_figures([empty]) == []


def test_runs_on_different_data_stand_side_by_side():
    runs = [made_up_run("few", classes=3), made_up_run("many", classes=50, clients=6)]
    shown = [figure.name for figure in all_figures(runs)]
    assert shown == [kind.name for kind in KINDS if kind.name not in ("clients", "phases", "loss")]


def test_sliders_go_over_the_probed_rounds(figures):
    assert list(figures["client-matrices"].rounds) == [2, 4]
    assert list(figures["accuracy"].rounds) == []
    params = figures["client-matrices"].chart.to_dict()["params"]
    assert [(param["name"], param["value"], param["bind"]["max"]) for param in params] == [("probe", 0, 1)]


def test_compared_runs_share_the_color_scale(figures):
    panels = figures["client-matrices"].chart.to_dict()["concat"]
    scales = [panel["layer"][0]["encoding"]["color"]["scale"] for panel in panels]
    assert len(scales) == 6
    assert scales[2] == scales[5]
    assert scales[2]["domain"][0] == -scales[2]["domain"][1]
    assert all(scale["domain"] == [0, 1] for scale in scales[0:2] + scales[3:5])


def test_a_run_has_the_same_color_in_figures_that_another_is_not_in():
    alone = dataclasses.replace(made_up_run("alone", 3), probes=[])
    alone = dataclasses.replace(
        alone, metrics=[{**record, "forgetting": {"round": None}} for record in alone.metrics]
    )
    named = {figure.name: figure.chart.to_dict() for figure in all_figures([alone, RUNS[0], RUNS[2]])}
    for name, shown in (("accuracy", ["alone", "fedavg", "wsm"]), ("round-forgetting", ["fedavg", "wsm"])):
        color = named[name]["layer"][1]["encoding"]["color"]
        assert color["scale"]["domain"] == ["alone", "fedavg", "wsm"]
        assert color["legend"].get("values", ["alone", "fedavg", "wsm"]) == shown


def test_the_mean_in_a_title_is_that_of_the_summary():
    run = made_up_run("fedavg", 0, rounds=6, probe_every=1)
    named = {figure.name: figure for figure in all_figures([run])}
    found = summarize(run)
    assert f"{abs(100 * found['client_forgetting']):.1f}" in named["client-matrices"].title


def test_tables_survive_awkward_strings():
    data = table([{"name": 'a,"b"\nc', "value": 0.123456}, {"name": "1", "value": float("nan")}])
    found = list(csv.DictReader(io.StringIO(data.values, newline="")))
    assert found == [{"name": 'a,"b"\nc', "value": "0.1235"}, {"name": "1", "value": ""}]
    assert data.format.parse == {"name": "string", "value": "number"}


@pytest.mark.parametrize("label", ["it's", "a\\b", "</script>", "é 中 😀", "a\nb"])
def test_any_label_is_safe_in_an_expression(label):
    rows = alt.InlineData(values=[{"run": name, "value": 1} for name in (label, "other")])
    chart = alt.Chart(rows).mark_point().encode(x="value:Q").transform_filter(run_filter(label))
    picture = vl_convert.vegalite_to_svg(chart.to_dict())
    assert picture.count('aria-roledescription="point"') == 1


def test_two_rounds_have_two_labels():
    [figure] = all_figures([made_up_run(rounds=2)], ["accuracy"])
    picture = vl_convert.vegalite_to_svg(figure.chart.to_dict(), config=config("#000"))
    axis = re.search(r"X-axis titled 'round'.*?role-axis-title", picture, re.S).group()
    assert re.findall(r">(\d+)</text>", axis) == ["1", "2"]


def test_metrics_of_the_users_own_have_a_curve_each():
    run = made_up_run()
    metrics = [{**record, "auroc": 0.5, "own": {"a": -2.0, "b": record["round"]}} for record in run.metrics]
    figures = {figure.name: figure for figure in all_figures([dataclasses.replace(run, metrics=metrics)])}
    assert [name for name in figures if name.startswith("metric-")] == [
        "metric-auroc",
        "metric-own-a",
        "metric-own-b",
    ]
    assert "fedavg,1,-2," in json.dumps(figures["metric-own-a"].chart.to_dict(validate=True))
    rows = curves.recorded_rows("own.b", [dataclasses.replace(run, metrics=metrics)])
    assert [(row["round"], row["mean"]) for row in rows] == [(t, t) for t in range(1, 6)]


MATRIX = {"model": "1", "before": None, "after": None, "own": 0, "run": "a", "probe": 0, "round": 1}


@pytest.mark.parametrize(
    ("lost", "says"), [(0.1, "costs 10.0 points"), (-0.02, "adds 2.0 points"), (0.0, "changes nothing")]
)
def test_the_title_of_the_matrices_says_what_they_show(lost, says):
    rows = [{**MATRIX, "data": "F_k", "lost": lost}, {**MATRIX, "data": "2", "lost": 0.9}]
    assert says in client_forgetting.title(rows)


def test_the_title_of_one_client_has_its_numbers():
    rows = [
        {"client": "7", "accuracy": accuracy, "labels": labels} for accuracy, labels in ((0.2, 3), (0.9, 0))
    ]
    assert classes.one_client_title(rows, DISPLAY) == (
        "Model of client 7 after local training: 20% on the classes of its data, 90% on the others"
    )
    assert classes.one_client_title(rows[:1], DISPLAY).endswith("20% on the classes of its data")


def test_the_title_of_the_probabilities_has_their_means():
    rows = [{"share": share, "probability": p} for share, p in ((0.5, 0.6), (1.0, 0.8), (0.0, 0.1))]
    title = clients.probability_title(rows, DISPLAY)
    assert "has with a mean probability of 70%" in title
    assert title.endswith("lacks with 10%")
    assert (
        clients.probability_title(rows[:1], DISPLAY) == "Output probability of each class by its label count"
    )


@pytest.mark.parametrize(
    ("task", "units", "metric", "by_client"),
    [
        (Classification, "classes", "accuracy", "accuracy"),
        (MultiLabel, "labels", "balanced accuracy", "fraction of correct labels"),
        (Regression, "clients", "explained variance", "explained variance"),
    ],
)
def test_figures_have_the_names_of_the_task(task: type[Task], units, metric, by_client):
    metrics = [
        {**record, "test": {**record["test"], task.metric: 0.5}}
        if task is Classification
        else {
            **record,
            "test": {k: v for k, v in record["test"].items() if k != "accuracy"} | {task.metric: 0.5},
        }
        for record in RUNS[0].metrics
    ]
    figures = {figure.name: figure for figure in all_figures([dataclasses.replace(RUNS[0], metrics=metrics)])}
    assert figures["per-class"].section == f"Which {units} are lost"
    assert f"mean over {units}" in figures["knowledge-lost"].caption
    assert metric in figures["per-class"].title.lower()
    spec = figures["per-class"].chart.to_dict()["concat"][0]["encoding"]
    assert (spec["y"]["title"], spec["color"]["legend"]["title"]) == (task.unit, metric)
    assert spec["y"]["field"] == "class"
    assert f"{by_client} lost on other clients' data" in figures["client-means"].caption
    assert figures["accuracy"].title.endswith("of the global model")
    assert ("loss" in figures) == (task is not Classification)


def test_a_limit_on_the_classes_is_named_where_it_applies(monkeypatch):
    rows = classes.per_class_rows(RUNS)
    assert "At most" not in classes.draw_per_class(rows, DISPLAY).caption
    monkeypatch.setattr("eunoe.report.theme.MOST_CLASSES", 2)
    assert "At most 2 classes" in classes.draw_per_class(rows, DISPLAY).caption


def test_drift_of_one_client_has_one_wide_panel():
    rows = [
        {"run": "a", "round": number, "start": 1.0, "apart": math.nan, "cosine": math.nan}
        for number in (1, 2)
    ]
    figure = clients.draw_drift(rows, DISPLAY)
    (panel,) = figure.chart.to_dict()["concat"]
    assert panel["width"] > panel["height"]
    assert figure.caption == "Mean distance from the start model."


def test_steps_and_directions_have_colors_that_no_run_has():
    assert not set(theme.STEP_COLORS) & {*theme.PALETTE, *theme.DARK_PALETTE}
    chart = clients.draw_cost(clients.cost_rows(RUNS), DISPLAY).chart.to_dict()
    ranges = [panel["encoding"]["color"]["scale"]["range"] for panel in chart["concat"]]
    assert all(set(colors) <= set(theme.STEP_COLORS) for colors in ranges)

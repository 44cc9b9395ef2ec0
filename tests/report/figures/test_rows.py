"""The tidy rows behind the figures, on numbers worked by hand."""

import numpy as np
import pytest

from eunoe.report.figures import classes, client_forgetting, clients, curves, partition, series, steps
from eunoe.report.figures.charts import phase_strip
from eunoe.report.theme import MOST_CLASSES, MOST_CLIENTS, MOST_POINTS
from eunoe.store.run_records import RunRecords
from tests.report.made_up import made_up_run


def run(label, accuracies, forgotten=None, **options):
    metrics = [
        {
            "schema": 1,
            "round": number,
            "test": {"accuracy": accuracy, "loss": 1.0, "per_class": [accuracy, None]},
            "forgetting": {"round": (forgotten or {}).get(number), "fedntd": None},
        }
        for number, accuracy in enumerate(accuracies, start=1)
    ]
    return RunRecords(label, metrics, **options)


def test_bands_are_over_seeds_and_leave_unknown_rounds_out():
    found = curves.ACCURACY.rows([run("a", [0.2, None]), run("a", [0.4, 0.6]), run("b", [0.9])])
    first, second, third = found
    assert (first["run"], first["round"], first["seeds"]) == ("a", 1, 2)
    assert (first["mean"], first["low"], first["high"]) == pytest.approx(
        (0.3, 0.3 - 0.02**0.5, 0.3 + 0.02**0.5)
    )
    assert (second["round"], second["mean"], second["seeds"]) == (2, 0.6, 1)
    assert third["run"] == "b"


def test_the_first_round_has_no_round_forgetting():
    assert [row["round"] for row in curves.ROUND_FORGETTING.rows([run("a", [0.2, 0.3], {2: 0.1})])] == [2]


def test_distribution_is_over_all_seeds():
    seeds = [run("a", [0.1] * 3, {2: 0.2, 3: 0.0}), run("a", [0.1] * 3, {2: 0.2, 3: 0.4})]
    found = [[row["lost"], row["share"]] for row in curves.distribution_rows(seeds)]
    np.testing.assert_allclose(found, [[0.0, 0.25], [0.2, 0.75], [0.4, 1.0]])


def test_classes_without_data_have_no_cells():
    assert {row["class"] for row in classes.per_class_rows([run("a", [0.2, 0.3])])} == {"0"}


STEP = {
    "schema": 1,
    "round": 4,
    "probe": "local_per_class",
    "clients": [7, 9],
    "start": [0.8, 0.5],
    "local": [[0.4, 0.5], [0.6, 0.9]],
    "merged": [0.7, 0.4],
    "counts": [[3, 0], [0, 2]],
    "loss": {"start": 1.0, "local": [2.0, 3.0], "merged": 1.2},
}
MATRIX = {"schema": 1, "round": 4, "probe": "client_matrix", "models": [7, 9], "data": [7, 9]} | {
    "start": [0.8, 0.6],
    "after": [[0.9, 0.2], [0.3, 0.7]],
}


def test_parts_by_hand():
    local, merge = steps.step_rows([run("a", [0.5], probes=[STEP])])
    # Signed: class 0 loses 0.3 locally and gains 0.2 back, class 1 gains 0.2 and loses 0.5.
    assert (local["signed"], merge["signed"]) == pytest.approx((0.05, 0.05))
    # Lost: locally 0.4, 0.2, 0, 0 of four; in aggregation nothing of class 0 (0.6 < 0.7) and 0.5 of class 1.
    assert (local["lost"], merge["lost"]) == pytest.approx((0.15, 0.25))


def test_saw_tooth_by_hand():
    found = steps.saw_tooth_rows([run("a", [0.5], probes=[STEP])])
    assert [(row["at"], row["loss"]) for row in found] == [(3, 1.0), (3.5, 2.5), (4, 1.2)]
    overflown = {**STEP, "round": 5, "loss": {**STEP["loss"], "merged": None}}
    assert steps.saw_tooth_rows([run("a", [0.5], probes=[STEP, overflown])]) == found


def test_matrices_by_hand():
    found = client_forgetting.matrix_rows([run("a", [0.5], probes=[MATRIX])])
    cells = {(row["model"], row["data"]): row for row in found}
    assert cells["7", "9"]["lost"] == pytest.approx(0.4)
    assert cells["7", "F_k"]["lost"] == pytest.approx(0.4)
    assert cells["9", "F_k"]["lost"] == pytest.approx(0.5)
    assert [key for key, row in cells.items() if row["own"]] == [("7", "7"), ("9", "9")]


@pytest.mark.parametrize("first", [0, 1])
def test_runs_with_different_numbers_of_classes_each_show_their_own(first, monkeypatch):
    monkeypatch.setattr(series, "MOST_CLASSES", 4)
    few, many = made_up_run("few", classes=3), made_up_run("many", classes=9)
    runs = [few, many] if first == 0 else [many, few]
    for found in (classes.per_class_rows(runs), classes.local_models_rows(runs)):
        shown = {label: {row["class"] for row in found if row["run"] == label} for label in ("few", "many")}
        assert shown["few"] == {"0", "1"}
        assert len(shown["many"]) == 4
    assert classes.one_client_rows(runs)


def test_local_models_go_from_start_to_global():
    found = classes.local_models_rows([run("a", [0.5], probes=[STEP])])
    assert list(dict.fromkeys(row["model"] for row in found)) == ["start", "client 7", "client 9", "global"]
    assert [row["labels"] for row in found if row["model"] == "client 7"] == [3, 0]


def test_one_client_is_the_one_that_took_part_most():
    again = STEP | {"round": 5, "clients": [9, 8]}
    found = classes.one_client_rows([run("a", [0.5], probes=[STEP, again])])
    assert {row["client"] for row in found} == {"9"}
    assert [(row["round"], row["accuracy"]) for row in found] == [(4, 0.6), (4, 0.9), (5, 0.4), (5, 0.5)]


def test_the_slider_has_the_rounds_that_all_runs_probed():
    runs = [run("a", [0.5], probes=[STEP, STEP | {"round": 6}]), run("b", [0.5], probes=[STEP])]
    assert series.probed_rounds(runs, "local_per_class") == [4]


def test_costs_are_means_over_seeds():
    found = clients.cost_rows([made_up_run(seed=0, rounds=4), made_up_run(seed=1, rounds=4)])
    assert {(row["unit"], row["kind"]): row["amount"] for row in found} == {
        ("bytes", "up"): 400,
        ("bytes", "down"): 800,
        ("seconds", "train"): 8.0,
        ("seconds", "evaluate"): 2.0,
    }


def test_the_same_partition_is_shown_once():
    assert [row["run"] for row in partition.rows([made_up_run("a"), made_up_run("b")])] == ["a"]
    assert len(partition.rows([made_up_run("a"), made_up_run("b", seed=1)])) == 2


def test_thinning_keeps_the_ends():
    kept = series.thin(range(1000), 7)
    assert (kept[0], kept[-1], len(kept)) == (0, 999, 7)
    assert series.thin([1, 2], 7) == [1, 2]


def test_thinned_curves_keep_every_peak_and_valley_of_a_long_run():
    heights = np.full(100_000, 0.5)
    heights[[31_416, 71_828]] = 0.9, 0.1
    kept = series.select_peaks(heights, 480)
    assert len(kept) <= 480
    assert {0, 31_416, 71_828, 99_999} <= set(kept)
    assert kept == sorted(kept)
    assert series.select_peaks(heights[:480], 480) == list(range(480))


def test_a_curve_over_seeds_has_the_mean_and_deviation_of_those_that_have_the_round():
    by_seed = {0: ([1, 2, 3], np.array([0.2, 0.4, np.nan])), 1: ([2, 3], np.array([0.6, 0.5]))}
    seeds = [made_up_run(seed=seed) for seed in by_seed]
    found = series.mean_curve(seeds, lambda run: by_seed[seeds.index(run)])
    assert found.rounds.tolist() == [1, 2, 3]
    assert found.mean.tolist() == pytest.approx([0.2, 0.5, 0.5])
    assert found.deviation.tolist() == pytest.approx([0, np.sqrt(0.02), 0])
    assert found.seeds.tolist() == [1, 2, 1]


def test_long_runs_of_many_clients_and_classes_stay_small():
    big = made_up_run(rounds=300, classes=60, clients=30, probe_every=20)
    assert len({row["round"] for row in classes.per_class_rows([big])}) <= MOST_POINTS
    assert len({row["class"] for row in classes.per_class_rows([big])}) <= MOST_CLASSES
    assert len({row["model"] for row in client_forgetting.matrix_rows([big])}) == MOST_CLIENTS
    assert len({row["class"] for row in classes.local_models_rows([big])}) <= MOST_CLASSES


def test_of_many_clients_data_each_models_own_are_kept():
    run = made_up_run(clients=100)
    matrix = {"probe": "client_matrix", "round": 2, "models": [3, 97], "data": list(range(100)),
              "start": [0.5] * 100, "after": [[0.4] * 100, [0.3] * 100]}  # fmt: skip
    cells = client_forgetting.matrix_rows([RunRecords("run", run.metrics, [matrix], config=run.config)])
    assert {(row["model"], row["data"]) for row in cells if row["own"]} == {("3", "3"), ("97", "97")}
    assert len({row["data"] for row in cells}) == 2 * MOST_CLIENTS + 1


def test_of_many_classes_those_that_lose_most_are_kept():
    metrics = [
        {"schema": 1, "round": t, "test": {"accuracy": 0.5, "loss": 1.0}} | {"forgetting": None}
        for t in (1, 2)
    ]
    metrics[0]["test"]["per_class"] = [0.5] * 50
    metrics[1]["test"]["per_class"] = [0.5] * 49 + [0.1]
    run_of_many = RunRecords("a", metrics)
    kept = series.select_classes([run_of_many], run_of_many)
    assert len(kept) == MOST_CLASSES
    assert kept == [*range(39), 49]
    assert np.all(np.diff(kept) > 0)


def test_phases_without_classes_show_the_accuracy_around_each() -> None:
    metrics = [
        {"round": n, "clients": [0], "test": {"accuracy": a}, "phases": {"phase": 1 + (n > 2), "began": b}}
        for n, a, b in ((1, 0.2, 1), (2, 0.8, 1), (3, 0.5, 3), (4, 0.7, 3))
    ]
    found = curves.phase_rows([RunRecords("run", metrics)])
    assert [(row["phase"], row["part"], row["accuracy"]) for row in found] == [
        (1, "at its end", 0.8),
        (2, "before the phase", 0.8),
        (2, "lowest in the phase", 0.5),
        (2, "at its end", 0.7),
    ]


def test_the_strip_shows_phases_that_all_runs_share() -> None:
    rows = [{"run": "a", "round": n, "began": 1 if n < 5 else 5} for n in range(1, 9)]
    assert len(phase_strip(rows)) == 3
    assert phase_strip([{"run": "a", "round": 1}]) == []
    other = [{**row, "run": "b", "began": 1 if row["round"] < 3 else 3} for row in rows]
    assert len(phase_strip([*rows, *other])) == 1

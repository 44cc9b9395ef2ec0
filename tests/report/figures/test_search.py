"""The figures of a search, by hand."""

from dataclasses import replace

from eunoe.report.figures.search import both_models, final_points, search_figures
from eunoe.store.run_records import RunRecords


def made_up(name: str, accuracies: list[float], seed: int = 0) -> RunRecords:
    metrics = [
        {
            "round": round,
            "validation": {"accuracy": accuracy},
            "forgetting": {"round": None if round == 1 else 0.1},
        }
        for round, accuracy in enumerate(accuracies, start=1)
    ]
    config = {"name": name, "seed": seed, "rounds": len(accuracies), "evaluation": {"last": 1}}
    return RunRecords(name, metrics, config=config)


def test_a_remedy_has_a_line_and_a_point_however_far_its_seeds_came() -> None:
    runs = [made_up("wsm", [0.2, 0.4]), made_up("wsm", [0.4, 0.6], seed=1), made_up("fedavg", [0.3])]
    points = {row["run"]: row for row in final_points(runs)}
    assert points["wsm"]["accuracy"] == 0.5
    assert points["wsm"]["forgetting"] == 0.1
    assert [points[name]["rounds"] for name in ("wsm", "fedavg")] == [2, 1]
    curves, scatter = search_figures(runs)
    assert "wsm,1,0.3" in str(curves.chart.to_dict())
    assert "fedavg,1,0.3" in str(scatter.chart.to_dict())
    assert search_figures([made_up("empty", [])]) == []


def test_a_run_that_averages_is_shown_by_both_of_its_models() -> None:
    run = made_up("wsm", [0.9])
    sent = {"validation": {"accuracy": 0.6}, "forgetting": {"round": 0.2}}
    averaged = replace(run, metrics=[{**record, "sent": sent} for record in run.metrics])
    points = {row["run"]: row["accuracy"] for row in final_points(both_models(averaged))}
    assert points == {"wsm": 0.6, "wsm with averaging": 0.9}


def test_only_the_best_of_those_that_came_furthest_have_a_color() -> None:
    runs = [made_up(f"remedy {number}", [0.1, 0.1 * number]) for number in range(9)]
    curves, _ = search_figures([*runs, made_up("soon", [0.99])])
    spec = curves.chart.to_dict()
    others, named = spec["layer"]
    assert others["encoding"]["color"] == {"value": "#8c8c8c"}
    best = [f"remedy {number}" for number in (8, 7, 6, 5, 4, 3)]
    assert named["encoding"]["color"]["scale"]["domain"] == best
    assert "soon,1,0.99" in spec["datasets"][others["data"]["name"]]


def test_a_remedy_has_the_color_of_its_runs_in_the_report() -> None:
    curves, _ = search_figures([made_up("wsm", [0.2, 0.9]), made_up("fedavg", [0.2, 0.3])], ["fedavg", "wsm"])
    (named,) = curves.chart.to_dict()["layer"]
    assert named["encoding"]["color"]["scale"]["domain"] == ["fedavg", "wsm"]

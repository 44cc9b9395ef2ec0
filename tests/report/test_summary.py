"""The first screen of the report: its sentence, its table, and what counts as better."""

import re
from dataclasses import replace
from typing import Any

from eunoe.report.figures.series import group_by_label
from eunoe.report.summary import describe_setting, summary_html
from eunoe.store.run_records import RunRecords

BASE = (0.50, 0.52, 0.54)


def run(
    label: str, seed: int, end: float, forgetting: float = 0.1, start: float = 0.2, **config: Any
) -> RunRecords:
    """A run of two rounds from one accuracy to another."""
    metrics = [
        {
            "round": round,
            "sizes": [9],
            "steps": [1],
            "bytes_up": 2e6,
            "bytes_down": 1e6,
            "forgetting": {"round": lost},
        }
        | {"test": {"accuracy": accuracy, "loss": 1.0, "per_class": [accuracy] * 10}}
        for round, accuracy, lost in ((1, start, None), (2, end, forgetting))
    ]
    return RunRecords(label, metrics, config={"seed": seed, "evaluation": {"last": 1}, **config})


def runs(label: str, ends: tuple[float, ...], forgetting: float = 0.1, **config: Any) -> list[RunRecords]:
    return [run(label, seed, end, forgetting + end / 100, **config) for seed, end in enumerate(ends)]


def summary(*groups: list[RunRecords]) -> tuple[str, list[list[str]]]:
    html = summary_html(group_by_label([run for group in groups for run in group]))
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", html)]
    sentence = re.search(r'class="finding">(.*?)</p>', html)
    assert sentence is not None
    return sentence[1], [[re.sub("<span class.*?</span>|</?span>", "", cell) for cell in row] for row in rows]


def test_a_gain_is_said_with_its_paired_interval() -> None:
    # The differences 0.10, 0.12 and 0.14 have mean 0.12; t = 4.303 times 0.02 / sqrt(3) is 0.0497.
    better = runs("better", (0.60, 0.64, 0.68), 0.0)
    sentence, rows = summary(runs("plain", BASE), better)
    assert sentence == (
        "better has a higher accuracy than plain: +12.0 points [7.0, 17.0], and loses 9.9 points less "
        "per round [9.8, 9.9] (paired 95% intervals over 3 seeds)."
    )
    assert rows[0] == ["run", "accuracy", "forgetting", "rounds to 0.520", "MB a round"]
    assert rows[1] == ["plain", "0.520 ± 0.020", "0.1052 ± 0.0002", "2", "3.000"]
    assert rows[2][:2] == ["better", "<strong>0.640 ± 0.040</strong>"]


def test_a_larger_mean_within_its_interval_is_not_better() -> None:
    # The differences -0.02, 0.01 and 0.04 have mean 0.01; t times 0.03 / sqrt(3) is 0.0745.
    sentence, rows = summary(runs("plain", BASE), runs("other", (0.48, 0.53, 0.58)))
    assert sentence == (
        "No run has a significantly higher accuracy than plain: the largest gain is that of other, "
        "+1.0 points [-6.5, 8.5] over 3 seeds."
    )
    assert not any("<strong>" in cell for row in rows for cell in row)


def test_one_seed_says_nothing_of_differences() -> None:
    sentence, rows = summary(runs("plain", (0.5,)), runs("other", (0.9,)))
    known = "plain has accuracy 0.500 (one seed, so its uncertainty is unknown) and loses 10.5 points"
    assert sentence.startswith(known)
    assert sentence.endswith("A difference between runs needs two seeds that both have.")
    assert not any("<strong>" in cell for row in rows for cell in row)


def test_runs_are_compared_with_fedavg() -> None:
    sentence, _ = summary(runs("a", (0.6, 0.6, 0.6), method="moon"), runs("b", BASE))
    assert "a has a higher accuracy than b: +8.0 points" in sentence
    averaged = runs("c", (0.6, 0.6, 0.6), averaging={"last": 2})
    assert "c has a higher accuracy than b: +8.0 points" in summary(averaged, runs("b", BASE))[0]


def test_runs_of_other_data_are_not_compared() -> None:
    other = [replace(each, config={**each.config, "data": {"name": "mnist"}}) for each in runs("other", BASE)]
    sentence, rows = summary(runs("plain", BASE), other)
    assert sentence == "The runs have different data and cannot be compared."
    assert rows[0] == ["run", "accuracy", "forgetting", "MB a round"]


def test_rounds_that_say_nothing_are_left_out() -> None:
    _, rows = summary([run("plain", 0, 0.2)], [run("other", 0, 0.3)])
    assert rows[0] == ["run", "accuracy", "forgetting", "MB a round"]
    _, rows = summary([run("plain", 0, 0.5)], [run("low", 0, 0.3)])
    assert [row[3] for row in rows] == ["rounds to 0.500", "2", "never"]


def test_the_setting_is_in_one_line() -> None:
    assert describe_setting(group_by_label(runs("plain", BASE))) == "digits · 2 rounds · seeds 0, 1, 2"

"""The leaderboard: gains with intervals, ranks, ratios, and entries that lack a setting."""

from typing import Any

import pytest

from eunoe.analysis.leaderboard import Leaderboard, stratified_interval


def row(entry: str, setting: str, seed: int, accuracy: float, **more: Any) -> dict[str, Any]:
    numbers = {"balanced": accuracy, "worst_client": None, "forgetting": 0.01, "sent_forgetting": 0.02}
    curve = [[1, 2, 3, 4], [0.1, 0.3, 0.5, accuracy]]
    cost = {"bytes": 100, "samples": 10, "validation": 0.5, "curve": curve, "diverged": False}
    return {"entry": entry, "setting": setting, "seed": seed, "accuracy": accuracy, **numbers, **cost, **more}


def board() -> Leaderboard:
    rows = [
        *(row("fedavg", "a", seed, 0.5 + 0.01 * seed, half="design") for seed in (0, 1)),
        *(row("fedavg", "b", seed, 0.6, half="judging") for seed in (0, 1)),
        *(row("mine", "a", seed, 0.6 + 0.01 * seed, bytes=200, half="design") for seed in (0, 1)),
        *(row("mine", "b", seed, 0.62 + 0.02 * seed, half="judging") for seed in (0, 1)),
        {"entry": "needy", "setting": "a", "reason": "it needs public data"},
        *(row("needy", "b", seed, 0.9, half="judging") for seed in (0, 1)),
    ]
    return Leaderboard("Two settings", rows, ["a", "b"])


def test_the_interval_comes_from_the_variation_within_groups() -> None:
    interval = stratified_interval([[0.01, 0.03], [0.02, 0.04]])
    # Both groups have variance 0.0002 of values, 0.0001 of means; the mean of both has error 0.01 / sqrt(2)
    # and two degrees of freedom, whose quantile is 4.3027.
    assert interval.mean == pytest.approx(0.025)
    assert interval.high - interval.mean == pytest.approx(4.30265 * 0.0001**0.5 / 2**0.5, rel=1e-5)
    assert stratified_interval([[0.1, 0.1]]) == (0.1, 0.1, 0.1)


def test_entries_are_ranked_by_their_gain_over_fedavg() -> None:
    first, second, last = board().standings
    assert (first.name, second.name, last.name) == ("mine", "fedavg", "needy")
    # Ten points in a, two and four in b.
    assert first.by_setting == pytest.approx({"a": 0.10, "b": 0.03})
    assert first.gain.mean == pytest.approx(0.065)
    assert first.bytes == pytest.approx(1.5)
    assert last.missing == {"a": "it needs public data"}
    # Half of the accuracy is reached in the third of four rounds.
    assert first.rounds == "75% (4 of 4)"


def test_a_rank_is_a_sentence_with_its_interval_and_equals() -> None:
    assert board().describe("mine").startswith("mine is 1st of 2; +6.5 points [")
    assert board().describe("needy") == ("needy is not ranked: not applicable in 'a' (it needs public data)")
    assert "mine (not in" not in str(board().table().rows)
    assert "needy (not in 1)" in str(board().table().rows)


def test_forgetting_that_was_not_measured_is_a_dash() -> None:
    rows = [row("fedavg", "a", seed, 0.5, forgetting=None, sent_forgetting=None) for seed in (0, 1)]
    (cells,) = Leaderboard("One round", rows, ["a"]).table().rows
    assert cells[4:6] == ["–", "–"]

"""Differences by seed, by hand."""

from pathlib import Path

import pytest

from eunoe.analysis.comparison import Comparison
from eunoe.analysis.paired import Arm, Paired
from eunoe.analysis.statistics import paired_interval
from eunoe.errors import InputError
from tests.analysis.test_comparison import made_up


def test_one_seed_or_unequal_ones_are_refused() -> None:
    with pytest.raises(InputError, match="at least two seeds"):
        paired_interval([0.5], [0.4])
    with pytest.raises(InputError, match="2 and 1 values cannot be paired"):
        paired_interval([0.5, 0.6], [0.4])
    one, two = Arm("one", {0: {}, 1: {}}), Arm("two", {1: {}, 2: {}})
    with pytest.raises(InputError, match="two has seeds 1, 2 and one has 0, 1: paired differences"):
        Paired([one, two])
    with pytest.raises(InputError, match="at least two seeds"):
        Paired([Arm("one", {0: {}}), Arm("two", {0: {}})])
    with pytest.raises(InputError, match="at least two settings"):
        Paired([one])


def test_runs_are_paired_by_their_seed_whatever_their_order(tmp_path: Path) -> None:
    runs = [
        made_up(tmp_path / "a1", [0.4, 0.5], seed=1),
        made_up(tmp_path / "a0", [0.2, 0.3], seed=0),
        made_up(tmp_path / "b0", [0.3, 0.4], seed=0, loss="wsm"),
        made_up(tmp_path / "b1", [0.5, 0.6], seed=1, loss="wsm"),
    ]
    paired = Comparison(runs).paired()
    found = paired.difference("fedavg · wsm")
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    reference, other = paired.table([("accuracy", "accuracy", 3)]).rows
    assert reference == ["fedavg · ce", "2", "0.350 ± 0.141", ""]
    assert other == ["fedavg · wsm", "2", "+0.100 [+0.100, +0.100]", "yes"]
    assert "+0.100" in repr(paired)
    with pytest.raises(InputError, match="no 'x' beside 'fedavg · ce'"):
        paired.difference("x")
    with pytest.raises(InputError, match="more than one run of a seed"):
        Comparison([runs[0], *runs]).paired()


def test_a_run_that_diverged_has_no_difference(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / f"a{seed}", [0.4], seed=seed) for seed in (0, 1)]
    runs += [made_up(tmp_path / "b0", [0.9], seed=0, loss="wsm")]
    runs += [made_up(tmp_path / "b1", [0.9], "diverged", seed=1, loss="wsm")]
    (_, other) = Comparison(runs).paired().table([("accuracy", "accuracy", 3)]).rows
    assert other[2:] == ["–", "no"]

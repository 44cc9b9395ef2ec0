"""The order of remedies by their gains in similar settings, and the recommended preset."""

import numpy as np
import pytest
from tools.store_leaderboard import GAINS, remedy_gains

from eunoe.analysis import remedies
from eunoe.analysis.remedies import TABLE, Clients, Remedy, order_by_gain, recommend
from eunoe.search.bench import read_stored

HERE = Clients(0.5, 100.0, 2.0)


def test_what_is_known_of_clients() -> None:
    assert Clients.of(np.array([[4, 0], [0, 4]]), 1) == (0.5, 4.0, 1)
    assert Clients.of(None, 2).skew == 0
    assert HERE.closeness(HERE) == 1
    # Half as much 0.3 of label skew or a factor of ten of samples away, a quarter with both.
    assert HERE.closeness(HERE._replace(skew=0.8)) == pytest.approx(0.5)
    assert HERE.closeness(HERE._replace(skew=0.2, samples=1000.0)) == pytest.approx(0.25)


def test_each_remedy_adds_most_to_the_best_of_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [
        {"name": "a", "clients": [*HERE], "gains": {"x": 3.0, "y": 2.0, "w": 2.5, "z": -1.0}},
        {"name": "b", "clients": [*HERE], "gains": {"x": -2.0, "y": 2.0, "w": -3.0, "z": -1.0}},
        {"name": "far", "clients": [0.5, 100.0, 2e6], "gains": {"z": 50.0}},
    ]
    monkeypatch.setattr(remedies, "read_gains", lambda: settings)
    tried = [Remedy(name) for name in ("unknown", "z", "w", "x", "y")]
    # y: +2 in both; then x adds a point in a. w and z add nothing to these.
    assert [remedy.name for remedy in order_by_gain(tried, HERE)] == ["y", "x", "unknown", "w", "z"]


def test_the_momentum_of_the_preset_follows_from_what_a_round_covers() -> None:
    def momentum(skew: float, taking: float) -> float:
        return float(recommend(Clients(skew, 100.0, taking)).changes["method"]["momentum"])

    # One client with a third of the classes, two with half of them, and three with all.
    assert [momentum(0.68, 1), momentum(0.6, 2), momentum(0.0, 3)] == [0.5, 0.72, 0.85]
    assert recommend(Clients(0.68, 58, 1)).lr == 0.5
    assert recommend(Clients(0.0, 58, 3)).lr == pytest.approx(1 / 3)


def test_the_gains_are_those_of_the_stored_leaderboard() -> None:
    assert GAINS.read_text("utf-8") == remedy_gains(read_stored())
    labels = {remedy.label for remedy in TABLE} | {"averaging"}
    assert all(label in labels for setting in remedies.read_gains() for label in setting["gains"])

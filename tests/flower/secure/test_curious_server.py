"""A curious server reads clients' classes from plain updates, and from masked ones it can only guess."""

import pytest

pytest.importorskip("flwr")

from benchmarks.privacy import plain_and_masked, read_classes


def test_classes_are_read_from_plain_updates_and_guessed_from_masked_ones():
    simulation, plain, masked = plain_and_masked(
        {
            "data": "digits",
            "partition": {"name": "dirichlet", "clients": 40, "alpha": 0.5},
            "participation": 1.0,
            "training": {"epochs": 1},
            "model": {"name": "mlp", "hidden": [8]},
            "loss": "wsm",
        },
        rounds=1,
    )
    seen = read_classes(simulation.model, plain)
    # A client with one class only learns nothing under wsm and so shows nothing.
    assert seen.exact >= 0.95
    assert seen.auc >= 0.95
    hidden = read_classes(simulation.model, masked)
    # All rows look moved: right for a client that has all classes.
    assert hidden.exact <= sum(len(client.classes) == 10 for client in plain) / 40 + 0.05
    # 400 guesses: a standard error of 0.03.
    assert abs(hidden.auc - 0.5) < 0.15

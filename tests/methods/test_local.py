"""Clients that train alone: each from its own model, as much as in the federation, the best one kept."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError
from eunoe.methods import Weights
from eunoe.methods.local import Local
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.methods.helpers import Direct, Trial, random_parts, softmax_gradient

LR = 0.5
WHOLE: dict[str, Any] = {"epochs": 1, "batch_size": 0, "lr": LR}


def test_each_client_descends_on_its_own_samples_from_where_it_stopped(tmp_path: Path) -> None:
    parts = random_parts([5, 8], inputs=3, classes=2)
    trial = Trial(tmp_path, parts, "local", training=WHOLE).rounds(3)
    for client, (x, y) in enumerate(parts):
        expected = torch.zeros(6, dtype=torch.float64)
        for _ in range(3):
            expected -= LR * softmax_gradient(expected, x, y)
        own = Local().own_model(trial.states.load(client), "last")
        torch.testing.assert_close(own.parameters, expected, atol=1e-12, rtol=0)
    assert not trial.parameters.any()
    assert trial.record["bytes_up"] == trial.record["bytes_down"] == 0


def own_data(validation: tuple[int, int], test: bool = False) -> Federation:
    """Two clients of one input: client 0 trains on label 0, client 1 on label 1, at x = 1.

    Each validates on one sample at x = 1 with the label passed; the test set has two samples of each client.
    """
    x = torch.ones(6, 1, dtype=torch.float64)
    y = torch.tensor([0, 0, validation[0], 1, 1, validation[1]])
    tested = Samples(torch.ones(4, 1, dtype=torch.float64), torch.tensor([0, 1, 1, 1]))
    train_writers, test_writers = torch.tensor([7, 7, 7, 9, 9, 9]), torch.tensor([7, 7, 9, 9])
    writers = {"writers_train": train_writers, "writers_test": test_writers} if test else {}
    data = DataSet("tiny", Samples(x, y), tested, 2, **writers)
    offsets, ends = np.array([0, 3, 6]), np.array([2, 5])
    return Federation(data, np.arange(6), offsets, ends, offsets[1:], dtype=torch.float64)


def small_run(out: Path, federation: Federation, **changes: Any) -> Run:
    values = {"rounds": 3, "participation": 1.0, "training": WHOLE, "engine": {"name": "serial"}, **changes}
    dtype = {"name": "given", "dtype": "float64"}
    return run({"model": dtype}, federation=federation, model=Direct(), method="local", out=out, **values)


def test_the_best_on_the_own_validation_part_is_kept_and_the_newest_too(tmp_path: Path) -> None:
    """Client 0 validates on what it learns, so its last model is best; client 1 on the contrary."""
    done = small_run(tmp_path / "run", own_data(validation=(0, 0)))

    def after(steps: int, label: int) -> list[float]:
        """One parameter per class at x = 1: each step moves both by LR times the error."""
        w = np.zeros(2)
        for _ in range(steps):
            p = np.exp(w) / np.exp(w).sum()
            w -= LR * (p - np.eye(2)[label])
        return list(w)

    def model(which: Any, client: int) -> list[float]:
        return done.weights(which, client).parameters.tolist()

    assert model("last", 0) == pytest.approx(after(3, 0))
    assert model("best", 0) == pytest.approx(after(3, 0))
    assert model("last", 1) == pytest.approx(after(3, 1))
    assert model("best", 1) == pytest.approx(after(1, 1))
    assert done.records[-1]["validation"]["by_client"]["accuracy"] == [1.0, 0.0]
    np.testing.assert_array_equal(done.predict([[1.0]], client=1), [1])


def test_equally_right_models_are_told_apart_by_their_loss(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", own_data(validation=(0, 1)))
    for client in (0, 1):
        best, last = (done.weights(which, client).parameters for which in ("best", "last"))
        assert torch.equal(best, last)


def test_own_samples_of_the_test_set_are_judged_by_their_own_model(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", own_data(validation=(0, 1), test=True))
    tested = done.records[-1]["test"]
    # Client 0 says 0 to labels 0 and 1; client 1 says 1 to labels 1 and 1.
    assert tested["by_client"]["accuracy"] == [0.5, 1.0]
    assert tested["by_client"]["samples"] == [2, 2]
    assert tested["accuracy"] == 0.75
    assert "forgetting" not in done.records[-1]


def test_a_test_set_of_nobody_is_not_evaluated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    done = small_run(tmp_path / "run", own_data(validation=(0, 1)), rounds=1)
    assert "test" not in done.records[-1]
    assert "no client has test samples of its own" in caplog.text


def test_a_client_that_never_took_part_has_no_model(tmp_path: Path) -> None:
    done = small_run(tmp_path / "run", own_data(validation=(0, 1)), rounds=1, participation=1)
    (trained,) = done.records[0]["clients"]
    with pytest.raises(InputError, match=f"client {1 - trained} has no model: it never took part"):
        done.model(client=1 - trained)
    with pytest.raises(InputError, match="name a client, 0 to 1"):
        done.model()


def test_the_whole_is_compared_by_the_same_steps(tmp_path: Path) -> None:
    """Clients, steps and learning rates of each round are those of the federated run."""
    federation = own_data(validation=(0, 1))
    training = {"epochs": (1, 4), "batch_size": 1, "lr": 0.1, "lr_decay": 0.9}
    alone = small_run(tmp_path / "alone", federation, participation=1, training=training)
    config = {**alone.values, "method": {"name": "fedavg"}}
    federated = run(config, federation=federation, model=Direct(), out=tmp_path / "fed")
    for mine, theirs in zip(alone.records, federated.records, strict=True):
        assert [mine[key] for key in ("clients", "steps", "lr")] == [
            theirs[key] for key in ("clients", "steps", "lr")
        ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"averaging": {"decay": 0.5}}, "averaging cannot be combined with"),
        ({"attack": {"name": "sign_flip", "share": 0.5}}, "attack cannot be combined with"),
        ({"probes": [{"metric": "drift", "every": 1}]}, "probes cannot be combined with"),
        ({"stop": {"test_target": 0.9}}, "set stop.target"),
        ({"server_optimizer": "momentum"}, "server_optimizer cannot be combined"),
        ({"aggregation": "median"}, "aggregation='median' cannot be combined"),
    ],
)
def test_what_needs_a_global_model_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        small_run(tmp_path / "run", own_data(validation=(0, 1)), **change)
    assert not (tmp_path / "run").exists()


def test_a_client_without_validation_part_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = own_data(validation=(0, 1))
    ends = np.array([3, 5])
    federation = Federation(
        whole.data, whole.order, whole.offsets, ends, whole.offsets[1:], dtype=torch.float64
    )
    done = small_run(tmp_path / "run", federation)
    assert "the last model is kept, not the best: client 0" in caplog.text
    best: Weights = done.weights("best", 0)
    assert torch.equal(best.parameters, done.weights("last", 0).parameters)

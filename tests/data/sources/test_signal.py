"""Signals: standardized by the training part's channels, one client for each person."""

import numpy as np
import pytest
import torch

from eunoe.data import builtin
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Natural
from eunoe.errors import InputError


def keep(path, x, **more):
    y = np.arange(len(x)) % 2
    np.savez(path, x_train=x, y_train=y, x_test=x[:2] + 1, y_test=y[:2], **more)


def test_each_channel_is_standardized_by_the_training_part(tmp_path):
    # Channel 0 is 1 and 3 in turn: mean 2, std 1. Channel 1 never varies.
    x = np.tile(np.array([[[1, 5], [3, 5]]], np.float16), (4, 2, 1))
    keep(tmp_path / "s.npz", x, writer_train=np.array([7, 7, 9, 9]))
    data = load("signal", path=str(tmp_path / "s.npz"))
    assert (data.mean, data.std) == ((2.0, 5.0), (1.0, 1.0))
    federation = Federation.build(data, Natural())
    assert len(federation) == 2
    assert federation.shape == (4, 2)
    inputs = federation.inputs("clients", torch.tensor([0]))
    assert inputs.dtype == torch.float32
    assert inputs[0].tolist() == [[-1, 0], [1, 0], [-1, 0], [1, 0]]
    assert federation.inputs("test", torch.tensor([0]))[0, 0].tolist() == [0, 1]


@pytest.mark.parametrize("x", [np.zeros((4, 6), np.float32), np.zeros((4, 6, 2), np.int64)])
def test_what_is_no_signal_is_refused(tmp_path, x):
    keep(tmp_path / "s.npz", x)
    with pytest.raises(InputError, match=r"s: signals must be real \[time, channels\], not "):
        load("signal", path=str(tmp_path / "s.npz"))


def test_windows_of_unequal_length_are_refused():
    from eunoe.data.arrays import from_arrays

    with pytest.raises(InputError, match="x_train consists of lists of unequal lengths"):
        from_arrays([[1.0, 2.0], [1.0]], [0, 1], [[1.0, 2.0]], [0])


def test_people_are_the_clients_of_har(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    y, people = np.arange(24) % 12, np.arange(24) // 8
    x = np.random.default_rng(0).normal(size=(24, 128, 6)).astype(np.float16)
    np.savez(
        tmp_path / "har.npz",
        x_train=x,
        y_train=y,
        x_test=x,
        y_test=y,
        writer_train=people,
        writer_test=people,
    )
    data = builtin.har()
    assert (data.classes, data.class_names[4]) == (12, "standing")
    assert len(Federation.build(data, Natural())) == 3
    assert data.mean == pytest.approx(x.astype(float).mean((0, 1)))

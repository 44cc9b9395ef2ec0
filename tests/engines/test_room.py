"""Workers and the memory that they need."""

import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.engines import room
from eunoe.errors import InputError

MODEL = Weights(torch.zeros(250), torch.zeros(0), torch.zeros(0, dtype=torch.int64))


def test_as_many_workers_as_the_free_memory_holds_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each needs 1,000 bytes and three models of 1,000.
    monkeypatch.setattr(room, "memory", lambda: (10**9, 12_000))
    room.check_room(3, MODEL, 1_000)
    with pytest.raises(InputError, match=r"set engine\.workers to 3 or less"):
        room.check_room(4, MODEL, 1_000)


def test_nothing_is_refused_where_the_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "memory", lambda: (0, 0))
    room.check_room(1_000_000, MODEL, 1_000)

"""Modules are called as they expect, and logits are found in what they return."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from eunoe.core.calling import call
from eunoe.core.fields import Fields
from eunoe.core.flat_model import FlatModel

A, B = torch.ones(2, 3), torch.full((2, 3), 2.0)
NAMED, NUMBERED = Fields([A, B], ["a", "b"]), Fields([A, B])


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))


class Each(Base):
    def forward(self, b: Tensor, a: Tensor, unused: Tensor | None = None) -> Tensor:
        return self.scale * (b - a)


class Anything(Base):
    def forward(self, *args: Tensor, **named: Tensor) -> Any:
        x = [*args, *named.values()]
        return SimpleNamespace(logits=self.scale * (x[1] - x[0]), loss=None)


class Whole(Base):
    def forward(self, x: Any) -> Any:
        a, b = (x["a"], x["b"]) if isinstance(x, dict) else x
        return self.scale * (b - a)


def test_fields_are_passed_as_the_module_takes_them() -> None:
    for module, x, expected in (
        (Each(), NAMED, B - A),
        (Each(), NUMBERED, A - B),
        (Anything(), NAMED, B - A),
        (Anything(), NUMBERED, B - A),
        (Whole(), NAMED, B - A),
        (Whole(), NUMBERED, B - A),
    ):
        assert torch.equal(call(module, x), expected)
        model = FlatModel(module)
        assert torch.equal(model.forward(x), expected)
        assert torch.equal(model.forward_at(torch.tensor([2.0]), x), 2 * expected)


def test_tensors_are_passed_as_they_are() -> None:
    assert torch.equal(call(nn.Identity(), A), A)
    found = call(Anything(), Fields([A, B]))
    assert isinstance(found, Tensor)

"""The checks of a user's method: a good one passes, each kind of mistake is found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.methods import Batch, ClientContext, Method, Neutral
from eunoe.testing import CheckedMethod, check_method


class Shrink(Method):
    """Scales the changes of clients."""

    neutral = Neutral({"factor": 1.0})
    factor: float = 0.9

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change * self.factor


class NotNeutral(Shrink):
    neutral = Neutral({"factor": 0.5})


class Masked(Method):
    """Draws the mean features of a batch toward zero."""

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        features, logits = client.features(batch.x)
        return client.criterion(logits, batch.y) + self.mean(features, batch.mask).square().sum()

    def mean(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return features.mean(0) if mask is None else (features * mask[:, None]).sum(0) / mask.sum()


class Unmasked(Masked):
    def mean(self, features: Tensor, mask: Tensor | None) -> Tensor:
        return features.mean(0)


class Random(Method):
    """Draws numbers that depend on the process."""

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change * torch.rand(())


class Deaf(Method):
    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change * 0


@pytest.mark.slow
def test_a_good_method_passes() -> None:
    check_method(Shrink)
    check_method(Masked(), losses=["ce"])


def test_a_masked_statistic_is_the_same_on_both_engines(tmp_path: Path) -> None:
    CheckedMethod(Masked, tmp_path).same_numbers_vectorized()


@pytest.mark.parametrize(
    ("method", "check", "says"),
    [
        (NotNeutral, "equals_fedavg_if_neutral", "its neutral setting and FedAvg differ by up to"),
        (Unmasked, "same_numbers_vectorized", r"serial and vectorized \(is batch.mask used\?\) differ by"),
        (Random, "same_bits_if_resumed", "a run and its resumed copy .* differ by up to"),
        (Deaf, "learns", "after 10 rounds, and chance is 0.25"),
    ],
)
def test_a_mistake_is_found(method: Any, check: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=says):
        getattr(CheckedMethod(method, tmp_path), check)()

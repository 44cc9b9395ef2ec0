"""A client's loss in any PyTorch loop, and the prior at prediction time."""

import math

import pytest
import torch
from torch import Tensor

from eunoe.errors import InputError
from eunoe.losses import Loss, adjust_for_prior, client_loss
from eunoe.losses.tce import TCE

LOG = math.log


def test_client_loss_in_a_plain_loop() -> None:
    logits = torch.tensor([[0.0, 0.0, 5.0], [0.0, 0.0, 5.0]])
    labels = torch.tensor([0, 1])
    criterion = client_loss("wsm", [1, 3, 0])
    assert criterion(logits, labels).item() == pytest.approx(-(LOG(0.25) + LOG(0.75)) / 2)
    assert criterion(logits.double(), labels).dtype == torch.float64
    assert client_loss("logit_adjusted", [1, 3, 0], tau=0.0)(logits, labels).item() == pytest.approx(LOG(2))
    assert client_loss(TCE(), torch.tensor([1, 3, 0]))(logits, labels).item() == pytest.approx(LOG(2))
    double = client_loss("wsm", torch.tensor([1, 2, 0], dtype=torch.float64))
    assert double.terms.dtype == torch.float64
    assert "terms" in double.state_dict()


def test_wrong_counts_are_one_line() -> None:
    logits = torch.zeros(2, 5)
    with pytest.raises(InputError, match="there are 3 label counts for 5 outputs: pass one per class"):
        client_loss("ce", [1, 3, 0])(logits, torch.tensor([0, 1]))
    with pytest.raises(InputError, match="label 4 has count 0: count all labels"):
        client_loss("wsm", [1, 3, 0, 2, 0])(logits, torch.tensor([0, 4]))
    # Cross-entropy needs no counts.
    assert client_loss("ce", [1, 3, 0, 2, 0])(logits, torch.tensor([0, 4])).item() == pytest.approx(LOG(5))


@pytest.mark.parametrize("name", ["ce", "wsm"])
def test_wrong_labels_are_one_line(name: str) -> None:
    criterion, logits = client_loss(name, [1, 3, 0]), torch.zeros(2, 3)
    for label in (3, -1, -100):
        with pytest.raises(InputError, match=f"^label {label} is not a class: 3 are 0..2$"):
            criterion(logits, torch.tensor([0, label]))
    with pytest.raises(
        InputError, match=r"labels are torch.float32 \[2, 3\], not integers \[batch\]: of one-hot"
    ):
        criterion(logits, torch.eye(3)[:2])
    with pytest.raises(InputError, match=r"labels are torch.float32 \[2\], not integers"):
        criterion(logits, torch.tensor([0.0, 1.0]))
    several = client_loss("bce", [1, 3, 2])(logits, torch.eye(3)[:2])
    assert several.item() == pytest.approx(LOG(2))


def test_prior_at_prediction() -> None:
    logits = torch.tensor([[2.0, 1.0, 3.0]])
    adjusted = adjust_for_prior(logits, [1, 9, 0])
    assert adjusted.argmax().item() == 1
    assert adjusted[0].tolist() == pytest.approx([2 + LOG(0.1), 1 + LOG(0.9), -math.inf])
    torch.testing.assert_close(adjusted, adjust_for_prior(logits, torch.tensor([0.1, 0.9, 0])))
    assert adjust_for_prior(logits, torch.tensor([1, 9, 0]).double()).dtype == torch.float32


class Hinge(Loss):
    """Says nothing of label counts."""

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return (1 - logits.gather(1, labels[:, None]).squeeze(1)).clamp(min=0) + terms.sum()


def test_a_loss_may_leave_the_label_counts_alone() -> None:
    found = client_loss(Hinge(), [3.0, 0.0])(torch.tensor([[0.25, 2.0], [3.0, 0.5]]), torch.tensor([0, 0]))
    assert found.item() == pytest.approx(0.375)

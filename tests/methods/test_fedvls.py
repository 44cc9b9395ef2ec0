"""FedVLS against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedvls import FedVLS, non_label_logits, vacant_divergence
from tests.methods.helpers import Trial, random_parts


def test_vacant_divergence_by_hand() -> None:
    # Classes 2 and 3 are vacant: 1/4 and 3/4 against 1/2 and 1/2, whatever the others are.
    teacher = torch.tensor([[9.0, -9.0, 0.0, math.log(3)]], dtype=torch.float64)
    student = torch.tensor([[1.0, 2.0, 5.0, 5.0]], dtype=torch.float64, requires_grad=True)
    vacant = torch.tensor([False, False, True, True])
    found = vacant_divergence(teacher, student, vacant)
    assert found.item() == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5), rel=1e-12)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert student.grad is not None
    assert student.grad[0].tolist() == pytest.approx([0, 0, 0.25, -0.25], rel=1e-12)


@pytest.mark.parametrize("vacant", [[False, False, False], [False, True, False]])
def test_nothing_to_distill_is_zero_with_no_gradient(vacant: list[bool]) -> None:
    student = torch.randn(2, 3, requires_grad=True)
    found = vacant_divergence(torch.randn(2, 3), student, torch.tensor(vacant))
    assert found.tolist() == [0, 0]
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert student.grad is not None
    assert student.grad.abs().max() == 0


def test_non_label_logits_by_hand() -> None:
    # Shares 3/4 and 1/4 of four classes shift by log 3 and 0. Class 0: 1 for its own sample, 6/3 for the
    # other; class 1: 2 and 1; so log 3/2 for both. Vacant classes have no share.
    logits = torch.tensor([[5.0, math.log(2), 7.0, 7.0], [math.log(6), 9.0, 7.0, 7.0]], dtype=torch.float64)
    counts = torch.tensor([3.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    assert non_label_logits(logits, labels, counts).item() == pytest.approx(math.log(1.5), rel=1e-12)
    padded = torch.cat([logits, torch.full((2, 4), 50.0, dtype=torch.float64)])
    mask = torch.tensor([True, True, False, False])
    found = non_label_logits(padded, torch.tensor([0, 1, 2, 0]), counts, mask)
    assert found.item() == pytest.approx(math.log(1.5), rel=1e-12)


def test_one_step_by_hand(tmp_path: Path) -> None:
    # Labels 0, 0, 0, 1 with logits of 0, four classes. Cross-entropy: (1/4 - 3/4, 1/4 - 1/4, 1/4, 1/4).
    # Suppression, class 0: 1/3 of 1 + 1 + 1 + 1/3 by share 3/4; class 1: 3 of 4 by share 1/4. The student is
    # the teacher, so the distillation has no gradient yet.
    part = [([[1.0]] * 4, [0, 0, 0, 1])]
    training = {"steps": 1, "lr": 1.0, "batch_size": 0}
    method = FedVLS(distillation=3.0, suppression=1.0)
    trial = Trial(tmp_path, part, method, classes=4, training=training).rounds()
    assert trial.parameters.tolist() == pytest.approx([0.5 - 3 / 40, -3 / 16, -0.25, -0.25], rel=1e-12)


def test_distillation_keeps_what_is_known_of_vacant_classes(tmp_path: Path) -> None:
    """The client has classes 0 and 1; how classes 2 and 3 compare on its inputs is to stay."""
    [(x, _)] = random_parts([20], 3, 4)
    part = [(x, torch.arange(20) % 2)]
    training = {"steps": 50, "lr": 0.1, "batch_size": 0}
    moved = []
    for weight in (0.0, 5.0):
        method = FedVLS(distillation=weight, suppression=0.0)
        trial = Trial(tmp_path / str(weight), part, method, classes=4, training=training)
        trial.run_state.weights.parameters.copy_(torch.linspace(-1, 1, 12).square())
        before, after = (w.view(4, 3) for w in (trial.parameters, trial.client(0)[0].weights.parameters))
        gap = (x @ (after[2] - after[3])) - (x @ (before[2] - before[3]))
        moved.append(float(gap.abs().max()))
    assert moved[1] < 0.5 * moved[0]


def test_a_client_with_all_classes_has_nothing_to_distill(tmp_path: Path) -> None:
    [(x, _)] = random_parts([20], 3, 4)
    part = [(x, torch.arange(20) % 4)]
    training = {"steps": 5, "lr": 0.5, "batch_size": 4}
    one = Trial(tmp_path / "a", part, FedVLS(distillation=9, suppression=0), classes=4, training=training)
    other = Trial(tmp_path / "b", part, FedAvg(), classes=4, training=training)
    assert torch.equal(one.rounds(2).parameters, other.rounds(2).parameters)

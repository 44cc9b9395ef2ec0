"""Trust by counts and the distances of outputs: numbers worked by hand and identities."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

from eunoe.losses.distillation import divergence, not_true_divergence, weigh_teachers

LABELS = torch.tensor([0, 1, 2, 3, 1])


def logits(seed: int, classes: int = 4) -> Tensor:
    return 2 * torch.randn(5, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_trust_is_the_share_of_what_was_seen_of_a_class() -> None:
    student, teachers = weigh_teachers(
        torch.tensor([1.0, 4.0, 0.0]), torch.tensor([[1.0, 0.0, 0.0], [2.0, 4.0, 0.0]])
    )
    assert torch.equal(student, torch.tensor([0.25, 0.5, 1.0]))
    assert torch.equal(teachers, torch.tensor([[0.25, 0.0, 0.0], [0.5, 0.5, 0.0]]))


@given(st.lists(st.lists(st.integers(0, 500), min_size=3, max_size=3), min_size=2, max_size=6))
def test_trust_sums_to_one_in_every_class(counts: list[list[int]]) -> None:
    student, teachers = weigh_teachers(torch.tensor(counts[0]).double(), torch.tensor(counts[1:]).double())
    torch.testing.assert_close(student + teachers.sum(0), torch.ones(3, dtype=torch.float64))
    assert bool((teachers >= 0).all())


def test_divergence_by_hand() -> None:
    teacher, student = torch.tensor([[math.log(3), 0.0]]), torch.zeros(1, 2)
    expected = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    assert math.isclose(divergence(teacher, student).item(), expected, rel_tol=1e-6)
    at_half = math.sqrt(3) / (1 + math.sqrt(3))
    hot = at_half * math.log(2 * at_half)
    weighted = divergence(teacher, student, 2.0, torch.tensor([1.0, 0.0]))
    assert math.isclose(weighted.item(), hot, rel_tol=1e-6)


def test_weighted_divergence_can_be_negative() -> None:
    value = divergence(torch.tensor([[math.log(3), 0.0]]), torch.zeros(1, 2), 1.0, torch.tensor([0.0, 1.0]))
    assert math.isclose(value.item(), 0.25 * math.log(0.5), rel_tol=1e-6)


def test_gradient_of_the_weighted_divergence() -> None:
    """(1/T) ((sum_c a_c p_c) q_j - a_j p_j)."""
    teacher, student = logits(0), logits(1).requires_grad_()
    weights, temperature = torch.tensor([0.9, 0.1, 0.5, 0.0], dtype=torch.float64), 3.0
    divergence(teacher, student, temperature, weights).sum().backward()
    p, q = (torch.softmax(z.detach() / temperature, 1) for z in (teacher, student))
    expected = ((weights * p).sum(1, keepdim=True) * q - weights * p) / temperature
    torch.testing.assert_close(student.grad, expected)


def test_at_the_teacher_the_gradient_vanishes_only_for_equal_weights() -> None:
    def gradient(weights: Tensor) -> Tensor:
        student = logits(0).requires_grad_()
        value = divergence(logits(0), student, 3.0, weights.double())
        assert torch.equal(value, torch.zeros(5, dtype=torch.float64))
        value.sum().backward()
        assert student.grad is not None
        return student.grad.abs().max()

    assert gradient(torch.full((4,), 0.4)) < 1e-15
    assert gradient(torch.tensor([0.8, 0.4, 0.4, 0.4])) > 1e-2


def test_not_true_divergence_is_that_of_the_logits_left_when_the_label_is_removed() -> None:
    teacher, student = logits(0), logits(1)
    rest = torch.stack([torch.tensor([c for c in range(4) if c != y]) for y in LABELS.tolist()])
    expected = divergence(teacher.gather(1, rest), student.gather(1, rest), 2.0)
    torch.testing.assert_close(not_true_divergence(teacher, student, LABELS, 2.0), expected)


def test_not_true_divergence_has_no_gradient_at_the_label() -> None:
    student = logits(1).requires_grad_()
    not_true_divergence(logits(0), student, LABELS).sum().backward()
    assert student.grad is not None
    at_label = student.grad.gather(1, LABELS[:, None])
    assert torch.equal(at_label, torch.zeros_like(at_label))
    assert bool((student.grad.abs().sum(1) > 1e-3).all())


def test_not_true_divergence_vanishes_at_the_teacher_and_for_two_classes() -> None:
    student = logits(0).requires_grad_()
    value = not_true_divergence(logits(0), student, LABELS)
    value.sum().backward()
    assert torch.equal(value.detach(), torch.zeros(5, dtype=torch.float64))
    assert student.grad is not None
    assert student.grad.abs().max() < 1e-15
    two = not_true_divergence(logits(0, 2), logits(1, 2), LABELS % 2)
    assert torch.equal(two, torch.zeros(5, dtype=torch.float64))


def test_both_work_on_many_clients_at_once() -> None:
    teachers, students = torch.stack([logits(0), logits(2)]), torch.stack([logits(1), logits(3)])
    weights, labels = torch.rand(2, 4, dtype=torch.float64), torch.stack([LABELS, LABELS.flip(0)])
    many = vmap(lambda t, s, w: divergence(t, s, 3.0, w))(teachers, students, weights)
    ntd = vmap(not_true_divergence)(teachers, students, labels)
    for k in range(2):
        torch.testing.assert_close(many[k], divergence(teachers[k], students[k], 3.0, weights[k]))
        torch.testing.assert_close(ntd[k], not_true_divergence(teachers[k], students[k], labels[k]))


def test_plain_divergence_is_torchs() -> None:
    expected = F.kl_div(F.log_softmax(logits(1), 1), F.softmax(logits(0), 1), reduction="none").sum(1)
    torch.testing.assert_close(divergence(logits(0), logits(1)), expected)

"""What every loss is held to: hand-worked numbers, identities between losses, vmap, exact zeros, errors."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.errors import InputError
from eunoe.losses import Loss
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.losses.fedlc import FedLC
from eunoe.losses.fedrs import FedRS
from eunoe.losses.masked import Masked
from eunoe.losses.schedule import Schedule
from eunoe.losses.tce import TCE
from eunoe.losses.wsm import WSM, Balanced, LogitAdjusted
from tests.losses.helpers import problems, same, value_and_gradient

LOG = math.log
ALL = [
    CrossEntropy(),
    TCE(),
    WSM(),
    Balanced(),
    LogitAdjusted(tau=0.7),
    FedLC(tau=2.0),
    FedLC(mask_absent=False),
    FedLC(exclude_true=True),
    FedLC(exclude_true=True, mask_absent=False),
    FedRS(),
    FedRS(graded=True),
    Masked(),
    Masked(mask_value="minus_infinity"),
    CrossEntropy(class_weights="balanced"),
    # Outside a run it is its first loss.
    Schedule(),
]
# These compare only the classes that the client has.
PRESENT_ONLY = [
    TCE(),
    WSM(),
    Balanced(),
    LogitAdjusted(),
    LogitAdjusted(tau=0.0),
    FedLC(),
    FedLC(exclude_true=True),
    Masked(mask_value="minus_infinity"),
    Schedule(),
]


# Logits chosen so that exp(z) = (1, 2, 4); the true class is 1; the client has 1, 3 and 0 samples.
@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (CrossEntropy(), LOG(7 / 2)),
        # Smoothed counts (2, 4, 1) have the mean 7/3.
        (CrossEntropy(class_weights="balanced"), 7 / 12 * LOG(7 / 2)),
        (TCE(), LOG(3 / 2)),
        (WSM(), LOG(7 / 6)),  # -log(2 * 3/4) + log(1 * 1/4 + 2 * 3/4)
        (Balanced(), LOG(7 / 6)),
        (LogitAdjusted(tau=2), LOG(19 / 18)),  # 1 * 1 against 2 * 9
        (FedRS(), LOG(5 / 2)),  # the absent 4 becomes its root
        (FedRS(graded=True, alpha=0.25), LOG((1 + 2 + 4**0.25) / 2)),
        (Masked(), LOG(4 / 2)),  # the absent 4 becomes 1
        (Masked(mask_value="minus_infinity"), LOG(3 / 2)),
        (FedLC(), -LOG(2) + 3**-0.25 + LOG(math.exp(-1) + 2 * math.exp(-(3**-0.25)))),
        (FedLC(exclude_true=True), -LOG(2) + 3**-0.25 - 1),
        (
            FedLC(exclude_true=True, mask_absent=False, tau=2),
            -LOG(2) + 2 * 3**-0.25 + LOG(5) - 2,
        ),
    ],
)
def test_hand_worked(loss: Loss, expected: float) -> None:
    logits = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64).log()
    counts = torch.tensor([1.0, 3.0, 0.0], dtype=torch.float64)
    value = loss.per_sample(logits, torch.tensor([1]), loss.terms(counts))
    assert value.item() == pytest.approx(expected, rel=1e-12)


@given(problems())
def test_gradient_is_softmax_of_shifted_logits_minus_label(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, labels, counts = problem
    for loss in (TCE(), WSM(), Balanced(), LogitAdjusted(tau=0.3), FedLC()):
        _, gradient = value_and_gradient(loss, logits, labels, counts)
        expected = (logits + loss.terms(counts)).softmax(-1) - F.one_hot(labels, logits.shape[-1])
        torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


@given(problems())
def test_same_losses_by_other_names(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    same(Balanced(), WSM(), *problem)
    same(LogitAdjusted(), WSM(), *problem)
    same(LogitAdjusted(tau=0), TCE(), *problem)
    same(Masked(mask_value="minus_infinity"), TCE(), *problem)
    same(FedRS(alpha=1), CrossEntropy(), *problem)
    same(FedRS(alpha=1, graded=True), CrossEntropy(), *problem)
    same(FedRS(alpha=0), Masked(), *problem)
    same(FedLC(tau=0), TCE(), *problem)
    same(FedLC(tau=0, mask_absent=False), CrossEntropy(), *problem)


@given(problems(least=1))
def test_all_classes_present(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    same(TCE(), CrossEntropy(), *problem)
    same(Masked(), CrossEntropy(), *problem)
    same(FedRS(), CrossEntropy(), *problem)


@given(problems(), st.integers(1, 30))
def test_equal_counts(problem: tuple[Tensor, Tensor, Tensor], each: int) -> None:
    logits, labels, counts = problem
    same(WSM(), CrossEntropy(), logits, labels, torch.full_like(counts, each))
    same(FedLC(), CrossEntropy(), logits, labels, torch.full_like(counts, each))
    on_present = torch.where(counts > 0, float(each), 0.0).double()
    same(WSM(), TCE(), logits, labels, on_present)
    same(FedLC(), TCE(), logits, labels, on_present)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", [*PRESENT_ONLY, Masked(), FedRS(alpha=0)], ids=repr)
def test_absent_classes_get_exactly_no_gradient(loss: Loss, dtype: torch.dtype) -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(1), dtype=dtype) * 30
    counts = torch.tensor([3, 0, 7, 0], dtype=dtype)
    values, gradient = value_and_gradient(loss, logits, torch.tensor([0, 2, 2, 0, 2]), counts)
    assert bool((gradient[:, [1, 3]] == 0).all())
    assert bool((gradient[:, [0, 2]] != 0).any())
    assert bool(values.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_single_class(loss: Loss, dtype: torch.dtype) -> None:
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=dtype) * 10
    counts = torch.tensor([0, 9, 0], dtype=dtype)
    values, gradient = value_and_gradient(loss, logits, torch.ones(6, dtype=torch.int64), counts)
    learns = not (bool((gradient == 0).all()) and bool((values == 0).all()))
    assert loss.learns_from(counts) == learns == (loss not in [*PRESENT_ONLY, *ALL[1:6], ALL[7]])
    assert loss.learns_from(torch.tensor([1, 9, 0], dtype=dtype))
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_vmapped_equals_looped(loss: Loss, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    counts = torch.tensor([[3, 1, 0, 9], [0, 0, 5, 0], [2, 2, 2, 2]], dtype=dtype)
    labels = torch.tensor([[0, 1, 3], [2, 2, 2], [0, 3, 1]])
    logits = torch.randn(3, 3, 4, generator=generator, dtype=dtype)
    terms = loss.terms(counts)
    assert terms.dtype == dtype

    def total(z: Tensor, y: Tensor, t: Tensor) -> Tensor:
        return loss.per_sample(z, y, t).sum()

    values = torch.func.vmap(loss.per_sample)(logits, labels, terms)
    gradients = torch.func.vmap(torch.func.grad(total))(logits, labels, terms)
    assert values.dtype == gradients.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 1e-13
    for client in range(3):
        assert torch.equal(loss.terms(counts[client]), terms[client])
        value, gradient = value_and_gradient(loss, logits[client], labels[client], counts[client])
        torch.testing.assert_close(values[client], value, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(gradients[client], gradient, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_gradients_by_differences(loss: Loss) -> None:
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    terms = loss.terms(torch.tensor([4, 0, 1, 8, 0], dtype=torch.float64))
    labels = torch.tensor([0, 2, 3, 3])
    assert torch.autograd.gradcheck(
        lambda z: loss.per_sample(z, labels, terms), logits.requires_grad_(), check_batched_grad=False
    )


@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("counts", [[0.0, 0.0], [[1.0, 2.0], [0.0, 0.0]], [1.0, -1.0], [math.nan, 1.0]])
def test_impossible_counts_are_refused(loss: Loss, counts: list[float]) -> None:
    with pytest.raises(InputError, match="at least one sample"):
        loss.terms(torch.tensor(counts))


def test_by_name() -> None:
    assert registry.build("loss", "fedlc", {"tau": 0.5}) == FedLC(tau=0.5)
    assert registry.build("loss", "masked", {}) == Masked(mask_value="zero")
    made = {type(registry.build("loss", name, {})) for name in registry.names("loss")}
    # Those of other tasks have tests of their own.
    assert {one for one in made if "classification" in one.tasks} == {type(loss) for loss in ALL}
    for name in registry.names("loss"):
        assert registry.summary("loss", name)
    with pytest.raises(InputError, match="alpha"):
        registry.build("loss", "fedrs", {"alpha": 2})
    with pytest.raises(InputError, match="did you mean 'tau'"):
        registry.build("loss", "fedlc", {"taw": 2})

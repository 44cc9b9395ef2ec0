"""Random problems for a loss, and its value and gradient on them."""

import torch
from hypothesis import strategies as st
from torch import Tensor

from eunoe.losses import Loss


def value_and_gradient(loss: Loss, logits: Tensor, labels: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    values = loss.per_sample(logits, labels, loss.terms(counts))
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    return values.detach(), gradient


def same(one: Loss, other: Loss, logits: Tensor, labels: Tensor, counts: Tensor) -> None:
    for mine, theirs in zip(
        value_and_gradient(one, logits, labels, counts),
        value_and_gradient(other, logits, labels, counts),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@st.composite
def problems(draw: st.DrawFn, least: int = 0, present: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, labels that the client has, and its counts (at least `present` classes), in float64."""
    classes = draw(st.integers(max(2, present), 6))
    counts = draw(
        st.lists(st.integers(least, 50), min_size=classes, max_size=classes).filter(
            lambda n: sum(c > 0 for c in n) >= present
        )
    )
    owned = [c for c, n in enumerate(counts) if n]
    labels = draw(st.lists(st.sampled_from(owned), min_size=1, max_size=4))
    number = st.floats(-20, 20, allow_nan=False)
    logits = draw(st.lists(number, min_size=len(labels) * classes, max_size=len(labels) * classes))
    return (
        torch.tensor(logits, dtype=torch.float64).view(len(labels), classes),
        torch.tensor(labels),
        torch.tensor(counts, dtype=torch.float64),
    )

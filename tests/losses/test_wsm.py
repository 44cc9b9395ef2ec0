"""WSM against the paper's equation."""

import math

import torch
from hypothesis import given
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses import client_loss
from eunoe.losses.wsm import WSM
from tests.losses.helpers import problems

LOG = math.log


@given(problems())
def test_equation_4_of_the_wsm_paper(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, labels, counts = problem
    beta = counts / counts.sum()
    logits.requires_grad_()
    rows = torch.arange(len(labels))
    equation = (-logits[rows, labels] + (beta * logits.exp()).sum(-1).log()).mean()
    (expected,) = torch.autograd.grad(equation, logits)
    mine = client_loss(WSM(), counts)(logits, labels)
    (gradient,) = torch.autograd.grad(mine, logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(equation - mine, beta[labels].log().mean(), rtol=1e-9, atol=1e-9)
    uniform = -logits[rows, labels] + (logits.exp() / logits.shape[-1]).sum(-1).log()
    plain = F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(uniform, plain - LOG(logits.shape[-1]), rtol=1e-9, atol=1e-9)

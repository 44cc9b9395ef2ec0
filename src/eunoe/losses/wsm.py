"""Softmax re-weighted by the client's label counts n_c, with n their sum.

    wsm              loss = -(z_y + log(n_y / n)) + log sum_c exp(z_c + log(n_c / n))
    balanced         the same with log n_c: equal loss and gradient
    logit_adjusted   the same with tau * log(n_c / n)

WSM: Legate et al., 2023, "Re-Weighted Softmax Cross-Entropy to Control Forgetting in Federated Learning",
https://arxiv.org/abs/2304.05260.
Balanced softmax: Ren et al., 2020, "Balanced Meta-Softmax for Long-Tailed Visual Recognition",
https://arxiv.org/abs/2007.10740.
Logit adjustment: Menon et al., 2021, "Long-Tail Learning via Logit Adjustment",
https://arxiv.org/abs/2007.07314.

Departure: the share of the true class is in the numerator too (as in the WSM authors' code), which adds the
constant -log(n_y / n) to the paper's equation 4 and leaves the gradient as it is; uniform shares give
cross-entropy itself.
"""

from pydantic import Field
from torch import Tensor

from eunoe.losses.base import Loss, check_counts, exclude_absent, log_prior


class WSM(Loss, frozen=True):
    """Re-weighted softmax: classes are weighted in the softmax by their share of the client's labels."""

    def terms(self, counts: Tensor) -> Tensor:
        return log_prior(check_counts(counts))


class Balanced(Loss, frozen=True):
    """Balanced softmax: logits shifted by the log of the class counts; the same loss and gradient as wsm."""

    def terms(self, counts: Tensor) -> Tensor:
        return check_counts(counts).log()


class LogitAdjusted(Loss, frozen=True):
    """Logit adjustment: wsm with a strength; absent classes are left out at every strength."""

    tau: float = Field(1.0, ge=0, le=1e6, description="Strength of the prior: 1 is wsm, 0 is tce.")

    def terms(self, counts: Tensor) -> Tensor:
        return exclude_absent(self.tau * log_prior(check_counts(counts)), counts)

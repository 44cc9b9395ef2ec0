"""FedRS (Li and Zhan, 2021, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID
Data", KDD). https://doi.org/10.1145/3447548.3467254

    loss = -s_y z_y + log sum_c exp(s_c z_c)      s_c = 1 for the client's classes, alpha for the others

    alpha   alpha    scale of an absent class's logit
            graded   s_c = alpha + (1 - alpha) n_c / max n, as in the authors' code

Departure: the paper scales w_c . h of a classifier without bias; here the whole logit is scaled, so that it
goes with any model. `model.classifier_bias = false` makes the two the same.
"""

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses.base import Loss, checked_counts


class FedRS(Loss, frozen=True):
    """FedRS: restricted softmax, the logits of classes the client lacks are scaled down."""

    alpha: float = Field(
        0.5, ge=0, le=1, description="Scale of an absent class: 1 is ce, 0 is masked by zeros."
    )
    graded: bool = Field(
        False,
        description="Scale by alpha + (1 - alpha) n_c / max n, as the authors' code does, also if present.",
    )

    def terms(self, counts: Tensor) -> Tensor:
        counts = checked_counts(counts)
        share = counts / counts.amax(-1, keepdim=True) if self.graded else (counts > 0).to(counts.dtype)
        return self.alpha + (1 - self.alpha) * share

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return F.cross_entropy(logits * terms, labels, reduction="none")

    def learns_from(self, counts: Tensor) -> bool:
        return True

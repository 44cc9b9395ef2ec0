"""FedRS (Li and Zhan, 2021, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID
Data", KDD). https://doi.org/10.1145/3447548.3467254

    loss = -s_y z_y + log sum_c exp(s_c z_c)      s_c = 1 for the client's classes, alpha for the others

    alpha   alpha    scale of an absent class's logit
            graded   s_c = alpha + (1 - alpha) n_c / max n, as in the authors' code

Departure: the paper scales w_c . h of a classifier without bias; here the whole logit is scaled, so that it
works with any model. `model.classifier_bias = false` makes the two the same.
"""

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses.base import Loss, check_counts


class FedRS(Loss, frozen=True):
    """FedRS: restricted softmax, which scales down the logits of absent classes."""

    alpha: float = Field(0.5, ge=0, le=1, description="Scale of absent classes; 1: ce, 0: masked by zeros.")
    graded: bool = Field(False, description="Scale all classes by their counts, as the authors' code.")

    def terms(self, counts: Tensor) -> Tensor:
        counts = check_counts(counts)
        share = counts / counts.amax(-1, keepdim=True) if self.graded else (counts > 0).to(counts.dtype)
        return self.alpha + (1 - self.alpha) * share

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return F.cross_entropy(logits * terms, labels, reduction="none")

"""FedDecorr (Shi et al., 2023, "Towards Understanding and Mitigating Dimensional Collapse in Heterogeneous
Federated Learning").
https://arxiv.org/abs/2210.00226

    loss = L(z, y) + beta / B * mean over a != b of ( sum_i h_ia h_ib )^2

    L      the chosen loss (cross-entropy in the paper)
    h      features of the batch; each dimension has mean 0 and (unbiased) variance 1 over the batch
    B      number of samples in the batch
    beta   beta    weight of the decorrelation

Departures: the paper prints ||K||_F^2 / d^2 with the correlations K of the d dimensions. This is the form of
the authors' code, with which their beta of 0.1 goes: sums instead of means over the samples make it about B
times as large, and the diagonal, a constant, is left out. A batch of one sample has no correlations.
"""

import torch
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Finite
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral


class FedDecorr(Method):
    """FedDecorr: decorrelates the dimensions of the features, which otherwise collapse on few classes."""

    beta: Finite = Field(0.1, ge=0, description="Weight of the decorrelation.")

    cost = Cost(client_compute="O(batch * features^2) a step")
    needs_features = True
    neutral = Neutral({"beta": 0.0})

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        features, logits = client.features(batch.x)
        return client.criterion(logits, batch.y) + self.beta * correlation(features.flatten(1), batch.mask)


def correlation(features: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the squared correlations of different dimensions, scaled as above; one number."""
    samples, dimensions = features.shape
    real = features.new_ones(samples) if mask is None else mask.to(features)
    size = real.sum()
    centered = (features - (real @ features) / size) * real[:, None]
    variance = centered.square().sum(0) / (size - 1).clamp(min=1)
    scaled = centered / (variance + 1e-8).sqrt()
    products = (scaled.T @ scaled).square()
    different = ~torch.eye(dimensions, dtype=torch.bool, device=features.device)
    return torch.where(different, products, 0.0).sum() / (max(dimensions * (dimensions - 1), 1) * size)

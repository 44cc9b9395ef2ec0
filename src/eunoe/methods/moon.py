"""MOON (Li et al., 2021, "Model-Contrastive Federated Learning").
https://arxiv.org/abs/2103.16257

    loss = L(logits, y) + mu * -log( e^(s(z, zg)/tau) / (e^(s(z, zg)/tau) + e^(s(z, zp)/tau)) )

    L      the chosen loss (cross-entropy in the paper)
    z      features of the current model; zg of the model received; zp of this client's own previous model
    s      cosine similarity
    mu     mu     weight of the contrastive loss: 5 on CIFAR-10, 1 on CIFAR-100 in the paper
    tau    tau    temperature

The contrastive loss is computed as softplus((s(z, zp) - s(z, zg)) / tau), which is the same. A client's first
participation has no contrastive loss (the authors' code: likewise in round 1, but a random network for a
client that joins late). The paper compares outputs of a projection head: `model.head = true` adds it.
"""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from eunoe.methods import Batch, ClientContext, Cost, Finished, Method, Neutral, RoundContext, Weights


class Moon(Method):
    """MOON: features are pulled toward the global model's and away from the client's previous ones."""

    mu: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of the contrastive loss.")
    tau: float = Field(0.5, ge=1e-6, le=1e6, description="Temperature of the contrastive loss.")

    cost = Cost(client_state="1", client_compute="+ 2 forward a step (a round if un-augmented)")
    needs_features = True
    neutral = Neutral({"mu": 0.0})

    def client_state(self, context: RoundContext) -> dict[str, int]:
        model = context.model
        return {"parameters": model.parameters, "float_buffers": model.float_buffers, "seen": 1}

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start, features=True)
        if client.state["seen"]:
            state = client.state
            last = Weights(state["parameters"], state["float_buffers"], client.start.int_buffers)
            client.freeze("last", last, features=True)
        else:
            # A placeholder; `seen` = 0 removes its contrast.
            client.networks["last"] = client.networks["received"]

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        features, logits = client.features(batch.x)
        received = F.cosine_similarity(features, client.frozen("received", batch))
        last = F.cosine_similarity(features, client.frozen("last", batch))
        contrast = F.softplus((last - received) / self.tau)
        return client.criterion(logits, batch.y) + self.mu * client.state["seen"] * contrast

    def finish(self, client: ClientContext) -> Finished:
        weights = client.model.weights.copy()
        own = {"parameters": weights.parameters, "float_buffers": weights.float_buffers}
        return Finished(state={**own, "seen": torch.ones(1, dtype=weights.parameters.dtype)})

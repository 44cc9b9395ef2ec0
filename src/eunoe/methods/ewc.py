"""EWC toward the start model (Kirkpatrick et al., 2017, "Overcoming Catastrophic Forgetting in Neural
Networks").
https://arxiv.org/abs/1612.00796

    client:  minimize F_k(y) + weight / 2 sum_i I_i (y_i - w_0i)^2
    server:  as FedAvg, and sends w_0, the model before round 1, and I

    lambda   weight
    I        diagonal Fisher information of w_0: the mean of squared per-sample gradients of the plain loss on
             the training parts of the reference sets (`retain`), of at most max_samples of each

Departures: the paper is not federated, and anchors at the optimum of each earlier task; here it is the start
model, and labels are the true ones (empirical Fisher information). weight I is at most 1 / lr.
"""

import torch
from pydantic import Field

from eunoe.config.options import Finite, Whole
from eunoe.core.fisher import sum_of_squared_gradients
from eunoe.core.rng import generator
from eunoe.methods import Cost, RoundContext, Vectors, Weights
from eunoe.methods.l2_sp import L2SP
from eunoe.server.trainer import ServerTrainer, reference_trainer


class EWC(L2SP):
    """EWC: a penalty on changes of parameters that matter on the reference sets."""

    weight: Finite = Field(1.0, ge=0, description="Weight of the penalty (lambda in the paper).")
    max_samples: Whole = Field(1000, ge=1, description="Samples of a reference set to estimate I on.")

    cost = Cost(down="3", client_compute="O(model) a step", server_extra="start model, I")
    elementwise = True

    def check(self, context: RoundContext) -> list[str]:
        reference_trainer(context.trainer, "ewc")
        return []

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        trainer: ServerTrainer = reference_trainer(context.trainer, "ewc")
        model, federation = trainer.model, trainer.federation
        model.load(weights)
        fisher, count = torch.zeros_like(model.parameters), 0
        for name, data in federation.references.items():
            order = generator(context.seed, "reference samples").permutation(len(data.train))
            for rows in torch.split(torch.from_numpy(order[: self.max_samples]), 50):
                x = federation.inputs(f"retain train {name}", rows).to(model.device)
                y = data.train.y[rows].to(model.device)
                fisher += sum_of_squared_gradients(model, x, y, federation.task)
                count += len(rows)
        return {**super().start(weights, context), "fisher": (fisher / count).detach().cpu()}

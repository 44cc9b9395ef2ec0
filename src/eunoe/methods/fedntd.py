"""FedNTD (Lee et al., 2022, "Preservation of the Global Knowledge by Not-True Distillation in Federated
Learning").
https://arxiv.org/abs/2106.03097

    loss = L(z, y) + beta tau^2 KL( softmax(zg' / tau) || softmax(z' / tau) )

    L      the chosen loss (cross-entropy in the paper)
    z, zg  logits of the client and of the model it received, which is frozen
    '      the logit of the true class is removed, and the softmax is over the others
    beta   beta    weight of the distillation
    tau    tau     temperature

A logit is removed by setting it to -inf before the softmax. The paper averages by samples.
"""

from pydantic import Field
from torch import Tensor

from eunoe.core.tasks import CLASSES
from eunoe.errors import InputError
from eunoe.losses.distillation import not_true_divergence
from eunoe.methods import Batch, ClientContext, Cost, Method, Neutral, RoundContext


def need_three_classes(context: RoundContext, what: str, instead: str) -> None:
    """Raise InputError if the distillation has no classes to compare."""
    if context.data.classes < 3:
        raise InputError(f"{what} requires at least three classes: {instead}")


class FedNTD(Method):
    """FedNTD: distillation of the global model on all classes but the true one."""

    beta: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of the distillation.")
    tau: float = Field(1.0, ge=1e-6, le=1e6, description="Temperature of the distillation.")

    cost = Cost(client_compute="+ 1 forward a step (a round if un-augmented)")
    tasks = CLASSES
    neutral = Neutral({"beta": 0.0})

    def check(self, context: RoundContext) -> list[str]:
        need_three_classes(context, "fedntd", "use fedavg or fedprox")
        return []

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start)

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        distillation = not_true_divergence(client.frozen("received", batch), logits, batch.y, self.tau)
        return client.criterion(logits, batch.y) + self.beta * self.tau**2 * distillation

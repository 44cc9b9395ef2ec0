"""FedNTD (Lee et al., 2022, "Preservation of the Global Knowledge by Not-True Distillation in Federated
Learning").

    loss = L(z, y) + beta tau^2 KL( softmax(zg' / tau) || softmax(z' / tau) )

    L      the chosen loss (cross-entropy in the paper)
    z, zg  logits of the client and of the model it received, which is frozen
    '      the logit of the true class is taken out first, and the softmax is over the others alone
    beta   beta    weight of the distillation
    tau    tau     temperature

Taking a logit out is giving it -inf before the softmax. The paper averages by samples.
"""

from pydantic import Field
from torch import Tensor

from eunoe.errors import InputError
from eunoe.losses.distillation import not_true_divergence
from eunoe.methods.base import Method, Neutral
from eunoe.methods.client_context import Batch, ClientContext
from eunoe.methods.context import RoundContext
from eunoe.server.cost import Cost


def need_three_classes(context: RoundContext, what: str, instead: str) -> None:
    """Refuse data on which the distillation would be zero."""
    if context.classes < 3:
        raise InputError(
            f"{what} needs more than two classes: without the true one a single class has nothing to say; "
            + instead
        )


class FedNTD(Method):
    """FedNTD: what the received model says of the classes that are not the true one is kept."""

    beta: float = Field(1.0, ge=0, allow_inf_nan=False, description="Weight of the distillation.")
    tau: float = Field(1.0, gt=0, allow_inf_nan=False, description="Temperature of the distillation.")

    cost = Cost(client_compute="+ 1 forward a step (a round if un-augmented)")
    neutral = Neutral({"beta": 0.0})

    def check(self, context: RoundContext) -> list[str]:
        need_three_classes(context, "fedntd", "take fedavg or fedprox")
        return []

    def begin(self, client: ClientContext) -> None:
        client.freeze("received", client.start)

    def loss(self, client: ClientContext, batch: Batch) -> Tensor:
        logits = client.forward(batch.x)
        kept = not_true_divergence(client.frozen("received", batch), logits, batch.y, self.tau)
        return client.criterion(logits, batch.y) + self.beta * self.tau**2 * kept

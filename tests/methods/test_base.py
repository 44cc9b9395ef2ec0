"""The defaults of a method are federated averaging."""

from dataclasses import replace

import torch

from eunoe.methods import Aggregate, Finished, Method, Weights
from eunoe.server.optimizers import SGD, Momentum
from tests.helpers import make_simulation


def weights(*values: float) -> Weights:
    return Weights(torch.tensor(values), torch.zeros(0), torch.zeros(0, dtype=torch.int64))


def merged(method: Method, **changes: object) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Parameters and server state after clients of 3 samples and of 1 moved by (1, 0) and (0, 4)."""
    context = replace(make_simulation().context, **changes)
    aggregate = Aggregate(weights(1.0, 1.0), method.weighting)
    for client, (size, model) in enumerate(((3, weights(2.0, 1.0)), (1, weights(1.0, 5.0)))):
        aggregate.add(client, size, model, model.parameters.double() - 1, {})
    server = context.server_optimizer.start(aggregate.start.parameters)
    after = method.aggregate(server, aggregate, context)
    return after.weights.parameters.tolist(), after.server


def test_the_merge_is_the_weighted_mean() -> None:
    assert merged(Method(), server_optimizer=SGD()) == ([1.75, 2.0], {})
    assert merged(Method(weighting="uniform"), server_optimizer=SGD()) == ([1.5, 3.0], {})


def test_the_server_optimizer_keeps_its_state_beside_the_methods() -> None:
    parameters, server = merged(Method(), server_optimizer=Momentum(lr=2.0))
    assert parameters == [2.5, 3.0]
    assert server["momentum"].tolist() == [0.75, 1.0]


def test_nothing_else_travels_or_is_kept() -> None:
    method, context = Method(), make_simulation().context
    assert method.check(context) == []
    assert method.start(weights(1.0), context) == method.broadcast({}, context) == {}
    assert method.client_state(context) == method.uploads(context) == {}
    assert Finished() == Finished({}, {})
    assert method.reported({}, weights(1.0)).parameters.tolist() == [1.0]

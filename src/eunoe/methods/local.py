"""No federation: every client trains alone. The baseline that says what a client gains by taking part.

    client:  w_k <- w_k after [training] on its own samples, from where it stopped; all start from the same w
    server:  nothing is sent and nothing is aggregated

    best     of its models after each participation, a client keeps the one with the highest accuracy on
             its own validation part, of equals that with the lower loss; without such a part the newest

A client trains in the same rounds, steps and learning rates as in a federated run with the same seed, so the
runs differ only in what clients start from. Every number of the run is on clients' own data by their own best
models: on validation parts, on test parts (`split.test`), and on samples of the test set that belong to one
client. There is no global model, and so no forgetting, no probe, no averaging and no server optimizer.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eunoe.core.fields import split
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import join_names
from eunoe.methods import ClientContext, Cost, Finished, Method, RoundContext, ServerUpdate
from eunoe.server.aggregate import Aggregate

# The vectors of a model.
_VECTORS = ("parameters", "float_buffers", "int_buffers")


class Local(Method):
    """No federation: every client trains its own model on its own samples."""

    cost = Cost("2", "0", "0", "+ 1 pass over its validation part", "0")
    takes_server_optimizer = False
    takes_aggregation = False
    aggregates = False
    own_start = True

    def check(self, context: RoundContext) -> list[str]:
        assert context.trainer is not None
        federation = context.trainer.federation
        none = np.flatnonzero(federation.validation_end == federation.train_end)
        names = join_names([f"client {client}" for client in none])
        return [f"without validation samples the last model is kept, not the best: {names}"] if names else []

    def client_state(self, context: RoundContext) -> dict[str, int]:
        model = {name: getattr(context.model, name) for name in _VECTORS}
        return {**model, **{f"best {name}": size for name, size in model.items()}, "score": 2, "seen": 1}

    def begin(self, client: ClientContext) -> None:
        if client.state["seen"]:
            client.model.load(self.own_model(client.state, "last"))

    def finish(self, client: ClientContext) -> Finished:
        # All states are in one type.
        dtype, score = client.weights.dtype, self._score(client)
        last = {name: vector.to(dtype) for name, vector in client.model.weights.copy().vectors().items()}
        before, best = client.state["score"], last
        if score is not None and client.state["seen"] and tuple(before.tolist()) >= tuple(score.tolist()):
            best, score = _named(client.state, "best "), before
        best_vectors = {f"best {name}": vector.clone() for name, vector in best.items()}
        score = torch.zeros_like(before) if score is None else score
        return Finished(state={**last, **best_vectors, "score": score, "seen": torch.ones(1, dtype=dtype)})

    def aggregate(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> ServerUpdate:
        return ServerUpdate(aggregate.start, server)

    def own_model(self, state: Mapping[str, Tensor], which: Literal["last", "best"]) -> Weights:
        weights = Weights.from_vectors(_named(state, "best " if which == "best" else ""))
        return Weights(weights.parameters, weights.float_buffers, weights.int_buffers.long())

    def _score(self, client: ClientContext) -> Tensor | None:
        """Return the mean score and negative loss on the client's validation part; None if it is empty."""
        x, y = client.validation()
        if not len(y):
            return None
        right, loss, task = 0.0, 0.0, client.context.data.task
        with client.model.evaluating(), torch.no_grad():
            for inputs, labels in zip(split(x, 500), torch.split(y, 500), strict=True):
                logits = client.forward(inputs).double()
                right += float(task.scores(logits, labels).sum())
                loss += float(task.losses(logits, labels).sum())
        return torch.tensor([right / len(y), -loss / len(y)], dtype=client.weights.dtype)


def _named(state: Mapping[str, Tensor], prefix: str) -> Vectors:
    return {name: state[prefix + name] for name in _VECTORS}

"""Averaging of global models: their mean is evaluated, and clients receive the newest.

Iterate averaging goes back to Polyak and Juditsky (1992, "Acceleration of Stochastic Approximation by
Averaging"). Of the models w_1, w_2, ... that a method reports after each round:

    decay d:   m_t = d m_(t-1) + (1 - d) w_t,  m_0 = 0 ;  evaluated: m_t / (1 - d^t)
    last n:    evaluated: the mean of the last n models, of all while there are fewer
    start a:   evaluated: a w_0 + (1 - a) w_t, WiSE-FT (Wortsman et al., 2022, https://arxiv.org/abs/2109.01903)

    d   averaging.decay
    n   averaging.last
    a   averaging.with_start, which keeps some of what a pretrained start model w_0 knew

The first is computed as M_t = M_(t-1) + a (w_t - M_(t-1)) with a = (1 - d) / (1 - d^t), in float64. Where a
is 1 the mean is the newest model, bit for bit. Float buffers (normalization statistics) are averaged alike;
integer buffers are the newest. The state is named vectors: for a decay one model in float64, for the last n
models all of them, in their own type.
"""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from eunoe.config.options import Averaging
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError

_AVERAGED = ("parameters", "float_buffers")


def start_average(averaging: Averaging | None, start: Weights) -> Vectors:
    """Return the state before the first round: the start model if it has a weight."""
    if averaging is None or averaging.with_start is None:
        return {}
    return {name: start.vectors()[name].clone() for name in _AVERAGED}


def update_average(averaging: Averaging, state: Vectors, newest: Weights) -> Vectors:
    """Return the state after one more global model."""
    if averaging.with_start is not None:
        return state
    own = newest.vectors()
    if averaging.last is not None:
        before = averaging.last - 1
        rows = {name: own[name][None] for name in _AVERAGED}
        if not state or not before:
            return {name: row.clone() for name, row in rows.items()}
        return {name: torch.cat([state[name][-before:], row]) for name, row in rows.items()}
    models = int(state["models"]) + 1 if state else 1
    return {
        **{name: _toward(state.get(name), own[name], averaging.share(models)) for name in _AVERAGED},
        "models": torch.tensor(models),
    }


def average_model(averaging: Averaging | None, state: Vectors, newest: Weights) -> Weights:
    """Return the model to evaluate: the mean, or the newest if nothing is averaged."""
    if averaging is None or not state:
        return newest
    own, means = newest.vectors(), {name: state[name] for name in _AVERAGED}
    if averaging.last is not None:
        means = {name: _mean(rows) for name, rows in means.items()}
    if averaging.with_start is not None:
        share = 1 - averaging.with_start
        means = {name: _toward(start.double(), own[name], share) for name, start in means.items()}
    means = {name: mean.to(own[name].dtype) for name, mean in means.items()}
    return Weights(**means, int_buffers=newest.int_buffers)


class TensorAverage:
    """The average of named tensors with a decay; integers are the newest."""

    def __init__(self, decay: float) -> None:
        self.options = Averaging.read({"decay": decay}, "averaging")
        self._means: Vectors = {}
        self._updates = 0

    def update(self, newest: Mapping[str, Tensor]) -> Vectors:
        """Add the newest tensors and return the average of all so far."""
        self._updates += 1
        share = self.options.share(self._updates)
        floating = {name: tensor for name, tensor in newest.items() if tensor.is_floating_point()}
        self._means = {name: _toward(self._means.get(name), new, share) for name, new in floating.items()}
        return {**newest, **{name: mean.to(newest[name].dtype) for name, mean in self._means.items()}}


class ModelAverage:
    """The average of a loop's global models, to evaluate and save; clients start from the newest model.

    After t updates the newest model has the weight (1 - decay) / (1 - decay^t). Normalization statistics are
    averaged, counters are the newest.

    Example::

        average = eunoe.ModelAverage(model, decay=0.9)
        for round in range(rounds):
            train_clients(model)
            average.update(model)
            print(accuracy(average.model))
        torch.save(average.model.state_dict(), "model.pt")
    """

    def __init__(self, model: nn.Module, decay: float = 0.9) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._average = TensorAverage(decay)

    def update(self, model: nn.Module) -> nn.Module:
        """Add the newest global model; return the average, which is also `model`."""
        newest = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
        if _shapes(newest) != _shapes(self.model.state_dict()):
            raise InputError("the model has other tensors than the averaged one: pass the same network")
        self.model.load_state_dict(self._average.update(newest))
        return self.model


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _toward(mean: Tensor | None, newest: Tensor, share: float) -> Tensor:
    new = newest.to(torch.float64, copy=True)
    return new if mean is None or share == 1.0 else mean + share * (new - mean)


def _mean(rows: Tensor) -> Tensor:
    """Return the mean of rows in float64, added one after the other to avoid a copy of all of them."""
    total = rows[0].double()
    for row in rows[1:]:
        total = total + row
    return total / len(rows)

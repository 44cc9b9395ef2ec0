"""Evaluates models of several runs at once on samples that the runs share."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from eunoe.core.fields import Fields
from eunoe.core.flat_model import Weights
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.dense import dense_layers
from eunoe.metrics.base import Predictions, Rows


def evaluate_together(
    simulation: Simulation, models: Sequence[Weights], sets: Sequence[Rows]
) -> list[Predictions]:
    """Return the predictions of each model on its own rows, which are of one set of samples."""
    first = sets[0]
    lengths = np.array([len(where.rows) for where in sets])
    shared = all(np.array_equal(where.rows, first.rows) for where in sets[1:])
    rows = np.zeros((1 if shared else len(sets), lengths.max()), np.int64)
    for row, where in zip(rows, sets, strict=False):
        row[: len(where.rows)] = where.rows
    vectors = [weights.vectors() for weights in models]
    stacked = Weights(**{name: torch.stack([own[name] for own in vectors]) for name in vectors[0]})
    parts = [
        _evaluate(simulation, stacked, first, torch.from_numpy(part), lengths - start)
        for start in range(0, rows.shape[1], simulation.evaluation_chunk)
        for part in [rows[:, start : start + simulation.evaluation_chunk]]
    ]
    predicted, losses, logits = (np.concatenate([p[k].numpy() for p in parts], axis=1) for k in (0, 1, 2))
    probability = np.sum([part[3].numpy() for part in parts], axis=0)
    return [
        Predictions(predicted[k, :n], losses[k, :n], probability[k], logits[k, :n] if where.logits else None)
        for k, (n, where) in enumerate(zip(lengths, sets, strict=True))
    ]


def _evaluate(
    simulation: Simulation, weights: Weights, where: Rows, rows: Tensor, lengths: np.ndarray
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return predictions, losses and logits [models, rows, ...], and sums of probabilities by model."""
    model, federation, count = simulation.model, simulation.federation, len(weights.parameters)
    x = federation.inputs(where.source, rows.reshape(-1))
    if len(rows) > 1:
        x = x.unflatten(0, rows.shape) if isinstance(x, Fields) else x.reshape(*rows.shape, *x.shape[1:])
    buffers = [v if v.numel() else None for v in (weights.float_buffers, weights.int_buffers)]
    dimensions = (0, 0 if len(rows) > 1 else None, *(None if v is None else 0 for v in buffers))
    dense, x, parameters = dense_layers(model), x.to(model.device), weights.parameters.to(model.device)
    with model.evaluating(), torch.no_grad():
        if dense is not None and isinstance(x, Tensor):
            flat = x.flatten(2) if len(rows) > 1 else x.flatten(1).expand(count, -1, -1)
            outputs = dense.logits(dense.split(parameters), flat)[-1]
        else:
            outputs = vmap(model.forward_at, dimensions)(parameters, x, *buffers).transpose(1, 2)
    # Classes before samples: a softmax over few adjacent numbers is slow.
    logits = outputs.cpu().double().contiguous()
    labels = federation.samples(where.source).y[rows].expand(count, -1, *federation.data.train.y.shape[1:])
    labels, task = labels.transpose(1, -1) if labels.ndim > 2 else labels, federation.task
    real = torch.arange(rows.shape[1]) < torch.from_numpy(lengths)[:, None]
    predicted = task.predict(logits)
    return (
        predicted if predicted.ndim == 2 else predicted.transpose(1, 2),
        task.losses(logits, labels),
        logits.transpose(1, 2),
        (task.probabilities(logits) * real[:, None]).sum(2),
    )

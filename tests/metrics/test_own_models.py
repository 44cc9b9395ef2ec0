"""Each client's samples by its own model, in the order in which they were asked for."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.metrics.base import Predictions, Rows
from eunoe.metrics.evaluation import OwnModels


def model(number: float) -> Weights:
    return Weights(torch.tensor([number]), torch.empty(0), torch.empty(0))


class Echo:
    """Predicts ten times the model's number plus the row."""

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        return [
            Predictions(
                10 * int(one.parameters) + where.rows,
                where.rows / 10,
                np.array([float(len(where.rows)), float(one.parameters)]),
                np.stack([where.rows, where.rows], axis=1).astype(np.float64) if where.logits else None,
            )
            for one in models
        ]


def test_every_sample_is_predicted_by_its_owner() -> None:
    own = {3: model(3.0), 5: model(5.0)}
    rows = Rows("clients", np.array([7, 8, 9, 6]), np.array([5, 3, 4, 5]), logits=True)
    (found,) = OwnModels(Echo(), own.get).evaluate([model(1.0)], rows)
    # Client 4 has not trained, and so has the model that all start from.
    assert found.predicted.tolist() == [57, 38, 19, 56]
    assert found.losses.tolist() == [0.7, 0.8, 0.9, 0.6]
    assert found.probability.tolist() == [4.0, 9.0]
    assert found.logits is not None
    assert found.logits[:, 0].tolist() == [7, 8, 9, 6]


def test_samples_of_nobody_cannot_be_predicted() -> None:
    with pytest.raises(InputError, match="this method has no global model"):
        OwnModels(Echo(), lambda _: None).evaluate([model(1.0)], Rows("test", np.arange(2)))

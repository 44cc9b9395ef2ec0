"""Tasks: plain losses, scores and counts worked by hand, and who is refused."""

import math

import pytest
import torch

from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression, check_task
from eunoe.errors import InputError
from eunoe.losses.other_tasks import BinaryCrossEntropy
from eunoe.losses.wsm import WSM

LOG = math.log


def test_labels_by_hand() -> None:
    # Probabilities 1/2 and 4/5 of labels that are there and not.
    outputs, labels = torch.tensor([[0.0, LOG(4)], [-1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    losses = MULTILABEL.losses(outputs, labels)
    assert losses[0].item() == pytest.approx((LOG(2) + LOG(5)) / 2)
    assert MULTILABEL.predict(outputs).tolist() == [[0, 1], [0, 1]]
    assert MULTILABEL.scores(outputs, labels).tolist() == [0.0, 1.0]
    assert MULTILABEL.probabilities(outputs)[0].tolist() == pytest.approx([0.5, 0.8])


def test_numbers_by_hand() -> None:
    task = Regression(mean=(10.0, 0.0), std=(2.0, 0.5))
    targets = task.standardize(torch.tensor([[12.0, 1.0], [6.0, -0.5]], dtype=torch.float64))
    assert targets.tolist() == [[1.0, 2.0], [-2.0, -1.0]]
    outputs = torch.tensor([[0.0, 2.0], [-2.0, -1.0]])
    assert task.losses(outputs, targets).tolist() == [0.5, 0.0]
    assert task.scores(outputs, targets).tolist() == [0.5, 1.0]
    assert task.to_units(targets).tolist() == [[12.0, 1.0], [6.0, -0.5]]


def test_what_clients_have_of_each_class_label_or_number() -> None:
    owners = torch.tensor([0, 0, 2])
    classes = CLASSIFICATION.counts(torch.tensor([1, 1, 0]), owners, 3, 2)
    assert classes.tolist() == [[0, 2], [0, 0], [1, 0]]
    labels = MULTILABEL.counts(torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]]), owners, 3, 2)
    assert labels.tolist() == [[1, 2], [0, 0], [0, 0]]
    numbers = Regression().counts(torch.zeros(3, 2), owners, 3, 2)
    assert numbers.tolist() == [[2, 2], [0, 0], [1, 1]]


def test_a_component_of_another_task_is_refused_with_those_that_fit() -> None:
    check_task(BinaryCrossEntropy(), MULTILABEL, "loss", "bce")
    says = "loss 'wsm' supports classification, not multilabel: use bce"
    with pytest.raises(InputError, match=f"^{says}$"):
        check_task(WSM(), MULTILABEL, "loss", "wsm")
    with pytest.raises(InputError, match=r", not regression: use one of huber, mse$"):
        check_task(BinaryCrossEntropy(), Regression(), "loss", "bce")

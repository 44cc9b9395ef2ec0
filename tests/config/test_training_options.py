"""The options of local training."""

import pytest
from pydantic import ValidationError

from eunoe.config.training_options import Training


def test_the_learning_rate_decays_from_round_1_on() -> None:
    training = Training(lr=0.8, lr_decay=0.5)
    assert [training.lr_in(round) for round in (1, 2, 4)] == [0.8, 0.4, 0.1]


def test_epochs_are_a_number_or_a_range() -> None:
    assert Training(epochs=3).epoch_range == (3, 3)
    assert Training(epochs=(1, 4)).epoch_range == (1, 4)
    for epochs in (0, (0, 2), (3, 1)):
        with pytest.raises(ValidationError, match="epochs must be from 1"):
            Training(epochs=epochs)


def test_momentum_belongs_to_sgd() -> None:
    with pytest.raises(ValidationError, match="momentum belongs to sgd"):
        Training(optimizer="adam", momentum=0.5)

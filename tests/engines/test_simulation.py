"""What a simulation says of a round and of a client."""

import torch

from eunoe.config.options import Augment
from eunoe.engines.simulation import ClientData
from tests.helpers import blobs, make_simulation


def test_the_context_of_a_round_has_its_learning_rate() -> None:
    simulation = make_simulation(training={"lr": 0.8, "lr_decay": 0.5})
    contexts = [simulation.in_round(round).context for round in (1, 3)]
    assert [(context.round, context.lr) for context in contexts] == [(1, 0.8), (3, 0.2)]
    assert contexts[0].data.clients == len(simulation.federation)


def test_the_loss_sees_labels_to_validate_on_only_if_configured() -> None:
    federation = blobs()
    train, validation = federation.counts(0), federation.counts(0, "validation")
    assert validation.sum() > 0
    assert torch.equal(ClientData(make_simulation(federation), 0).loss_counts, train)
    both = make_simulation(federation, training={"label_counts": "train_and_validation"})
    assert torch.equal(ClientData(both, 0).loss_counts, train + validation)


def test_without_augmentation_a_batch_stays_as_it_is() -> None:
    simulation, x = make_simulation(), torch.rand(4, 5)
    assert simulation.augment == Augment()
    assert simulation.augmented(x, torch.Generator()) is x

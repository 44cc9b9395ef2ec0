"""One client's participation in a round."""

import numpy as np
import pytest
import torch
from torch import nn

from eunoe.core.batches import plan_batches
from eunoe.core.rng import generator
from eunoe.engines.simulation import ClientData
from eunoe.engines.vectorized.stack import ClientStack, StackClient
from eunoe.server.updates import Broadcast
from tests.helpers import Net, begin, blobs, make_simulation, train_one


@pytest.mark.parametrize(
    ("options", "optimizer"),
    [
        ({"lr": 0.1}, lambda p: torch.optim.SGD(p, lr=0.1)),
        (
            {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        ),
        (
            {"lr": 0.01, "optimizer": "adam", "weight_decay": 0.1},
            lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
        ),
        (
            {"lr": 0.01, "optimizer": "adamw", "weight_decay": 0.1},
            lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        ),
        ({"lr": 0.5, "clip": 0.3}, lambda p: torch.optim.SGD(p, lr=0.5)),
    ],
)
def test_a_participation_is_what_torchs_optimizer_does(options, optimizer):
    federation = blobs()
    simulation = make_simulation(federation, dtype="float64", training={"batch_size": 8, **options})
    start = simulation.model.weights.copy()
    update, state = train_one(simulation, 1, Broadcast(1, start), {})
    assert state == {}

    torch.manual_seed(0)
    net = Net().double()
    nn.utils.vector_to_parameters(start.parameters, net.parameters())
    rows = torch.from_numpy(federation.rows(1))
    x, y = federation.data.train.x[rows].double(), federation.data.train.y[rows]
    steps = optimizer(net.parameters())
    for batch in plan_batches(len(rows), simulation.context.training, generator(0, "batches", 1, 1)):
        steps.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        if "clip" in options:
            nn.utils.clip_grad_norm_(net.parameters(), options["clip"])
        steps.step()
    expected = nn.utils.parameters_to_vector(net.parameters()).detach()
    torch.testing.assert_close(update.weights.parameters, expected, rtol=1e-5, atol=1e-7)
    assert update.size == len(rows)
    assert update.loss_after < update.loss_before


def test_training_leaves_the_global_generator_alone():
    simulation = make_simulation()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    train_one(simulation, 0, Broadcast(1, simulation.model.weights.copy()), {})
    assert torch.equal(torch.rand(1), expected)


def test_dropout_depends_on_client_and_round_only():
    simulation = make_simulation(net=nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)))
    start = simulation.model.weights.copy()

    def trained(client, round):
        return train_one(simulation, client, Broadcast(round, start), {})[0].weights.parameters

    first = trained(0, 1)
    torch.rand(3)
    assert torch.equal(first, trained(0, 1))
    assert not torch.equal(first, trained(0, 2))


def test_measuring_the_loss_afterwards_leaves_batch_norm_statistics_alone():
    net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    simulation = make_simulation(net=net, training={"batch_size": 8, "epochs": 1})
    update, _ = train_one(simulation, 0, Broadcast(1, simulation.model.weights.copy()), {})
    assert update.weights.int_buffers.tolist() == [update.steps]


def test_a_client_from_which_the_loss_learns_nothing_can_be_skipped_or_spared_decay():
    federation = one_class()
    options = {"loss": "tce", "training": {"weight_decay": 0.1, "single_class": "train"}}

    def change(**training):
        simulation = make_simulation(
            federation, **{**options, "training": {**options["training"], **training}}
        )
        start = simulation.model.weights.copy()
        update, _ = train_one(simulation, 0, Broadcast(1, start), {})
        return update, (update.weights.parameters - start.parameters).abs().sum().item()

    assert change()[1] > 0
    assert change(single_class="no_decay")[1] == 0
    assert change(single_class="skip")[0].skipped


@pytest.mark.parametrize("loss", ["tce", "wsm"])
def test_rows_of_absent_classes_are_shielded_from_all_but_weight_decay(loss):
    def rows(**training):
        simulation = make_simulation(
            one_class(per_client=2), loss=loss, training={"steps": 4, "lr": 0.5, **training}
        )
        start = simulation.model.weights.copy()
        update, _ = train_one(simulation, 0, Broadcast(1, start), {})
        at = simulation.model.names.index("classifier.weight")
        return [simulation.model.views(weights.parameters)[at] for weights in (start, update.weights)]

    before, after = rows()
    assert torch.equal(after[2], before[2])
    assert not torch.equal(after[:2], before[:2])
    before, after = rows(weight_decay=0.1)
    torch.testing.assert_close(after[2], before[2] * (1 - 0.5 * 0.1) ** 4)


def test_labels_to_validate_on_count_only_if_configured():
    from eunoe.data.federation import Federation

    # The last of a client's samples, which it validates on, may be of another class.
    x, y = np.zeros((4, 5), np.float32), np.array([0, 0, 1, 2])
    data = Federation.from_arrays(x, y, x, y, client_ids=np.zeros(4, np.int64), validation=0).data
    ends = np.array([3])
    federation = Federation(data, np.arange(4), np.array([0, 4]), ends, np.array([4]))
    for option, counts in (("train", [2, 1, 0]), ("train_and_validation", [2, 1, 1])):
        simulation = make_simulation(
            federation, participation=1, loss="wsm", training={"label_counts": option}
        )
        broadcast = Broadcast(1, simulation.model.weights.copy())
        client_context, _ = begin(simulation, 0, broadcast, {})
        assert client_context.counts.tolist() == [2, 1, 0]
        torch.testing.assert_close(client_context.terms, (torch.tensor(counts) / sum(counts)).log())
    stack = ClientStack.of([StackClient.plan(ClientData(simulation, 0), broadcast)])
    assert stack.counts.tolist() == [[2, 1, 0]]
    assert stack.loss_counts.tolist() == [[2, 1, 1]]


def one_class(per_client=1):
    """Clients with one class each, or the first with two."""
    from eunoe.data.federation import Federation

    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    y = np.repeat([0, 1, 2], 10)
    return Federation.from_arrays(x, y, x, y, client_ids=y // per_client)

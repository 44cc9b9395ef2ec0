"""Stale updates: which model a client trains from, and how the server applies its change."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from eunoe.config.options import Staleness
from eunoe.core.flat_model import Weights
from eunoe.engines.simulation import Simulation
from eunoe.engines.staleness import add_past, delay_of, stale_broadcast, vectors_sent, without_past
from eunoe.server.updates import Broadcast
from tests.helpers import make_simulation, train_one


def make(**staleness: Any) -> Simulation:
    return make_simulation(staleness={"max": 3, **staleness})


def delays(simulation: Simulation, round: int, count: int = 400) -> list[int]:
    context = simulation.in_round(round).context
    return [delay_of(simulation.staleness, context, client) for client in range(count)]


def test_uniform_delays_are_0_to_max_alike() -> None:
    counts = torch.bincount(torch.tensor(delays(make(), 10)), minlength=4)
    assert len(counts) == 4
    assert (counts > 60).all()


def test_geometric_delays_halve_and_end_at_max() -> None:
    counts = torch.bincount(torch.tensor(delays(make(distribution="geometric"), 10)), minlength=4)
    # Expected: 200, 100, 50 and, of all larger ones, 50.
    assert len(counts) == 4
    assert [int(count) for count in counts] == pytest.approx([200, 100, 50, 50], abs=30)


def test_no_delay_goes_back_before_round_1_and_each_round_draws_anew() -> None:
    simulation = make()
    assert set(delays(simulation, 1)) == {0}
    assert set(delays(simulation, 2)) == {0, 1}
    assert delays(simulation, 10) == delays(simulation, 10) != delays(simulation, 11)


def weights_of(value: float) -> Weights:
    return Weights(torch.tensor([value]), torch.empty(0), torch.empty(0, dtype=torch.int64))


def test_a_client_receives_all_that_was_sent_in_the_round_of_its_delay() -> None:
    simulation, round = make(), 5
    sent = [Broadcast(5 - n, weights_of(-n), {"control": torch.tensor([10.0 - n])}) for n in range(4)]
    newest = add_past(sent[0], [vectors_sent(each) for each in sent[1:]])
    context, seen = simulation.in_round(round).context, set()
    for client in range(20):
        delay = delay_of(simulation.staleness, context, client)
        received = stale_broadcast(simulation.staleness, context, client, newest)
        assert received.round == round
        assert received.weights.parameters.tolist() == [-delay]
        assert {name: value.tolist() for name, value in received.shared.items()} == {
            "control": [10.0 - delay]
        }
        seen.add(delay)
    assert seen == {0, 1, 2, 3}
    assert without_past(newest.shared).keys() == {"control"}


class Center(nn.Module):
    """Logits are two numbers, whatever the input."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(len(x), 3)


@pytest.mark.parametrize(("weighting", "scale"), [("none", 1.0), ("polynomial", 3**-0.5)])
def test_the_change_from_the_stale_model_is_applied_to_the_newest(weighting: str, scale: float) -> None:
    simulation = make_simulation(
        net=Center(),
        dtype="float64",
        staleness={"max": 3, "weighting": weighting},
        training={"epochs": 1, "batch_size": 0, "lr": 0.5},
    )
    rounds = [simulation.in_round(round).context for round in range(3, 20)]
    draws = [(context.round, delay_of(simulation.staleness, context, 0)) for context in rounds]
    client, round = 0, next(round for round, delay in draws if delay == 2)
    sent = [torch.tensor(w).double() for w in ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0])]
    empty = simulation.model.weights
    past = [vectors_sent(Broadcast(1, replace(empty, parameters=w))) for w in sent[1:]]
    newest = add_past(Broadcast(round, replace(empty, parameters=sent[0])), past)
    update, _ = train_one(simulation, client, newest, {})
    # One step of gradient descent from w = (0, 2, 0): the change is -lr (softmax(w) - shares of the labels).
    counts = simulation.federation.counts(client).double()
    change = -0.5 * (torch.softmax(sent[2], 0) - counts / counts.sum())
    torch.testing.assert_close(update.weights.parameters, sent[0] + scale * change)


def test_without_a_delay_the_update_is_the_plain_one() -> None:
    plain, stale = make_simulation(), make()
    start = plain.model.weights.copy()
    updates = [train_one(each, 1, Broadcast(1, start), {})[0].weights.parameters for each in (plain, stale)]
    assert torch.equal(*updates)
    assert make_simulation(staleness={"max": 0}).staleness is None


def test_options() -> None:
    assert Staleness(max=2) == Staleness(max=2, distribution="uniform", weighting="none")

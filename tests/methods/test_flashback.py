"""Flashback: trust, counts and the distillation at clients and server."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.losses.distillation import divergence, weigh_teachers
from eunoe.methods.context import Batch
from eunoe.methods.flashback import Flashback
from eunoe.server.trainer import PositionLoss, ServerTrainer
from eunoe.server.updates import Broadcast
from tests.helpers import begin, train
from tests.methods.helpers import Trial
from tests.public_helpers import Rounds, after, blobs, federation, make_simulation

TRAINING: dict[str, Any] = {"epochs": 2, "batch_size": 4, "lr": 0.2, "momentum": 0.9}
COUNTS = torch.stack([federation().counts(client) for client in range(3)]).double()


def neutral(**options: Any) -> dict[str, Any]:
    return {"name": "flashback", "gamma": 0.0, "server_epochs": 0, **options}


def local_loss(method: dict[str, Any], pi: list[float], client: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of a client's samples, away from the received model; its logits and the teacher's."""
    simulation = make_simulation(federation(), method, training=TRAINING)
    shared = {"pi": torch.tensor(pi, dtype=torch.float64)}
    client, _ = begin(simulation, client, Broadcast(1, simulation.model.weights.copy(), shared), {})
    simulation.method.begin(client)
    index = torch.arange(client.size)
    x, y = client.data(index)
    teacher = simulation.model.forward(x).detach()
    simulation.model.parameters.add_(
        torch.linspace(-1, 1, simulation.model.parameters.numel(), dtype=torch.float64)
    )
    loss = simulation.method.loss(client, Batch(x, y, index))
    return loss.detach(), simulation.model.forward(x).detach(), teacher


def test_without_trust_and_server_epochs_it_is_fedavg(tmp_path: Path) -> None:
    expected = after(3, tmp_path, federation(), "fedavg", training=TRAINING)
    for options in ({}, {"knowledge": "relative"}, {"local": "ce"}, {"t_squared": True}):
        assert torch.equal(after(3, tmp_path, federation(), neutral(**options), training=TRAINING), expected)


def test_the_first_round_of_clients_is_fedavgs(tmp_path: Path) -> None:
    method = {"name": "flashback", "gamma": 0.5, "server_epochs": 0}
    for rounds, same in ((1, True), (2, False)):
        ours = after(rounds, tmp_path, federation(), method, training=TRAINING)
        fedavgs = after(rounds, tmp_path, federation(), "fedavg", training=TRAINING)
        assert torch.equal(ours, fedavgs) == same


def test_without_trust_clients_train_as_with_cross_entropy(tmp_path: Path) -> None:
    both = [
        after(
            2, tmp_path, federation(), {"name": "flashback", "gamma": 0.0, "local": client}, training=TRAINING
        )
        for client in ("dynamic", "ce")
    ]
    assert torch.equal(*both)


def test_local_loss_by_hand(tmp_path: Path) -> None:
    # The client has 3 samples of class 0 and 1 of class 1; pi = (1, 3): the teacher counts 1/4 and 3/4.
    # Its outputs are 1/2 each; the student's, at temperature 3, are 3/4 and 1/4.
    part = ([[1.0]] * 4, [0, 0, 0, 1])
    trial = Trial(tmp_path, [part], Flashback(server_epochs=0))
    shared = {"pi": torch.tensor([1.0, 3.0], dtype=torch.float64)}
    client, _ = begin(trial.simulation, 0, Broadcast(1, trial.run_state.weights, shared), {})
    trial.simulation.method.begin(client)
    client.weights.copy_(torch.tensor([3 * math.log(3), 0.0], dtype=torch.float64))
    index = torch.tensor([0, 3])
    losses = trial.simulation.method.loss(client, Batch(*client.data(index), index))
    kept = 0.25 * 0.5 * math.log(0.5 / 0.75) + 0.75 * 0.5 * math.log(0.5 / 0.25)
    # Cross-entropy is at temperature 1, where the student says 27/28 and 1/28.
    expected = [0.75 * math.log(28 / 27) + kept, 0.25 * math.log(28) + kept]
    assert losses.tolist() == pytest.approx(expected, rel=1e-13)


def test_local_loss_is_the_papers(tmp_path: Path) -> None:
    pi = [2.0, 0.0, 5.0]
    loss, logits, teacher = local_loss({"name": "flashback"}, pi)
    counts, weights = COUNTS[0], torch.tensor(pi, dtype=torch.float64)
    labels = federation().data.train.y[:9]
    alpha = weights / (counts + weights)
    p, q = torch.softmax(teacher / 3, 1), torch.softmax(logits / 3, 1)
    expected = (1 - alpha)[labels] * F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(loss, expected + (alpha * p * (p / q).log()).sum(1))


def test_options_of_the_local_loss() -> None:
    pi = [2.0, 0.0, 5.0]
    plain, logits, teacher = local_loss({"name": "flashback", "local": "ce"}, pi)
    student, weights = weigh_teachers(COUNTS[0], torch.tensor([pi], dtype=torch.float64))
    labels = federation().data.train.y[:9]
    distance = divergence(teacher, logits, 3.0, weights[0])
    squared, _, _ = local_loss({"name": "flashback", "t_squared": True}, pi)
    torch.testing.assert_close(squared, student[labels] * plain + 9 * distance)
    shares = COUNTS[0] / 9
    student, weights = weigh_teachers(shares, torch.tensor([pi], dtype=torch.float64))
    distance = divergence(teacher, logits, 3.0, weights[0])
    for knowledge in ("relative", "probabilities"):
        relative, _, _ = local_loss({"name": "flashback", "knowledge": knowledge}, pi)
        torch.testing.assert_close(relative, student[labels] * plain + distance)


def test_ntd_at_the_clients_ignores_pi_and_the_true_class() -> None:
    plain, logits, teacher = local_loss({"name": "flashback", "local": "ntd"}, [9.0, 9.0, 9.0])
    labels = federation().data.train.y[:9]
    rest = torch.stack([torch.tensor([c for c in range(3) if c != y]) for y in labels.tolist()])
    expected = F.cross_entropy(logits, labels, reduction="none")
    expected = expected + divergence(teacher.gather(1, rest), logits.gather(1, rest))
    torch.testing.assert_close(plain, expected)


@pytest.mark.parametrize(("gamma", "times"), [(0.5, 2), (0.1, 10), (1 / 3, 3), (1.0, 1), (0.4, 2)])
def test_a_client_counts_at_most_one_over_gamma_times(gamma: float, times: int, tmp_path: Path) -> None:
    method = {"name": "flashback", "gamma": gamma, "server_epochs": 0}
    rounds = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path)
    for round in range(1, times + 3):
        pi = rounds.go().run_state.server["pi"]
        torch.testing.assert_close(pi, gamma * min(round, times) * COUNTS.sum(0))
    assert rounds.run_state.server["participations"].tolist() == [times + 2] * 3


def test_counts_fade_and_every_participation_counts(tmp_path: Path) -> None:
    method = {"name": "flashback", "gamma": 0.5, "server_epochs": 0, "decay": 0.8}
    rounds = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path)
    wanted = torch.zeros(3, dtype=torch.float64)
    for _ in range(5):
        wanted = 0.8 * wanted + 0.5 * COUNTS.sum(0)
        torch.testing.assert_close(rounds.go().run_state.server["pi"], wanted)


def test_relative_counts_sum_to_one_by_client(tmp_path: Path) -> None:
    method = {"name": "flashback", "gamma": 0.25, "server_epochs": 0, "knowledge": "relative"}
    pi = Rounds(make_simulation(federation(), method), tmp_path).go().run_state.server["pi"]
    torch.testing.assert_close(pi, 0.25 * (COUNTS / COUNTS.sum(1, keepdim=True)).sum(0))


def test_knowledge_from_mean_outputs_needs_no_counts(tmp_path: Path) -> None:
    method = {"name": "flashback", "gamma": 0.25, "knowledge": "probabilities", "server_epochs": 0}
    rounds = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path)
    simulation = rounds.simulation
    models = [
        u.weights
        for u in train(
            rounds.engine, [0, 1, 2], Broadcast(1, rounds.run_state.weights, rounds.run_state.server)
        )
    ]
    assert simulation.method.uploads(simulation.context) == {}
    trainer = simulation.context.trainer
    assert trainer is not None
    outputs = [trainer.outputs(model, trainer.public("train")) for model in models]
    pi = rounds.go().run_state.server["pi"]
    torch.testing.assert_close(pi, 0.25 * sum(torch.softmax(z, 1).mean(0) for z in outputs))
    assert abs(float(pi.sum()) - 0.75) < 1e-12


def test_server_loss_is_the_papers_sum_over_local_models_and_the_one_sent() -> None:
    simulation = make_simulation(federation(), "flashback")
    trainer = simulation.context.trainer
    assert trainer is not None
    rng = torch.Generator().manual_seed(0)
    outputs = list(torch.randn(4, 20, 3, dtype=torch.float64, generator=rng))
    logits = torch.randn(20, 3, dtype=torch.float64, generator=rng)
    pi = torch.tensor([4.0, 0.0, 1.0], dtype=torch.float64)
    loss = Flashback().server_loss(trainer, outputs, COUNTS, pi)
    total = 2 * pi + COUNTS.sum(0)
    labels = trainer.public("train").labels
    expected = (pi / total)[labels] * F.cross_entropy(logits, labels, reduction="none")
    q = torch.softmax(logits / 3, 1)
    for z, counts in zip(outputs, [*COUNTS, pi], strict=True):
        p = torch.softmax(z / 3, 1)
        expected = expected + (counts / total * p * (p / q).log()).sum(1)
    positions = torch.tensor([3, 17, 0])
    torch.testing.assert_close(loss(logits[positions], positions), expected[positions])


def test_in_round_one_the_server_uses_neither_labels_nor_the_first_model() -> None:
    simulation = make_simulation(federation(), "flashback")
    trainer = simulation.context.trainer
    assert trainer is not None
    rng = torch.Generator().manual_seed(0)
    outputs = list(torch.randn(4, 20, 3, dtype=torch.float64, generator=rng))
    logits, everyone = torch.randn(20, 3, dtype=torch.float64, generator=rng), torch.arange(20)
    nothing = torch.zeros(3, dtype=torch.float64)
    loss = Flashback().server_loss(trainer, outputs, COUNTS, nothing)
    changed = [*outputs[:3], -outputs[3]]
    assert torch.equal(
        loss(logits, everyone), Flashback().server_loss(trainer, changed, COUNTS, nothing)(logits, everyone)
    )
    expected = summed_divergence(outputs[:3], COUNTS / COUNTS.sum(0), logits)
    torch.testing.assert_close(loss(logits, everyone), expected)


def test_the_server_learns_from_the_model_sent_by_what_it_knew_when_sent(tmp_path: Path) -> None:
    seen = []

    class Watched(Flashback):
        def server_loss(
            self, trainer: ServerTrainer, outputs: list[Tensor], counts: Tensor, pi: Tensor
        ) -> PositionLoss:
            seen.append((outputs[-1], counts, pi))
            return super().server_loss(trainer, outputs, counts, pi)

    simulation = make_simulation(federation(), "flashback", training=TRAINING)
    rounds = Rounds(replace(simulation, method=Watched(gamma=0.25, server_epochs=2)), tmp_path).go()
    sent, pi = rounds.run_state.weights, rounds.run_state.server["pi"].clone()
    torch.testing.assert_close(pi, 0.25 * COUNTS.sum(0))
    rounds.go()
    trainer = simulation.context.trainer
    assert trainer is not None
    outputs, counts, known = seen[1]
    assert torch.equal(outputs, trainer.outputs(sent, trainer.public("train")))
    assert torch.equal(known, pi)
    assert torch.equal(counts, COUNTS[rounds.records[1]["clients"]])


def summed_divergence(outputs: list[Tensor], weights: Tensor, logits: Tensor) -> Tensor:
    return torch.stack([divergence(z, logits, 3.0, w) for z, w in zip(outputs, weights, strict=True)]).sum(0)


def test_the_server_keeps_a_trained_epoch_never_the_average(tmp_path: Path) -> None:
    rounds = Rounds(make_simulation(federation(), {"name": "flashback", "server_lr": 1e-9}), tmp_path).go()
    average = after(1, tmp_path, federation(), "fedavg")
    assert not torch.equal(rounds.parameters, average)
    torch.testing.assert_close(rounds.parameters, average, atol=1e-6, rtol=0)
    assert rounds.records[0]["server"]["best_step"] == 1


@pytest.mark.parametrize("local", ["ce", "ntd"])
def test_with_cross_entropy_at_the_server_it_fine_tunes(local: str, tmp_path: Path) -> None:
    server = {"server_epochs": 4, "server_lr": 0.05, "server_batch_size": 6}
    ours = {"name": "flashback", "local": local, "server": "ce", **server}
    trained = after(1, tmp_path, federation(), ours, training=TRAINING)
    plain = after(1, tmp_path, federation(), {"name": "finetune", **server}, training=TRAINING)
    assert torch.equal(trained, plain) == (local == "ce")
    ntd = {**ours, "server_epochs": 0}
    fedntd = after(
        1, tmp_path, federation(), {"name": "fedntd" if local == "ntd" else "fedavg"}, training=TRAINING
    )
    assert torch.equal(after(1, tmp_path, federation(), ntd, training=TRAINING), fedntd)


def test_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="labels"):
        make_simulation(federation(foreign=blobs(40, 7)), "flashback")
    make_simulation(federation(foreign=blobs(40, 7)), neutral())
    with pytest.raises(InputError, match=r"method\.local = 'dynamic'"):
        Trial(tmp_path, [([[1.0]], [0])], Flashback(server_epochs=0, local="ntd"))
    with pytest.raises(InputError, match="server_optimizer"):
        make_simulation(federation(), "flashback", server_optimizer={"name": "momentum"})

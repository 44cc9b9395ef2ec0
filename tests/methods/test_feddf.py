"""FedDF: distillation of the mean model from the clients' models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.data.samples import Samples
from eunoe.errors import InputError
from eunoe.methods.feddf import FedDF
from eunoe.server.updates import Broadcast
from tests.helpers import make_aggregator, train
from tests.methods.helpers import Normed
from tests.public_helpers import INPUTS, Rounds, after, blobs, federation, make_simulation

TRAINING: dict[str, Any] = {"epochs": 3, "batch_size": 4, "lr": 0.3}
SHORT: dict[str, Any] = {"name": "feddf", "steps": 60, "every": 10, "patience": 30, "lr": 0.01}
# The mean of linear models' logits is what the mean model says already; that of their probabilities is not.
PROBABILITIES: dict[str, Any] = {**SHORT, "ensemble": "probabilities", "patience": 60, "lr": 0.03}


def random_outputs(teachers: int = 3) -> Tensor:
    return 2 * torch.randn(teachers, 20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_without_steps_it_is_fedavg_with_equal_weights(tmp_path: Path) -> None:
    ours = after(3, tmp_path, federation(), {"name": "feddf", "steps": 0}, training=TRAINING)
    uniform = {"name": "fedavg", "weighting": "uniform"}
    assert torch.equal(ours, after(3, tmp_path, federation(), uniform, training=TRAINING))
    assert not torch.equal(ours, after(3, tmp_path, federation(), "fedavg", training=TRAINING))


@pytest.mark.parametrize("ensemble", ["logits", "probabilities"])
def test_a_single_client_teaches_its_own_mean_nothing(ensemble: str, tmp_path: Path) -> None:
    # Judged by the distance from the ensemble, as without labels, a student of wrong targets would be kept.
    on, method = federation(sizes=(27,), foreign=blobs(28, 7)), {**SHORT, "ensemble": ensemble}
    ours = after(2, tmp_path, on, method, training=TRAINING)
    torch.testing.assert_close(ours, after(2, tmp_path, on, "fedavg", training=TRAINING), atol=1e-9, rtol=0)


def test_clients_that_are_alike_teach_nothing(tmp_path: Path) -> None:
    on = federation(sizes=(9, 9, 9), foreign=blobs(28, 7))
    same = on.data.train.x.clone(), on.data.train.y.clone()
    for part in same:
        part[9:18], part[18:27] = part[:9], part[:9]
    object.__setattr__(on.data, "train", Samples(*same))
    whole = {**TRAINING, "batch_size": 0}
    ours = after(2, tmp_path, on, SHORT, training=whole)
    torch.testing.assert_close(ours, after(2, tmp_path, on, "fedavg", training=whole), atol=1e-9, rtol=0)


@pytest.mark.parametrize("ensemble", ["logits", "probabilities"])
def test_targets_are_the_ensembles(ensemble: str) -> None:
    outputs, simulation = random_outputs(), make_simulation(federation(), SHORT)
    trainer = simulation.context.trainer
    assert trainer is not None
    trainer.outputs = lambda teacher, pool: outputs[teacher]  # type: ignore[method-assign, assignment, index]
    targets = FedDF(ensemble=ensemble).targets(trainer, [0, 1, 2], trainer.public("train"))  # type: ignore[arg-type, list-item]
    mean = torch.softmax(outputs.mean(0), 1)
    if ensemble == "probabilities":
        mean = torch.softmax(outputs, 2).mean(0)
    torch.testing.assert_close(targets.mass, mean)


def test_distillation_brings_the_mean_nearer_to_the_ensemble(tmp_path: Path) -> None:
    foreign = blobs(28, 7)
    simulation = make_simulation(federation(foreign=foreign), PROBABILITIES, training=TRAINING)
    rounds = Rounds(simulation, tmp_path).go()
    trainer, context = simulation.context.trainer, simulation.in_round(1).context
    assert trainer is not None
    fresh = Rounds(make_simulation(federation(foreign=foreign), PROBABILITIES, training=TRAINING), tmp_path)
    aggregator = make_aggregator(simulation.method, fresh.run_state.weights, context)
    for update in train(fresh.engine, rounds.records[0]["clients"], Broadcast(1, fresh.run_state.weights)):
        aggregator.add(update)
    assert isinstance(simulation.method, FedDF)
    targets = simulation.method.targets(trainer, aggregator.aggregate.models, trainer.public("validation"))
    mean = aggregator.aggregate.with_mean_buffers(
        fresh.run_state.weights.parameters + aggregator.aggregate.mean("change")
    )
    said = [
        trainer.outputs(weights, trainer.public("validation")) for weights in (rounds.run_state.weights, mean)
    ]
    p = targets.mass
    distances = [float((p * (p.log() - logits.log_softmax(1))).sum(1).mean()) for logits in said]
    assert 0 < distances[0] < 0.8 * distances[1]
    assert rounds.records[0]["server"]["best_step"] > 0
    score = float(targets.divergence(said[0]).mean())
    assert rounds.records[0]["server"]["validation"] == pytest.approx(-score)


def test_foreign_labels_are_never_looked_at(tmp_path: Path) -> None:
    foreign = blobs(28, 7)
    unlabeled = Samples(foreign.x, torch.full_like(foreign.y, -1))
    both = [after(2, tmp_path, federation(foreign=samples), SHORT) for samples in (foreign, unlabeled)]
    assert torch.equal(*both)


def test_poor_teachers_can_be_left_out_and_the_last_model_added(tmp_path: Path) -> None:
    def teachers(**options: Any) -> int:
        simulation = make_simulation(federation(), {**SHORT, **options}, training=TRAINING)
        return int(Rounds(simulation, tmp_path).go().records[0]["server"]["teachers"])

    assert teachers() == 3
    assert teachers(previous_teaches=True) == 4
    # Nobody is three times as good as chance among three classes, unless all its predictions are right.
    assert teachers(least_accuracy=3.5) == 3
    assert teachers(previous_teaches=True, least_accuracy=1.2) < 4


def test_fewer_steps_than_an_interval_still_give_a_model(tmp_path: Path) -> None:
    rounds = Rounds(
        make_simulation(federation(), {"name": "feddf", "steps": 3}, training=TRAINING), tmp_path
    ).go()
    assert rounds.records[0]["server"]["steps"] == 3
    assert bool(torch.isfinite(rounds.parameters).all())


def test_it_stops_after_so_many_batches_without_a_better_model(tmp_path: Path) -> None:
    for patience, steps in ((30, 30), (25, 30), (500, 60)):
        method = {**SHORT, "patience": patience, "lr": 1e-12}
        rounds = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path).go()
        assert rounds.records[0]["server"]["steps"] == steps
        assert rounds.records[0]["server"]["best_step"] == 0


@pytest.mark.parametrize("kept", [True, False])
def test_the_mean_is_kept_where_no_student_is_better_unless_configured_otherwise(
    kept: bool, tmp_path: Path
) -> None:
    # So slow that all students predict what the mean does.
    method = {**PROBABILITIES, "lr": 1e-12, "keep_average": kept}
    rounds = Rounds(make_simulation(federation(), method, training=TRAINING), tmp_path).go()
    average = after(1, tmp_path, federation(), {**SHORT, "steps": 0}, training=TRAINING)
    assert torch.equal(rounds.parameters, average) == kept
    assert rounds.records[0]["server"]["best_step"] == (0 if kept else SHORT["every"])


def test_its_rate_falls_to_nothing(tmp_path: Path) -> None:
    # Adam's steps are about as long as its rate: half of it on average along a cosine.
    method = {**PROBABILITIES, "every": 1, "patience": 99, "steps": 8, "lr": 1e-6}
    simulation = make_simulation(federation(foreign=blobs(28, 7)), method, training=TRAINING)
    rounds = Rounds(simulation, tmp_path).go()
    assert rounds.records[0]["server"]["best_step"] == 8
    average = after(1, tmp_path, federation(), {**SHORT, "steps": 0}, training=TRAINING)
    longest = float((rounds.parameters - average).abs().max())
    # The cosine's values at 0, 1/8, ..., 7/8 add up to 4.5.
    assert longest == pytest.approx(4.5e-6, rel=0.01)


def test_a_clipped_gradient_is_too_small_for_adam(tmp_path: Path) -> None:
    average = after(1, tmp_path, federation(), {**SHORT, "steps": 0}, training=TRAINING)
    foreign = federation(foreign=blobs(28, 7))
    moved = [
        float((after(1, tmp_path, foreign, {**PROBABILITIES, "clip": c}, training=TRAINING) - average).norm())
        for c in (5.0, 1e-15)
    ]
    assert moved[0] > 0.01
    assert moved[1] < 1e-5


@pytest.mark.parametrize("frozen", [True, False])
def test_statistics_move_to_the_public_data_unless_frozen(frozen: bool, tmp_path: Path) -> None:
    on, model = federation(foreign=blobs(28, 7)), {"name": f"{__name__}:normed", "dtype": "float64"}
    results = [
        Rounds(make_simulation(on, method, model=model, training=TRAINING), tmp_path).go()
        for method in ({**PROBABILITIES, "freeze_statistics": frozen}, {**SHORT, "steps": 0})
    ]
    best = results[0].records[0]["server"]["best_step"]
    assert best > SHORT["every"]
    distilled, mean = (rounds.run_state.weights for rounds in results)
    assert torch.equal(distilled.float_buffers, mean.float_buffers) == frozen
    # Looking at the validation set in between does not end training mode.
    assert int(distilled.int_buffers - mean.int_buffers) == (0 if frozen else best)


def normed(shape: tuple[int, ...], classes: int) -> Normed:
    return Normed(shape[0], classes)


def test_what_it_needs() -> None:
    foreign = federation(foreign=Samples(torch.zeros(28, INPUTS).double(), torch.full((28,), -1)))
    make_simulation(foreign, "feddf")
    with pytest.raises(InputError, match="labels"):
        make_simulation(foreign, {"name": "feddf", "least_accuracy": 1.2})
    with pytest.raises(InputError, match=r"public\.validation"):
        make_simulation(federation(validation=0), "feddf")

"""Training at the server: soft targets, stopping, and what must not depend on the engine or on a stop."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config.options import FeatureShift, Public, Training
from eunoe.core.flat_model import FlatModel, Weights
from eunoe.data.federation import Federation
from eunoe.data.partitions.without_labels import Iid
from eunoe.data.samples import DataSet
from eunoe.data.transforms import shift_inputs
from eunoe.errors import InputError
from eunoe.losses.distillation import divergence
from eunoe.server.trainer import ServerTrainer, SoftTargets, Stopping, public_trainer
from eunoe.simulation.running import resume, run
from tests.public_helpers import CLASSES, INPUTS, blobs, federation


def trainer_of(module: nn.Module | None = None, on: Federation | None = None) -> ServerTrainer:
    torch.manual_seed(3)
    model = FlatModel(module or nn.Linear(INPUTS, CLASSES), torch.float64)
    return ServerTrainer(on or federation(), model, seed=5)


def start_of(trainer: ServerTrainer) -> Weights:
    return trainer.model.weights.copy()


def scripted(scores: list[float]) -> Callable[[Tensor], float]:
    """A judge that gives these scores one after the other."""
    left: Iterator[float] = iter(scores)
    return lambda logits: next(left)


def test_soft_targets_sum_the_teachers_divergences() -> None:
    rng = torch.Generator().manual_seed(0)
    teachers = torch.randn(4, 6, 3, dtype=torch.float64, generator=rng)
    weights = torch.rand(4, 3, dtype=torch.float64, generator=rng)
    student = torch.randn(6, 3, dtype=torch.float64, generator=rng)
    targets = SoftTargets.of(iter(teachers), weights, 3.0)
    expected = sum(divergence(t, student, 3.0, w) for t, w in zip(teachers, weights, strict=True))
    torch.testing.assert_close(targets.divergence(student), expected)
    some = torch.tensor([4, 1])
    torch.testing.assert_close(targets.divergence(student[some], some), expected[some])


def test_training_on_labels_is_gradient_descent() -> None:
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    x, y = pool.inputs(torch.arange(len(pool))), pool.labels
    w, b = start.parameters[:12].view(3, 4).clone(), start.parameters[12:].clone()
    for _ in range(2):
        error = torch.softmax(x @ w.T + b, 1) - F.one_hot(y, 3)
        w -= 0.5 * (error.T @ x / len(y) + 0.1 * w)
        b -= 0.5 * (error.mean(0) + 0.1 * b)
    options = Training(epochs=2, batch_size=0, lr=0.5, weight_decay=0.1)
    trained = trainer.train(start, trainer.plain_loss(pool), pool, options, 1)
    torch.testing.assert_close(trained.weights.parameters, torch.cat([w.flatten(), b]))
    assert trained.record == {"steps": 2, "forwards": 40, "backwards": 40}


def test_cosine_lowers_the_learning_rate_step_by_step() -> None:
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    options = Training(steps=2, batch_size=0, lr=1.0)
    trained = trainer.train(start, lambda z, _: z[:, 0], pool, options, 1, anneal=True)
    mean = pool.inputs(torch.arange(len(pool))).mean(0)
    # Rates 1 and 1/2, each times a gradient that is always the mean input.
    expected = start.parameters.clone()
    expected[:INPUTS] -= 1.5 * mean
    expected[12] -= 1.5
    torch.testing.assert_close(trained.weights.parameters, expected)


@pytest.mark.parametrize(
    ("scores", "start_counts", "steps", "best"),
    [
        ([0.5, 0.7, 0.6, 0.7, 0.9], False, 8, 4),
        ([0.5, 0.4, 0.3], True, 4, 0),
        ([0.1, 0.2, 0.1, 0.3, 0.3, 0.2], True, 10, 6),
        ([0.1, 0.2, 0.3, 0.4, 0.5], False, 10, 10),
        ([-math.inf, 0.1, 0.0, 0.0], False, 8, 4),
    ],
)
def test_stopping_keeps_the_best_and_ends_after_patience(
    scores: list[float], start_counts: bool, steps: int, best: int
) -> None:
    """Ten steps with a look after every two, and patience for two looks."""
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    options = Training(steps=10, batch_size=4, lr=0.1)
    loss = trainer.plain_loss(pool)
    stopping = Stopping(scripted(scores), 2, every=2, start_counts=start_counts)
    trained = trainer.train(start, loss, pool, options, 1, stopping=stopping)
    assert (trained.record["steps"], trained.record["best_step"]) == (steps, best)
    expected = start
    if best:
        expected = trainer.train(start, loss, pool, options.model_copy(update={"steps": best}), 1).weights
        assert not torch.equal(expected.parameters, start.parameters)
    assert torch.equal(trained.weights.parameters, expected.parameters)


def test_a_run_shorter_than_the_interval_is_still_judged() -> None:
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    stopping = Stopping(trainer.accuracy(trainer.public("validation")), 10, every=100)
    trained = trainer.train(
        start, trainer.plain_loss(pool), pool, Training(steps=3, batch_size=4), 1, stopping=stopping
    )
    assert trained.record["best_step"] == 3
    assert trained.record["forwards"] == 3 * 4 + 8


def test_an_epoch_is_the_default_interval() -> None:
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    options = Training(epochs=4, batch_size=8, lr=0.1)
    trained = trainer.train(
        start,
        trainer.plain_loss(pool),
        pool,
        options,
        1,
        stopping=Stopping(scripted([1.0, 0.9, 0.8]), 2),
    )
    assert (trained.record["steps"], trained.record["best_step"]) == (9, 3)


def test_a_model_that_is_not_finite_is_never_the_best() -> None:
    trainer = trainer_of()
    start, pool = start_of(trainer), trainer.public("train")
    options = Training(epochs=3, batch_size=0).model_copy(update={"lr": 1e308})
    loss = trainer.plain_loss(pool)
    # A judge that would like each model better than the one before.
    stopping = Stopping(scripted([1.0, 2.0, 3.0, 4.0]), 5, start_counts=True)
    trained = trainer.train(start, loss, pool, options, 1, stopping=stopping)
    assert bool(torch.isfinite(trained.weights.parameters).all())
    assert trained.record["best_step"] == 0


def test_batch_statistics_move_unless_frozen() -> None:
    module = nn.Sequential(nn.Linear(INPUTS, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES))
    trainer = trainer_of(module)
    start, pool = start_of(trainer), trainer.public("train")
    validation = trainer.public("validation")
    moved = {}
    for freeze in (False, True):
        moved[freeze] = trainer.train(
            start,
            trainer.plain_loss(pool),
            pool,
            # Batches of 19 leave one sample, which batch normalization cannot train on alone.
            Training(epochs=2, batch_size=19, lr=0.1),
            1,
            stopping=Stopping(trainer.accuracy(validation), 5),
            freeze_statistics=freeze,
        ).weights
    assert torch.equal(moved[True].float_buffers, start.float_buffers)
    assert not torch.equal(moved[False].float_buffers, start.float_buffers)
    assert not torch.equal(moved[True].parameters, start.parameters)


def test_training_leaves_the_global_generator_alone_and_repeats_itself() -> None:
    trainer = trainer_of(nn.Sequential(nn.Dropout(0.5), nn.Linear(INPUTS, CLASSES)))
    start, pool = start_of(trainer), trainer.public("train")
    options = Training(epochs=2, batch_size=8, lr=0.1)
    before = torch.get_rng_state()
    loss = trainer.plain_loss(pool)
    once = trainer.train(start, loss, pool, options, 1).weights.parameters
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(123)
    assert torch.equal(trainer.train(start, loss, pool, options, 1).weights.parameters, once)
    assert not torch.equal(trainer.train(start, loss, pool, options, 2).weights.parameters, once)


def test_outputs_are_of_the_evaluation_mode_and_count_as_passes() -> None:
    trainer = trainer_of(nn.Sequential(nn.Dropout(0.5), nn.Linear(INPUTS, CLASSES)))
    trainer.chunk = 7
    start, pool = start_of(trainer), trainer.public("train")
    outputs = trainer.outputs(start, pool)
    linear = trainer.model.module[1]  # type: ignore[index]
    torch.testing.assert_close(outputs, linear(pool.inputs(torch.arange(20))).detach())
    trained = trainer.train(start, trainer.plain_loss(pool), pool, Training(epochs=1, batch_size=0), 1)
    assert trained.record["forwards"] == 40


def test_everything_is_what_clients_train_on_and_the_public_set_each_seen_its_own_way() -> None:
    on = federation()
    pool = trainer_of(on=on).everything()
    assert pool.rows.tolist() == list(range(47))
    assert pool.owners is not None
    assert pool.owners.tolist() == [0] * 9 + [1] * 6 + [2] * 12 + [-1] * 20
    foreign = trainer_of(on=federation(foreign=blobs(40, 7))).everything()
    assert foreign.rows.tolist() == list(range(27))
    shift = FeatureShift(kind="contrast", strength=1.0)
    some = torch.tensor([30, 8, 9])
    seen = trainer_of(on=replace(on, shift=shift)).everything().inputs(some)
    assert torch.equal(seen[0], pool.inputs(some)[0])
    for place, client in ((1, 0), (2, 1)):
        expected = shift_inputs(pool.inputs(some)[place : place + 1], shift, 0, client)[0]
        assert torch.equal(seen[place], expected)


def test_what_a_method_needs_of_the_public_set_is_said() -> None:
    def needs(on: Federation, **what: bool) -> str:
        trainer = trainer_of(on=on)
        with pytest.raises(InputError) as caught:
            public_trainer(trainer, "this", **what)
        return str(caught.value)

    whole = federation()
    assert "set public.share" in needs(replace(whole, public=None, public_train=None, public_validation=None))
    assert "public.validation" in needs(federation(validation=0))
    assert "raise public.share" in needs(federation(public=0))
    assert "labels" in needs(federation(foreign=blobs(40, 7)), labels=True)


def test_a_foreign_public_set_has_labels_only_if_its_classes_are_the_same() -> None:
    def build(public: DataSet) -> Federation:
        data = DataSet("blobs", blobs(60, 0), blobs(20, 1), CLASSES, class_names=("a", "b", "c"))
        return Federation.build(data, Iid(clients=3), public=Public(count=20), public_data=public)

    foreign = blobs(40, 7)
    assert not build(DataSet("other", foreign, foreign, CLASSES)).public_labeled
    named = DataSet("same", foreign, foreign, CLASSES, class_names=("a", "b", "c"))
    assert build(named).public_labeled
    unlabeled = replace(foreign, y=torch.full_like(foreign.y, -1))
    assert not build(replace(named, train=unlabeled)).public_labeled
    wide = replace(foreign, x=torch.zeros(40, 9, dtype=torch.float64))
    with pytest.raises(InputError, match=r"float64 \[9\].*float64 \[4\]"):
        build(replace(named, train=wide))


METHODS: list[dict[str, Any]] = [
    {"name": "flashback", "gamma": 0.5},
    {"name": "flashback", "gamma": 0.5, "knowledge": "probabilities", "local": "ntd"},
    {"name": "feddf", "steps": 30, "every": 10},
    {"name": "finetune", "server_epochs": 3},
    {"name": "central"},
    {"name": "central", "on": "public"},
]


def settings(method: dict[str, Any], engine: str) -> dict[str, Any]:
    return {
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
        "public": {"share": 0.1},
        "participation": 3,
        "training": {"epochs": 1, "lr": 0.1, "momentum": 0.9, "lr_decay": 0.9},
        "method": method,
        "rounds": 4,
        "engine": {"name": engine, "workers": 2} if engine == "process" else {"name": engine},
    }


@pytest.mark.parametrize("method", METHODS, ids=lambda method: "-".join(map(str, method.values())))
def test_engines_agree_and_a_stop_changes_nothing(method: dict[str, Any], tmp_path: Path) -> None:
    whole = run(settings(method, "serial"), out=tmp_path / "whole")
    other = run(settings(method, "process"), out=tmp_path / "process")
    run({**settings(method, "serial"), "rounds": 2}, out=tmp_path / "parts")
    parts = resume(tmp_path / "parts", {"rounds": 4})
    for one in (other, parts):
        assert torch.equal(one.weights().parameters, whole.weights().parameters)
        assert (one.folder / "metrics.jsonl").read_text() == (whole.folder / "metrics.jsonl").read_text()
    assert whole.records[-1]["server"]["steps"] > 0

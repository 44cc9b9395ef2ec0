"""The vectorized engine against the serial one: what clients send up, before it is merged."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eunoe.config import registry
from eunoe.config.options import FeatureShift
from eunoe.config.registry import PRESETS
from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.engine import Vectorized, cohort_size
from eunoe.losses.wsm import WSM
from eunoe.methods.base import Finished, Method
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import start_state
from tests.helpers import Net, blobs, make_aggregator, make_simulation, select, train
from tests.other_tasks import federation as other_task
from tests.small_runs import REFERENCES

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
RAGGED = {"batch_size": 8, "epochs": 2, "lr": 0.1}


def images(side: int, clients: int = 4, size: int = 14, channels: int = 1, **options: Any) -> Federation:
    """Clients with random images of bytes, of quite different sizes."""
    rng = np.random.default_rng(0)
    shape = (clients * size + 20, side, side, channels)[: 4 if channels > 1 else 3]
    x = rng.integers(0, 256, shape, dtype=np.uint8)
    y = rng.integers(0, 3, len(x))
    owners = np.minimum((rng.random(clients * size) ** 2 * clients).astype(int), clients - 1)
    owners[:clients] = np.arange(clients)
    return Federation.from_arrays(
        x[20:], y[20:], x[:20], y[:20], client_ids=owners, validation=0.0, mean=(0.5,), std=(0.25,), **options
    )


def ragged(clients: int = 4, size: int = 30, **options: Any) -> Federation:
    """Clients of quite different sizes."""
    return blobs(clients, size, partition="quantity", **options)


def named_model(federation: Federation, model: str, dtype: str, **values: Any) -> Simulation:
    """A simulation of a named model."""
    config = make_config({"model": {"name": model, "dtype": dtype}, "participation": 1.0, **values})
    return assemble(config, UserObjects(federation=federation))[0]


class Both:
    """The two engines side by side on one simulation; each keeps its own clients' states."""

    def __init__(self, simulation: Simulation, folder, cohort: int | None = None) -> None:
        self.simulation = simulation
        self.serial = Serial(simulation, ClientStates(folder / "serial"))
        self.vectorized = Vectorized(simulation, ClientStates(folder / "vectorized"), cohort)
        self.run_state = start_state(simulation)

    @property
    def warned(self) -> set[str]:
        return self.vectorized._warned

    def round(self) -> list[tuple[Update, Update]]:
        """Train everybody with both; the run goes on with what the serial engine gave."""
        simulation, run_state = self.simulation, self.run_state
        run_state.round += 1
        context = simulation.in_round(run_state.round).context
        clients = select(simulation, run_state.round)
        broadcast = Broadcast(
            run_state.round, run_state.weights, simulation.method.broadcast(run_state.server, context)
        )
        pairs = list(
            zip(
                train(self.serial, clients, broadcast),
                train(self.vectorized, clients, broadcast),
                strict=True,
            )
        )
        aggregator = make_aggregator(simulation.method, run_state.weights, context)
        for alone, together in pairs:
            assert alone.client == together.client
            if alone.skipped is None:
                aggregator.add(alone)
                self.serial.states.accept(alone.client, run_state.round)
                self.vectorized.states.accept(alone.client, run_state.round)
        if not simulation.method.keeps_models:
            merged = simulation.method.aggregate(run_state.server, aggregator.aggregate, context)
            run_state.weights, run_state.server = merged.weights, merged.server
        return pairs

    def check(self, rounds: int = 2, tolerance: float | None = None) -> "Both":
        """Compare everything that the engines give, none of it trained serially."""
        dtype = self.simulation.model.dtype
        tolerance = tolerance or TOLERANCE[str(dtype).removeprefix("torch.")]
        for _ in range(rounds):
            for alone, together in self.round():
                compare(alone, together, tolerance)
                client, round = alone.client, self.run_state.round
                if self.serial.states.path(client, round).exists():
                    one, other = (e.states.load(client, round) for e in (self.serial, self.vectorized))
                    close(one, other, tolerance)
        assert self.warned == set()
        return self


def compare(alone: Update, together: Update, tolerance: float) -> None:
    for name in ("size", "steps", "forwards", "backwards", "skipped"):
        assert getattr(alone, name) == getattr(together, name), name
    close(vars(alone.weights), vars(together.weights), tolerance)
    close(alone.uploads, together.uploads, tolerance)
    losses = [[update.loss_before, update.loss_after] for update in (alone, together)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=10 * tolerance, atol=10 * tolerance)


def close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        torch.testing.assert_close(other[name], one[name], rtol=tolerance, atol=tolerance, msg=name)


def test_the_check_can_fail(tmp_path):
    both = Both(make_simulation(training=RAGGED, participation=1.0), tmp_path)
    alone, together = both.round()[0]
    together.weights.parameters[3] += 1e-4
    with pytest.raises(AssertionError):
        compare(alone, together, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
# Language models have tests of their own.
@pytest.mark.parametrize("loss", [name for name in registry.names("loss") if name != "next_token"])
def test_every_loss(tmp_path, loss, dtype):
    tasks = registry.find("loss", loss).tasks
    if "classification" in tasks:
        federation, net = blobs(5, 25, partition="dirichlet_by_class", min_size=3), None
    else:
        federation = other_task(tasks[0])
        net = Net(4, classes=federation.classes)
    Both(
        make_simulation(federation, net, dtype, loss=loss, training=RAGGED, participation=1.0), tmp_path
    ).check()


def test_class_weights(tmp_path):
    federation, loss = blobs(5, 25, partition="dirichlet_by_class", min_size=3), {"class_weights": "balanced"}
    values = {"loss": {"name": "ce", **loss}, "training": RAGGED, "participation": 1.0}
    Both(make_simulation(federation, None, "float64", **values), tmp_path).check()


@pytest.mark.parametrize(
    "training",
    [
        {"momentum": 0.9, "weight_decay": 0.01},
        {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.1},
        {"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1},
        {"clip": 0.3},
        {"clip": 0.3, "momentum": 0.5, "lr_decay": 0.9},
        {"epochs": (1, 5)},
        {"epochs": (1, 5), "optimizer": "adam", "lr": 0.01},
        {"steps": 7},
        {"batch_size": 0},
        {"last_batch": "drop"},
        {"batch_size": 1, "epochs": 1},
    ],
    ids=str,
)
def test_every_way_to_train(tmp_path, training):
    for dtype in TOLERANCE:
        simulation = make_simulation(
            ragged(8, 20), dtype=dtype, training={**RAGGED, **training}, participation=1.0
        )
        Both(simulation, tmp_path / dtype, cohort=5).check()


@pytest.mark.parametrize("single_class", ["train", "no_decay", "skip"])
def test_clients_from_which_the_loss_learns_nothing(tmp_path, single_class):
    federation = blobs(6, 12, alpha=0.05)
    for optimizer in ("sgd", "adamw"):
        training = {**RAGGED, "weight_decay": 0.1, "single_class": single_class, "optimizer": optimizer}
        simulation = make_simulation(federation, loss="wsm", training=training, participation=1.0)
        alone = [bool((federation.counts(k) > 0).sum() == 1) for k in range(6)]
        assert set(alone) == {True, False}
        Both(simulation, tmp_path / optimizer).check()


@pytest.mark.parametrize(
    ("model", "side", "channels"), [("lenet", 16, 3), ("small_cnn", 8, 1), ("mlp", 8, 1), ("cnn", 8, 1)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_models(tmp_path, model, side, channels, dtype):
    Both(named_model(images(side, channels=channels), model, dtype, training=RAGGED), tmp_path).check(1)


@pytest.mark.parametrize(
    "augment", [{"crop_padding": 2, "flip": True}, {"cutout": 3, "flip": True}], ids=["crop", "cutout"]
)
def test_augmentation_draws_the_same(tmp_path, augment):
    Both(named_model(images(8), "small_cnn", "float64", augment=augment, training=RAGGED), tmp_path).check()


@pytest.mark.parametrize("kind", ["noise", "rotation", "contrast"])
def test_each_client_sees_its_inputs_in_its_own_way(tmp_path, kind):
    federation = replace(images(8), shift=FeatureShift(kind=kind, strength=1.5), shift_seed=3)
    Both(named_model(federation, "small_cnn", "float64", training=RAGGED), tmp_path).check(1)


def test_a_cohort_is_any_number_of_clients(tmp_path):
    for cohort in (1, 2, 3, 50):
        simulation = make_simulation(ragged(7, 15), dtype="float64", training=RAGGED, participation=1.0)
        Both(simulation, tmp_path / str(cohort), cohort).check(1)


def test_more_steps_at_a_time_than_fit_are_prepared_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("eunoe.engines.vectorized.stack._NUMBERS_AT_ONCE", 200)
    Both(make_simulation(ragged(7, 15), dtype="float64", training=RAGGED, participation=1.0), tmp_path).check(
        1
    )


# Options without which a method would do nothing of its own, or could not run.
OPTIONS: dict[str, dict[str, Any]] = {"fedprox": {"mu": 0.3}}
# Names for fedavg with a server optimizer are fedavg to an engine.
METHODS = [name for name in registry.names("method") if name not in PRESETS]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("augment", [{}, {"flip": True}], ids=["plain", "augmented"])
def test_every_method(tmp_path, name, augment):
    training = {**RAGGED, "epochs": (1, 3), "weight_decay": 0.01}
    # FedReg takes signs, which jump where float32 differs in the last bits.
    for dtype in ["float64"] if name == "fedreg" else list(TOLERANCE):
        federation = images(8, public=0.2)
        if name in REFERENCES:
            federation = replace(federation, references={"old": federation.data})
        simulation = named_model(
            federation,
            "mlp",
            dtype,
            method={"name": name, **OPTIONS.get(name, {})},
            augment=augment,
            training=training,
        )
        if simulation.method.vectorizes and simulation.method.trains_clients:
            Both(simulation, tmp_path / dtype, cohort=3).check(3)


class OwnStep(Method):
    """A step of its own with a gradient elsewhere, and a state that it keeps."""

    def client_state(self, context):
        return {"drift": context.model.parameters}

    def begin(self, client_context):
        noise = torch.randn(len(client_context.weights), generator=client_context.generator)
        client_context.cache["noise"] = 0.01 * noise.to(client_context.weights)
        client_context.rows["importance"] = torch.linspace(
            0.5, 1.5, client_context.size, dtype=client_context.weights.dtype
        )
        client_context.freeze("start", client_context.start)

    def step(self, client_context, batch):
        def loss(at):
            logits = client_context.forward(batch.x, at)
            weighted = (
                client_context.criterion(logits, batch.y) * client_context.rows["importance"][batch.index]
            )
            return weighted + 0.1 * (client_context.frozen("start", batch) - logits).square().mean(-1)

        gradient = client_context.gradient_at(
            client_context.weights + client_context.cache["noise"], loss, batch
        )
        client_context.descend(
            client_context.decayed(gradient) + 0.1 * client_context.state["drift"] / client_context.size
        )

    def finish(self, client_context):
        return Finished(state={"drift": client_context.weights - client_context.start.parameters})


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_method_with_a_step_of_its_own(tmp_path, optimizer):
    decay = {"weight_decay": 0.1, "single_class": "no_decay"}
    training = {**RAGGED, **decay, "epochs": (1, 4), "optimizer": optimizer, "lr": 0.02}
    for dtype in TOLERANCE:
        simulation = named_model(images(8), "mlp", dtype, loss="tce", training=training)
        Both(replace(simulation, method=OwnStep()), tmp_path / dtype, cohort=3).check(3)


class OwnMoment(Method):
    """A step that puts a new tensor in the place of its moment, and finishes with it."""

    def step(self, client_context, batch):
        gradient = client_context.gradient(lambda: self.loss(client_context, batch), batch)
        client_context.moments["mean"] = (
            0.5 * client_context.moments.get("mean", torch.zeros_like(gradient)) + gradient
        )
        client_context.weights.sub_(0.05 * client_context.moments["mean"])

    def finish(self, client_context):
        return Finished(state={"mean": client_context.moments["mean"]})


def test_a_moment_that_is_replaced_at_every_step(tmp_path):
    simulation = make_simulation(ragged(5, 15), dtype="float64", training=RAGGED, participation=1.0)
    Both(replace(simulation, method=OwnMoment()), tmp_path, cohort=3).check()


class RoundAware(Method):
    """Looks at the learning rate and the round."""

    def correct(self, client_context, gradient):
        return gradient * (1 + client_context.lr) + 0.01 * client_context.context.round


class StepAware(Method):
    """Warms up, in its loss and in its correction."""

    def loss(self, client_context, batch):
        return super().loss(client_context, batch) * min(1.0, (client_context.steps_taken + 1) / 3)

    def correct(self, client_context, gradient):
        return gradient * min(1.0, (client_context.steps_taken + 1) / 5)


class Plain(Method):
    """Looks at nothing that changes but its arguments."""

    def correct(self, client_context, gradient):
        return gradient + 0.1 * (client_context.weights - client_context.start.parameters)


@pytest.mark.parametrize("method", [RoundAware(), StepAware(), Plain()], ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("options", [{"momentum": 0.9, "clip": 1.0}, {"optimizer": "adam"}], ids=str)
def test_steps_that_read_what_changes_by_the_round_or_step(tmp_path, method, options):
    training = {**RAGGED, **options, "lr": 0.02, "lr_decay": 0.9}
    simulation = make_simulation(ragged(7, 15), dtype="float64", training=training, participation=1.0)
    Both(replace(simulation, method=method), tmp_path).check(3)


def batch_normed() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


@pytest.mark.parametrize(("last_batch", "batch_size"), [("drop", 7), ("keep", 7), ("keep", 8)])
def test_batch_norm_vectorizes_with_equal_batches(tmp_path, last_batch, batch_size):
    for dtype in TOLERANCE:
        training = {"lr": 0.3, "last_batch": last_batch, "batch_size": batch_size, "epochs": (1, 3)}
        simulation = make_simulation(
            equal_blobs(), batch_normed(), dtype, training=training, participation=1.0
        )
        Both(simulation, tmp_path / dtype).check()


def equal_blobs() -> Federation:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 5)).astype(np.float32), rng.integers(0, 3, 100)
    return Federation.from_arrays(x, y, x, y, client_ids=np.repeat(np.arange(5), 20), validation=0.0)


def falls_back(simulation: Simulation, folder, reason: str) -> None:
    both = Both(simulation, folder)
    for _ in range(2):
        for alone, together in both.round():
            assert torch.equal(alone.weights.parameters, together.weights.parameters)
            assert torch.equal(alone.weights.float_buffers, together.weights.float_buffers)
    assert len(both.warned) == 1
    assert reason in both.warned.pop()


def test_a_fallback_is_logged_once(tmp_path, caplog):
    dropout = make_simulation(net=nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)), training=RAGGED)
    both = Both(dropout, tmp_path)
    for _ in range(2):
        both.round()
    expected = "clients train one after the other: the model draws random numbers (dropout)"
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert caplog.records[0].levelname == "WARNING"


def test_what_does_not_vectorize_trains_serially(tmp_path):
    training = RAGGED
    unequal = make_simulation(ragged(), batch_normed(), training=training, participation=1.0)
    falls_back(unequal, tmp_path / "norm", "batches of equal size")
    dropout = make_simulation(net=nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3)), training=training)
    falls_back(dropout, tmp_path / "dropout", "dropout")

    class Hidden(nn.Linear):
        def forward(self, x):
            return super().forward(nn.functional.dropout(x, 0.5, self.training))

    falls_back(
        make_simulation(net=Hidden(5, 3), training=training), tmp_path / "hidden", "could not be vectorized"
    )

    class Refuses(Method):
        """Does not vectorize."""

        vectorizes = False

    falls_back(replace(make_simulation(), method=Refuses()), tmp_path / "refuses", "Refuses")

    class Mixing(WSM, frozen=True):
        """Forms shares over the counts of all clients."""

        def terms(self, counts):
            return (counts / counts.sum()).log()

    falls_back(replace(make_simulation(), loss=Mixing()), tmp_path / "mixing", "each row of the counts")

    class Branching(Method):
        """Decides by a value."""

        def correct(self, client_context, gradient):
            return 2 * gradient if gradient.sum() > 0 else gradient

    falls_back(
        replace(make_simulation(), method=Branching()), tmp_path / "branching", "data-dependent control flow"
    )

    class Greedy(Method):
        """Looks at all of the client's data in every step."""

        def correct(self, client_context, gradient):
            return gradient * client_context.data(torch.arange(3))[0].mean()

    falls_back(replace(make_simulation(), method=Greedy()), tmp_path / "greedy", "more of the client's data")

    class AskedMoments(Method):
        """Looks ahead along the momentum."""

        def correct(self, client_context, gradient):
            return gradient + client_context.moments.get("momentum", torch.zeros_like(gradient))

    asked = replace(make_simulation(training={**training, "momentum": 0.5}), method=AskedMoments())
    falls_back(asked, tmp_path / "moments", "the optimizer's moments")


@pytest.mark.parametrize(
    "fault", [ZeroDivisionError, TypeError, AttributeError, ValueError, NotImplementedError, RuntimeError]
)
@pytest.mark.parametrize("where", ["begin", "loss", "correct", "finish"])
def test_a_fault_of_the_users_own_is_raised_with_its_clients(tmp_path, fault, where, caplog):
    def fail(self, *_):
        raise fault("own fault")

    faulty = type("Faulty", (Method,), {"__doc__": "Always fails.", where: fail})
    engine = Vectorized(replace(make_simulation(), method=faulty()), ClientStates(tmp_path))
    with pytest.raises(fault, match="own fault") as raised:
        list(train(engine, [2, 1], Broadcast(1, engine.simulation.model.weights.copy())))
    assert raised.traceback[-1].name == "fail"
    (note,) = raised.value.__notes__
    if where in ("begin", "finish"):
        assert "client 2" in note or "client 1" in note
    else:
        assert "clients 2, 1 trained at once in round 1" in note
        assert "vectorizes" in note
    assert not caplog.records


def test_the_global_generator_and_the_server_model_are_left_alone(tmp_path):
    class Drawing(Method):
        """Draws from the global generator, first and last."""

        def begin(self, client_context):
            torch.rand(1)

        def finish(self, client_context):
            return Finished(uploads={"drawn": torch.rand(1)})

    simulation = replace(make_simulation(training=RAGGED), method=Drawing())
    broadcast = Broadcast(1, simulation.model.weights.copy())
    start = broadcast.weights.parameters.clone()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    engine = Vectorized(simulation, ClientStates(tmp_path / "together"))
    together = list(train(engine, [0, 1], broadcast))
    # One client after the other would leave the generator alone too.
    assert not engine._warned
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(broadcast.weights.parameters, start)
    alone = list(train(Serial(simulation, ClientStates(tmp_path / "alone")), [0, 1], broadcast))
    for mine, other in zip(together, alone, strict=True):
        assert torch.equal(mine.uploads["drawn"], other.uploads["drawn"])


def test_a_run_records_its_cohort_and_equals_itself_when_resumed(tmp_path):
    def go(folder, **values):
        return run(
            {"partition": {"name": "dirichlet", "clients": 6}, "participation": 3, "rounds": 4, **values},
            out=tmp_path / folder,
            engine={"name": "vectorized"},
            evaluation={"every": 1, "chunk": 500},
        )

    whole = go("whole")
    assert whole.values["engine"]["cohort"] == cohort_size(whole.simulation.model.parameters.numel())
    go("parts", rounds=2)
    parts = resume(tmp_path / "parts", {"rounds": 4})
    assert torch.equal(whole.weights().parameters, parts.weights().parameters)


def test_the_cohort_follows_from_the_size_of_the_model_alone():
    assert cohort_size(650) == 256
    assert cohort_size(62_006) == 32
    assert cohort_size(11_000_000) == 2

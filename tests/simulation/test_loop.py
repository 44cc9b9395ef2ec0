"""The round loop: who takes part, when is evaluated, what was forgotten, what ends a run, what is dropped."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.config.options import STANDARD_PROBES
from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation
from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.methods.base import Finished, Method, Upload
from eunoe.methods.context import Batch, ClientContext, RoundContext
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.hooks import Hook, Round
from eunoe.simulation.loop import run_rounds
from eunoe.simulation.run import Run
from eunoe.simulation.running import run, standard_hooks
from eunoe.store.checkpoints import RunState, list_checkpoints, newest_checkpoint, start_state
from eunoe.store.folder import RunFolder
from tests.helpers import Net, blobs, make_aggregator, make_simulation, select, train

QUIET = {"evaluation": {"every": 0, "last": 0}, "probes": []}


def loop(
    simulation: Simulation, tmp_path: Path, engine: Engine | None = None, **values: Any
) -> tuple[RunState, str, list[Any]]:
    """The rounds of a simulation: where they end, why, and their records."""
    records: list[Any] = []
    config = make_config({"rounds": 3, **QUIET, **values})
    run_state = start_state(simulation)
    with RunFolder(tmp_path) as folder:
        running = engine or Serial(simulation, ClientStates(tmp_path / "states"))
        hooks = standard_hooks(simulation, config, running, folder, run_state, records.append)
        reason = run_rounds(simulation, running, run_state, config.rounds, hooks)
    return run_state, reason, records


# Who takes part.


def test_clients_are_chosen_without_replacement_the_large_first_then_by_number() -> None:
    ids = np.repeat(np.arange(6), [5, 9, 9, 3, 7, 9])
    x = np.zeros((len(ids), 5), np.float32)
    federation = Federation.from_arrays(x, ids % 3, x, ids % 3, client_ids=ids, validation=0.0)
    simulation = make_simulation(federation, participation=1.0)
    assert select(simulation, 1) == [1, 2, 5, 4, 0, 3]
    some = make_simulation(federation, participation=3)
    for round in range(1, 30):
        chosen = select(some, round)
        assert len(set(chosen)) == 3
        assert chosen == [client for client in [1, 2, 5, 4, 0, 3] if client in chosen]
    assert len({tuple(select(some, round)) for round in range(1, 30)}) > 5


def test_the_choice_depends_on_seed_and_round_alone() -> None:
    federation = blobs(clients=10)
    chosen = [select(make_simulation(federation, participation=3, seed=4), round) for round in (1, 2, 3)]
    others = [
        select(make_simulation(federation, participation=3, seed=4, loss="wsm"), round) for round in (1, 2, 3)
    ]
    assert chosen == others
    assert chosen != [
        select(make_simulation(federation, participation=3, seed=5), round) for round in (1, 2, 3)
    ]


def test_all_clients_come_up_equally_often() -> None:
    simulation = make_simulation(blobs(clients=10), participation=3)
    counts = np.bincount(
        [client for round in range(1, 1001) for client in select(simulation, round)], minlength=10
    )
    # 300 expected of each, with a standard deviation of 14.5.
    assert counts.sum() == 3000
    assert np.abs(counts - 300).max() < 70


# What ends a run.


def test_a_run_ends_with_the_round_that_reaches_the_target(tmp_path: Path) -> None:
    federation = blobs()
    done = run(
        federation=federation,
        model=Net(),
        rounds=50,
        participation=4,
        probes=[],
        training={"lr": 0.5},
        stop={"target": 0.7},
        engine="serial",
        out=tmp_path / "run",
    )
    rounds, accuracy = done.series("validation.accuracy")
    assert 1 <= len(rounds) < 50
    assert (accuracy[:-1] < 0.7).all()
    assert accuracy[-1] >= 0.7
    assert done.status["reason"] == "validation accuracy reached 0.7"
    assert done.finished


def test_a_loop_that_is_entered_after_its_end_does_nothing(tmp_path: Path) -> None:
    simulation = make_simulation(participation=4)
    values: dict[str, Any] = {"evaluation": {"every": 1}, "stop": {"target": 0.2}}
    config = make_config({"rounds": 3, "probes": [], **values})
    run_state, reason, records = loop(simulation, tmp_path, **values)
    assert (run_state.round, reason) == (1, "validation accuracy reached 0.2")
    # As if it was killed just before it could say that it has finished.
    with RunFolder(tmp_path) as folder:
        engine = Serial(simulation, ClientStates(tmp_path / "states"))
        hooks = standard_hooks(simulation, config, engine, folder, run_state, records.append)
        again = run_rounds(simulation, engine, run_state, config.rounds, hooks)
    assert (run_state.round, again, len(records)) == (1, reason, 1)


def test_an_evaluation_or_a_probe_changes_no_result(tmp_path: Path) -> None:
    runs = [
        loop(make_simulation(), tmp_path / "off"),
        loop(
            make_simulation(),
            tmp_path / "on",
            evaluation={"every": 1},
            probes=[{"metric": "drift", "every": 1}],
        ),
    ]
    (off, _, _), (on, _, _) = runs
    assert torch.equal(off.weights.parameters, on.weights.parameters)


# Who is dropped.


class Failing(Method):
    """Clients of the test's choice spoil their update in some way, in one round or in all."""

    clients: tuple[int, ...] = ()
    rounds: tuple[int, ...] = (1, 2, 3)
    how: str = "nan"

    def client_state(self, context: RoundContext) -> dict[str, int]:
        return {"seen": 1}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"extra": Upload("sum", 2)}

    def finish(self, client_context: ClientContext) -> Finished:
        extra = torch.ones(2)
        if client_context.id in self.clients and client_context.context.round in self.rounds:
            if self.how == "raise":
                raise OwnError(f"about client {client_context.id}", 7)
            if self.how == "nan":
                client_context.weights[0] = torch.nan
            if self.how == "inf upload":
                extra[1] = torch.inf
            if self.how == "long upload":
                extra = torch.ones(3)
            if self.how == "column upload":
                extra = torch.ones(2, 1)
            if self.how == "no upload":
                return Finished({}, {"seen": torch.ones(1)})
        return Finished({"extra": extra}, {"seen": client_context.state["seen"] + 1})


class OwnError(Exception):
    """An exception that cannot be made again from its arguments alone."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Plain(ValueError):
    pass


def engines(method: Method, folder: Path) -> Iterator[Engine]:
    yield Serial(simulation_of(method), ClientStates(folder / "serial"))
    yield Process(simulation_of(method), ClientStates(folder / "process"), 2)


def simulation_of(method: Method, **values: Any) -> Simulation:
    torch.manual_seed(0)
    objects = UserObjects(federation=blobs(), model=Net(), method=method)
    base = {"data": "given", "partition": "given", "model": "given", "participation": 4}
    return assemble(make_config({**base, **values}), objects)[0]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("nan", "its update is not finite"),
        ("inf upload", "its update is not finite"),
        ("long upload", "its upload 'extra' is missing or has the wrong shape"),
        ("column upload", "its upload 'extra' is missing or has the wrong shape"),
        ("no upload", "its upload 'extra' is missing or has the wrong shape"),
    ],
)
def test_a_bad_client_is_dropped_and_named_and_its_state_is_discarded(
    tmp_path: Path, how: str, reason: str
) -> None:
    expected: torch.Tensor | None = None
    for number, engine in enumerate(engines(Failing(clients=(2,), how=how), tmp_path)):
        with engine:
            run_state, _, records = loop(engine.simulation, tmp_path / str(number), engine, rounds=2)
        for record in records:
            assert record["dropped"] == [{"client": 2, "reason": reason}]
            assert sorted(record["clients"]) == [0, 1, 3]
            assert len(record["sizes"]) == len(record["update_norms"]) == len(record["loss_after"]) == 3
        assert 2 not in engine.states.accepted
        assert engine.states.load(2) == {}
        assert not engine.states.path(2, 1).exists()
        assert engine.states.accepted == {0: 2, 1: 2, 3: 2}
        assert engine.states.load(0)["seen"].item() == 2
        assert expected is None or torch.equal(expected, run_state.weights.parameters)
        expected = run_state.weights.parameters


def test_the_others_are_merged_as_if_the_dropped_one_had_not_been_there(tmp_path: Path) -> None:
    with_drop, _, _ = loop(simulation_of(Failing(clients=(2,))), tmp_path / "a", rounds=1)
    simulation = simulation_of(Failing())
    run_state = start_state(simulation)
    engine = Serial(simulation, ClientStates(tmp_path / "b"))
    aggregator = make_aggregator(simulation.method, run_state.weights, simulation.in_round(1).context)
    for update in train(
        engine, [client for client in select(simulation, 1) if client != 2], Broadcast(1, run_state.weights)
    ):
        aggregator.add(update)
    merged = simulation.method.aggregate({}, aggregator.aggregate, simulation.in_round(1).context)
    assert torch.equal(with_drop.weights.parameters, merged.weights.parameters)


def test_if_all_fail_the_run_stops_with_its_last_good_checkpoint(tmp_path: Path) -> None:
    method = Failing(clients=(0, 1, 2, 3), rounds=(3,))
    values: dict[str, Any] = {"federation": blobs(), "model": Net(), "method": method, "participation": 4}
    values |= {"engine": "serial", "rounds": 5, "probes": []}
    with pytest.raises(
        RunFailed, match=r"every client of round 3 was dropped; client \d: its update is not finite"
    ) as e:
        run(**values, out=tmp_path / "bad")
    assert "\n" not in str(e.value)
    failed = Run(tmp_path / "bad")
    assert failed.status["state"] == "diverged"
    assert failed.status["round"] == 2
    assert "every client of round 3" in failed.status["reason"]
    assert [record["round"] for record in failed.records] == [1, 2]
    assert list_checkpoints(tmp_path / "bad")[-1].stem == "00000002"
    good = run(**{**values, "method": Failing(), "rounds": 2}, out=tmp_path / "good")
    simulation = simulation_of(Failing())
    states = [start_state(simulation), start_state(simulation)]
    for run_state, folder in zip(states, (tmp_path / "bad", good.folder), strict=True):
        saved, _ = newest_checkpoint(folder)
        assert saved is not None
        saved.load(run_state)
    assert torch.equal(states[0].weights.parameters, states[1].weights.parameters)


def test_a_learning_rate_that_explodes_fails_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunFailed):
        run(
            federation=blobs(),
            model=Net(),
            training={"lr": 1e30},
            participation=2,
            rounds=30,
            engine="serial",
            probes=[],
            out=tmp_path / "run",
        )
    assert Run(tmp_path / "run").status["state"] == "diverged"


def test_a_users_own_exception_arrives_whole_with_client_and_round(tmp_path: Path) -> None:
    for number, engine in enumerate(engines(Failing(clients=(1,), rounds=(2,), how="raise"), tmp_path)):
        with engine, pytest.raises(Exception, match="about client 1") as caught:
            loop(engine.simulation, tmp_path / str(number), engine)
        message = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
        assert "client 1" in message
        assert "round 2" in message
        assert "OwnError" in message or isinstance(caught.value, OwnError)


class Raising(Method):
    """A method with a mistake in its loss."""

    def loss(self, client_context: ClientContext, batch: Batch) -> torch.Tensor:
        raise Plain("in the loss")


def test_a_plain_exception_keeps_its_type_and_its_trace(tmp_path: Path) -> None:
    for number, engine in enumerate(engines(Raising(), tmp_path)):
        with engine, pytest.raises(Plain, match="in the loss") as caught:
            loop(engine.simulation, tmp_path / str(number), engine)
        notes = "".join(caught.value.__notes__)
        assert "trained in round 1" in notes
        assert number == 0 or "raise Plain" in notes


def test_a_round_of_clients_that_can_teach_nothing_leaves_the_model(tmp_path: Path) -> None:
    ids = np.repeat(np.arange(3), 8)
    x = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    federation = Federation.from_arrays(x, ids, x, ids, client_ids=ids)
    simulation = make_simulation(federation, participation=2, loss="wsm", training={"single_class": "skip"})
    start = simulation.model.parameters.clone()
    run_state, reason, records = loop(simulation, tmp_path, rounds=2, probes=STANDARD_PROBES)
    assert reason == "all 2 rounds done"
    assert torch.equal(run_state.weights.parameters, start)
    assert not (tmp_path / "probes.jsonl").exists()
    assert [len(record["dropped"]) for record in records] == [2, 2]
    assert records[0]["clients"] == []
    # They were sent the model and send nothing back.
    assert records[0]["bytes_up"] == 0
    assert records[0]["bytes_down"] > 0


def test_a_client_skipped_without_a_reason_is_not_merged_either(tmp_path: Path) -> None:
    class Silent(Serial):
        """Client 2 is skipped without a reason."""

        def train(
            self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast
        ) -> Iterator[Update]:
            for update in super().train(simulation, clients, broadcast):
                yield replace(update, skipped="") if update.client == 2 else update

    simulation = make_simulation(participation=4)
    _, _, records = loop(
        simulation, tmp_path, Silent(simulation, ClientStates(tmp_path / "states")), rounds=1
    )
    assert sorted(records[0]["clients"]) == [0, 1, 3]
    assert records[0]["dropped"] == [{"client": 2, "reason": ""}]


# What is recorded.


def test_a_record_has_the_participants_and_the_bytes(tmp_path: Path) -> None:
    simulation = make_simulation(
        participation=3, training={"batch_size": 10, "epochs": 2, "lr": 0.5, "lr_decay": 0.5}
    )
    _, _, records = loop(simulation, tmp_path, rounds=2)
    for record in records:
        clients = record["clients"]
        sizes = [int(simulation.federation.sizes[client]) for client in clients]
        assert record["sizes"] == sizes
        assert record["steps"] == [2 * math.ceil(size / 10) for size in sizes]
        assert record["backwards"] == 2 * sum(sizes)
        parameters = 5 * 8 + 8 + 8 * 3 + 3
        assert record["bytes_up"] == record["bytes_down"] == 3 * 4 * parameters
        assert record["dropped"] == []
        assert all(norm > 0 for norm in record["update_norms"])
    assert [record["lr"] for record in records] == [0.5, 0.25]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2]
    timings = [json.loads(line) for line in (tmp_path / "timings.jsonl").read_text().splitlines()]
    assert [sorted(timing) for timing in timings] == [["evaluate", "probe", "round", "train"]] * 2


# Hooks.


class Noting(Hook):
    """Records its calls, in order."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def before_run(self) -> str:
        self.calls.append("begin")
        return ""

    def before_training(self, round: int, clients: Sequence[int], start: Weights) -> None:
        self.calls.append((round, "train", list(clients)))

    def after_client(self, update: Update) -> None:
        assert update.weights.parameters.numel() > 0
        self.calls.append(update.client)

    def after_round(self, done: Round) -> None:
        self.calls.append((done.number, "done", done.record["clients"]))
        done.reason = "enough" if done.number == 2 else ""

    def after_run(self) -> None:
        self.calls.append("end")


def test_a_hook_sees_every_step_and_can_end_the_run(tmp_path: Path) -> None:
    simulation, hook = make_simulation(participation=2), Noting()
    engine, run_state = Serial(simulation, ClientStates(tmp_path)), start_state(simulation)
    assert run_rounds(simulation, engine, run_state, 9, [hook]) == "enough"
    steps = []
    for round in (1, 2):
        clients = select(simulation, round)
        steps += [(round, "train", clients), *clients, (round, "done", clients)]
    assert hook.calls == ["begin", *steps, "end"]


def test_without_hooks_the_rounds_are_the_same(tmp_path: Path) -> None:
    simulation = make_simulation()
    run_state = start_state(simulation)
    run_rounds(simulation, Serial(simulation, ClientStates(tmp_path / "bare")), run_state, 3)
    hooked, _, _ = loop(make_simulation(), tmp_path / "hooked", evaluation={"every": 1})
    assert torch.equal(run_state.weights.parameters, hooked.weights.parameters)

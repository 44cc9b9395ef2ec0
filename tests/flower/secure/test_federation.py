"""Secure aggregation through Flower's records, without a network, against simulated runs."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import RecordDict

from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.engines.serial import Serial
from eunoe.errors import InputError, RunFailed
from eunoe.flower.client import node_options, train
from eunoe.flower.deploy.credentials import make_node_key
from eunoe.flower.secure import client as handlers
from eunoe.flower.secure.engine import SecureRemoteEngine
from eunoe.flower.secure.history import History, run_identity, vector_digest
from eunoe.flower.secure.messages import decode_keys, encode_keys
from eunoe.flower.secure.protocol import Secrets, Session
from eunoe.flower.server import RunOptions, serve
from eunoe.flower.wire import missing_update
from eunoe.server.secure_sum import SAMPLES
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.system.log_lines import log_lines
from tests.flower.grid import FakeGrid, Silence

CLIENTS, ROUNDS = 5, 2
METHODS = {
    "fedavg": {},
    "scaffold": {"method": "scaffold"},
    "fednova, gma": {"method": "fednova", "server_optimizer": {"name": "sgd", "gma": 0.6}},
    "fedcurv": {"method": "fedcurv"},
    "state, uploads and broadcast": {"method": "tests.flower.methods:Remembers"},
    "batch norm": {"model": "tests.flower.methods:Normed"},
}


class Without(Serial):
    """A serial run without one client in one round."""

    def __init__(self, simulation, states, client: int, round: int) -> None:
        super().__init__(simulation, states)
        self.gone = client, round

    def train(self, simulation, clients, broadcast):
        for client in clients:
            if (client, broadcast.round) == self.gone:
                yield missing_update(client, broadcast.weights, "it is not there")
            else:
                yield from super().train(simulation, [client], broadcast)


def without(client: int, round: int) -> dict:
    return {"name": "tests.flower.secure.test_federation:Without", "client": client, "round": round}


@pytest.fixture(name="values")
def _values(server_process, some_digits):
    def values(**more):
        return {
            "data": str(some_digits),
            "seed": 5,
            "rounds": ROUNDS,
            "participation": 1.0,
            "partition": {"name": "dirichlet", "clients": CLIENTS, "alpha": 0.3},
            "model": {"name": "mlp", "hidden": [8]},
            "training": {"epochs": 1, "batch_size": 32},
            "loss": "wsm",
            "engine": {"name": "serial"},
            "secure_aggregation": {"threshold": 3},
            "probes": [],
            **more,
        }

    return values


class Federation:
    """A federation in a folder, without a network."""

    def __init__(self, folder: Path, values: dict) -> None:
        folder.mkdir()
        self.folder, self.config = folder, make_config(values)
        (folder / "config.toml").write_text(to_toml(values))
        keys = folder / "keys"
        for client in range(CLIENTS):
            make_node_key(keys, f"node-{client}")
        nodes = {
            client + 1: {
                **{"client": client, "state": str(folder / "state")},
                **{"key": str(keys / f"node-{client}.key"), "peers": str(keys)},
            }
            for client in range(CLIENTS)
        }
        self.grid = FakeGrid(folder / "config.toml", nodes)
        self.lines: list[str] = []
        # What the server asked for, in order: stage and client.
        self.asked: list[tuple[str, int]] = []
        self.kill: tuple[str, int, set[int]] = ("", 0, set())
        self.grid.tamper = self._tamper

    def _tamper(self, node, message):
        kind = message.metadata.message_type
        self.asked.append((kind, node - 1))
        if kind != "query":
            round = message.content.config_records["session"]["round"]
            stage, when, victims = self.kill
            if (kind, round) == (stage, when) and node - 1 in victims:
                raise Silence
        return None

    def serve(self, **options) -> Run:
        given = {"clients": CLIENTS, "folder": self.folder / "run", "timeout": 0.3, "join-timeout": 0.3}
        with log_lines(self.lines.append):
            return serve(self.grid, self.config, RunOptions.model_validate(given | options))


def records(done: Run) -> list[dict]:
    lines = [json.loads(line) for line in (done.folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["dropped"] = [one["client"] for one in line["dropped"]]
    return lines


def assert_same(one: Run, other: Run) -> None:
    for lane in ("parameters", "float_buffers", "int_buffers"):
        assert torch.equal(getattr(one.weights(), lane), getattr(other.weights(), lane))
    assert records(one) == records(other)


@pytest.mark.parametrize("name", METHODS)
def test_masks_change_no_bit(tmp_path, values, name):
    simulated = run(values(**METHODS[name]), out=tmp_path / "simulated")
    assert_same(Federation(tmp_path / "flower", values(**METHODS[name])).serve(), simulated)


REMEMBERS = METHODS["state, uploads and broadcast"]


@pytest.mark.parametrize("stage", ["query.keys", "query.shares", "train.masked"])
def test_a_client_lost_before_its_vector_arrives_is_as_if_not_there(tmp_path, values, stage):
    federation = Federation(tmp_path / "flower", values(**REMEMBERS))
    federation.kill = stage, 1, {3}
    done = federation.serve()
    assert records(done)[0]["dropped"] == [3]
    assert_same(done, run(values(**REMEMBERS, engine=without(3, 1)), out=tmp_path / "without"))


@pytest.mark.parametrize("stage", ["query.confirm", "query.unmask"])
def test_a_client_lost_after_its_vector_arrived_is_in_the_sum(tmp_path, values, stage):
    federation = Federation(tmp_path / "flower", values(**REMEMBERS))
    federation.kill = stage, 1, {0, 3}
    done = federation.serve()
    assert records(done)[0]["dropped"] == []
    assert_same(done, run(values(**REMEMBERS), out=tmp_path / "with"))


@pytest.mark.parametrize(
    ("stage", "victims"),
    [
        ("train.masked", {0, 2, 3}),
        ("query.confirm", {0, 2, 3}),
        ("query.unmask", {0, 2, 3}),
        ("query.keys", {1, 2, 4}),
    ],
)
def test_fewer_than_the_threshold_end_the_round_in_one_line(tmp_path, values, stage, victims):
    federation = Federation(tmp_path / "flower", values())
    federation.kill = stage, 2, victims
    with pytest.raises(RunFailed) as failed:
        federation.serve()
    message = str(failed.value)
    assert message.startswith(
        "secure aggregation: 2 of 5 clients are left in round 2, fewer than the threshold of 3; nothing was "
        f"unmasked; client {min(victims)}: it did not reply within 0.3 s"
    )
    assert "\n" not in message
    stages = [kind for kind, _ in federation.asked]
    # Nobody was asked to reveal anything in round 2, unless that is where they were lost.
    assert stages.count("query.unmask") == 5 + 5 * (stage == "query.unmask")
    assert len((federation.folder / "run" / "metrics.jsonl").read_text().splitlines()) == 1


def test_a_restarted_node_is_out_of_the_round_and_in_the_next(tmp_path, values):
    federation = Federation(tmp_path / "flower", values())

    def restarted(node, message):
        if message.metadata.message_type == "train.masked" and message.content["session"]["round"] == 1:
            federation.grid.memory.pop(4, None)

    federation.grid.tamper = restarted
    assert [record["dropped"] for record in records(federation.serve())] == [[3], []]
    assert "client 3 (it failed" in (line := next(line for line in federation.lines if "round 1:" in line))
    assert "its node may have been restarted" in line


def test_a_client_sends_no_second_vector_and_reveals_no_second_share(tmp_path, values):
    federation = Federation(tmp_path / "flower", values(rounds=1))
    refused: list[str] = []

    def twice(node, message):
        kind = message.metadata.message_type
        if kind not in ("query.shares", "train.masked", "query.unmask"):
            return None
        federation.grid.tamper = lambda node, message: None
        first = federation.grid._answer(node, message)
        with pytest.raises(InputError, match="it has no secrets for this stage of the round"):
            federation.grid._answer(node, message)
        refused.append(kind)
        federation.grid.tamper = twice
        return first.content

    federation.grid.tamper = twice
    federation.serve()
    assert sorted(refused) == ["query.shares"] * 5 + ["query.unmask"] * 5 + ["train.masked"] * 5


def test_a_round_that_is_repeated_is_unmasked_for_the_same_clients_only(tmp_path, values):
    """A server that lost its folder after the round, but not the run's name."""
    federation = Federation(tmp_path / "flower", values(rounds=1))
    folder = federation.folder / "run"
    first = federation.serve().weights().parameters
    name = (folder / "flower.json").read_text()

    def again(kill) -> Run:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "flower.json").write_text(name)
        federation.kill = kill
        return federation.serve()

    assert torch.equal(again(("", 0, set())).weights().parameters, first)
    with pytest.raises(RunFailed, match="it has already helped to unmask a different sum of round 1"):
        again(("train.masked", 1, {3}))


def test_a_second_run_is_unmasked_for_the_same_clients_only(tmp_path, values):
    """Round 1 of a config has the same vectors in each of its runs."""
    federation = Federation(tmp_path / "flower", values(rounds=1))
    first = federation.serve().weights().parameters
    again = federation.serve(folder=federation.folder / "again")
    assert torch.equal(again.weights().parameters, first)
    federation.kill = "train.masked", 1, {3}
    with pytest.raises(RunFailed, match="it has already helped to unmask a different sum of round 1"):
        federation.serve(folder=federation.folder / "difference")
    # Another config is another run, which may have the same vectors.
    other = Federation(tmp_path / "other", values(rounds=2))
    for node, options in other.grid.nodes.items():
        options["state"] = federation.grid.nodes[node]["state"]
    other.kill = "train.masked", 1, {3}
    with pytest.raises(
        RunFailed, match="it has already helped to unmask a different sum with the same vector"
    ):
        other.serve()


def test_a_client_that_learns_nothing_helps_in_every_round(tmp_path):
    vector = b"the same in every round"
    sent = [vector_digest(model, vector) for model in (b"model 1", b"model 2")]
    first, history = Session("run", 1, 3), History(tmp_path, 0)
    history.reveal(first, sent[0], [0, 1, 2], 9)
    history.reveal(first._replace(round=2), sent[1], [0, 1, 3], 9)
    history.reveal(first, sent[0], [2, 1, 0], 9)
    with pytest.raises(InputError, match="a different sum of round 1"):
        history.reveal(first, sent[1], [0, 1, 3], 9)
    with pytest.raises(InputError, match="a different sum with the same vector"):
        history.reveal(first._replace(run="other"), sent[0], [0, 1, 3], 9)
    # Other clients of the same folder have a history of their own.
    History(tmp_path, 1).reveal(first, sent[0], [0, 1, 3], 9)


def test_the_same_clients_are_summed_in_a_limited_number_of_rounds(tmp_path):
    history, first = History(tmp_path, 0), Session("run", 1, 3)
    for round in (1, 2, 2):
        history.reveal(first._replace(round=round), b"%d" % round, [0, 1, 2], 2)
    with pytest.raises(InputError, match="it has already helped 2 times with these clients"):
        history.reveal(first._replace(round=3), b"3", [0, 1, 2], 2)
    history.reveal(first._replace(round=3), b"3", [0, 1, 3], 2)
    history.reveal(first._replace(run="other"), b"4", [0, 1, 2], 2)


def test_a_server_that_names_few_clients_cannot_lower_the_threshold(tmp_path, values, monkeypatch):
    """0.6 of 5 clients are 3; of the 3 that it names 2 would be enough."""
    true = SecureRemoteEngine.secure_sum

    def few(self, simulation, clients, broadcast, aggregator):
        simulation = replace(simulation, secure=replace(simulation.secure, threshold=2))
        return true(self, simulation, clients[:3], broadcast, aggregator)

    monkeypatch.setattr(SecureRemoteEngine, "secure_sum", few)
    federation = Federation(tmp_path / "flower", values(rounds=1, secure_aggregation={"threshold": 0.6}))
    with pytest.raises(RunFailed, match="the server's threshold is 2, but that of the config is 3"):
        federation.serve()
    assert "query.unmask" not in [kind for kind, _ in federation.asked]


@pytest.mark.parametrize(
    ("record", "change", "message"),
    [
        ("session", {"run": "other"}, "the server names another run than that of this node's config"),
        ("session", {"round": 9}, "the server orders round 9; the config has 1 rounds"),
        ("order", {"round": 2}, "the server orders round 2 in round 1"),
    ],
)
def test_a_server_that_orders_another_run_or_round_gets_nothing(tmp_path, values, record, change, message):
    federation = Federation(tmp_path / "flower", values(rounds=1))

    def other(node, message):
        if record in message.content.config_records:
            for name, value in change.items():
                message.content.config_records[record][name] = value

    federation.grid.tamper = other
    with pytest.raises(RunFailed, match=message):
        federation.serve()


def test_the_clients_of_a_round_are_those_that_the_seed_selects(tmp_path, values, monkeypatch):
    true = SecureRemoteEngine.secure_sum

    def others(self, simulation, clients, broadcast, aggregator):
        (unselected,) = set(range(CLIENTS)) - set(clients)
        return true(self, simulation, [*clients[1:], unselected], broadcast, aggregator)

    settings = values(rounds=1, participation=4)
    Federation(tmp_path / "honest", settings).serve()
    monkeypatch.setattr(SecureRemoteEngine, "secure_sum", others)
    with pytest.raises(RunFailed, match="the server names other clients than those of round 1"):
        Federation(tmp_path / "flower", settings).serve()


def test_a_node_without_the_keys_of_all_nodes_does_not_join(tmp_path, values):
    federation = Federation(tmp_path / "flower", values(rounds=1))
    del federation.grid.nodes[2]["peers"]
    with pytest.raises(RunFailed, match=r"add key=PATH of node-K\.key and peers=FOLDER"):
        federation.serve(quorum=5)
    federation = Federation(tmp_path / "other", values(rounds=1))
    (federation.folder / "keys" / "node-4.pub").rename(federation.folder / "keys" / "node-5.pub")
    with pytest.raises(RunFailed, match=r"node-4.pub is not a node's public key \(FileNotFoundError\)"):
        federation.serve()
    make_node_key(federation.folder / "more", "node-4")
    shutil.copy(federation.folder / "more" / "node-4.pub", federation.folder / "keys")
    with pytest.raises(RunFailed, match="the keys sent for client 4 are not signed"):
        federation.serve()


def test_a_run_is_its_config(values):
    first, again, other = (
        run_identity(make_config(values(**more))) for more in ({}, {"seed": 5}, {"seed": 6})
    )
    assert first == again != other


def test_a_client_beyond_the_bound_leaves_and_does_not_say_by_how_much(tmp_path, values):
    settings = values(secure_aggregation={"threshold": 3, "bound": 1e-6})
    with pytest.raises(RunFailed, match="its values exceed the bounds of secure_aggregation or are not") as e:
        Federation(tmp_path / "flower", settings).serve()
    assert "has a value of" not in str(e.value)


def test_a_client_that_claims_a_negative_number_of_samples_ends_the_run(tmp_path, values, monkeypatch):
    true = handlers.encode_update

    def lie(fixed_point, aggregator, update):
        vector = true(fixed_point, aggregator, update)
        if update.client == 3:
            names = list(fixed_point.entries)
            before = names[: names.index(SAMPLES)]
            vector[sum(fixed_point.entries[name].size for name in before)] = -(10**6)
        return vector

    monkeypatch.setattr(handlers, "encode_update", lie)
    with pytest.raises(RunFailed, match="the sum of number of samples has a value of -"):
        Federation(tmp_path / "flower", values(rounds=1)).serve()


def test_a_server_that_wants_plain_updates_gets_none(tmp_path, values):
    node = node_options({"client": 0, "state": str(tmp_path)})
    with pytest.raises(InputError, match="sends masked updates only"):
        train(make_config(values()), node, RecordDict())


def test_clients_know_each_others_keys_by_their_nodes_signatures(tmp_path, values):
    federation = Federation(tmp_path / "flower", values(rounds=1))
    assert_same(federation.serve(), run(values(rounds=1), out=tmp_path / "simulated"))

    def impostor(node, message):
        """A server that puts itself between client 2 and the others."""
        if message.metadata.message_type != "query.shares" or node == 3:
            return None
        keys = decode_keys(message.content.config_records["keys"])
        keys[2] = Secrets.new().public._replace(signature=keys[2].signature)
        message.content.config_records["keys"] = encode_keys(keys)
        return None

    shutil.rmtree(federation.folder / "run")
    federation.grid.tamper = impostor
    with pytest.raises(RunFailed, match="the keys sent for client 2 are not signed by its node"):
        federation.serve()


def test_own_data_keep_their_sizes(tmp_path, values, some_digits):
    arrays = dict(np.load(some_digits))
    paths = []
    for client in range(CLIENTS):
        part = slice(60 * client, 60 * client + 40 + 4 * client)
        paths.append(tmp_path / f"{client}.npz")
        np.savez(paths[-1], x=arrays["x_train"][part], y=arrays["y_train"][part])
    settings = values(split={"validation": 0.0, "test": 0.0}, rounds=1)
    federation = Federation(tmp_path / "one", settings)
    with pytest.raises(InputError, match=r"set secure_aggregation\.max_samples to more than any has"):
        federation.serve(data="own")
    settings["secure_aggregation"]["max_samples"] = 60
    with pytest.raises(InputError, match="needs the clients' mean number of samples"):
        Federation(tmp_path / "two", {**settings, "method": "feddyn"}).serve(data="own")
    federation = Federation(tmp_path / "three", settings)
    for client, path in enumerate(paths):
        federation.grid.nodes[client + 1]["data"] = str(path)
    (record,) = records(federation.serve(data="own"))
    assert record["means"]["size"] == 48
    assert record["sizes"] == []

    def change(kinds, **facts):
        def tamper(node, message):
            if message.metadata.message_type in kinds:
                message.content.config_records["facts"].update(facts)

        federation.grid.tamper = tamper

    # Which facts fit a client's data depends on them.
    change(["query"], classes=5)
    with pytest.raises(RunFailed, match="the server describes its data differently"):
        federation.serve(data="own", folder=tmp_path / "other")
    # A server that plans with fewer clients than there are, so that the threshold is lower.
    federation = Federation(tmp_path / "four", settings | {"seed": 6})
    for client, path in enumerate(paths):
        federation.grid.nodes[client + 1]["data"] = str(path)
    change(["query", "train.masked"], clients=4)
    with pytest.raises(RunFailed, match="the federation has 4 clients, but peers has 5 keys"):
        federation.serve(data="own")
    # What is wrong with a client's data stays there.
    federation = Federation(tmp_path / "five", settings | {"seed": 7})
    for client, path in enumerate(paths):
        federation.grid.nodes[client + 1]["data"] = str(path)
    change(["query"], classes=5)
    with pytest.raises(RunFailed, match="its data cannot be read or trained on; see its node's log") as e:
        federation.serve(data="own")
    assert "label" not in str(e.value)

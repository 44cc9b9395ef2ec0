"""Server and clients of a federation, talking through Flower's records, against the serial engine."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.cli.supernode.register import try_load_public_key
from safetensors.torch import load_file

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.data.arrays import from_arrays
from eunoe.data.sources.npz import pack_fields, write_npz
from eunoe.errors import InputError, RunFailed
from eunoe.flower import roster
from eunoe.flower.client import node_options, train
from eunoe.flower.deploy.credentials import make_node_key
from eunoe.flower.server import RunOptions, load_run_name, run_options, serve
from eunoe.simulation.build import build_federation
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.system.log_lines import log_lines
from tests.field_inputs import columns
from tests.flower.grid import FakeGrid, Silence
from tests.small_runs import REFERENCES

CLIENTS, ROUNDS = 4, 3
DATA: dict[str, str] = {}
SMALL = {"feddf": {"steps": 20, "every": 10}, "fedreg": {"ascent_steps": 3, "ps_eta": 0.4}}
METHODS = {
    **{
        name: {
            "method": {"name": name, **SMALL.get(name, {})},
            "public": {"share": 0.1},
            **REFERENCES.get(name, {}),
        }
        for name in registry.names("method")
        # Training alone needs no federation.
        if name != "local"
    },
    # Without clients there is no loss to choose.
    "central": {"method": "central", "loss": "ce"},
    "state, uploads and broadcast": {"method": "tests.flower.methods:Remembers"},
    "adam at the server": {"method": "fedavg", "server_optimizer": {"name": "adam", "lr": 0.05}},
    "batch norm": {"model": "tests.flower.methods:Normed"},
    "averaging": {"averaging": {"decay": 0.5}},
    "stale updates": {"method": "scaffold", "staleness": {"max": 2, "weighting": "polynomial"}},
    "a schedule of participation": {"participation": {"start": 2, "end": 4}},
    "a schedule of losses": {"loss": {"name": "schedule", "rounds": 2}},
    "label drift, with what clients remember": {
        "stream": {"name": "label_drift", "start": 2, "end": 4},
        "replay": {"memory": 10},
        "stale_counts": 1,
        "training": {"epochs": 1, "batch_size": 32, "label_counts": "seen"},
    },
}


@pytest.fixture(autouse=True)
def _setting(server_process, some_digits):
    DATA["name"] = str(some_digits)


def values(**more):
    return {
        "data": DATA,
        "seed": 5,
        "rounds": ROUNDS,
        "participation": 3,
        "partition": {"name": "dirichlet", "clients": CLIENTS, "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"epochs": 1, "batch_size": 32},
        "loss": "wsm",
        "engine": {"name": "serial"},
        **more,
    }


class Federation:
    """A federation in a folder, without a network."""

    def __init__(self, folder: Path, **more) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.config = make_config(values(**more))
        (folder / "config.toml").write_text(to_toml(values(**more)))
        nodes = {
            1000 - client: {"client": client, "state": str(folder / "state")} for client in range(CLIENTS)
        }
        self.grid = FakeGrid(folder / "config.toml", nodes)
        self.lines: list[str] = []

    def node(self, client: int) -> int:
        return 1000 - client

    def serve(self, **options) -> Run:
        given = {"clients": CLIENTS, "folder": self.folder / "run", "timeout": 0.3, "join-timeout": 0.3}
        checked = RunOptions.model_validate(given | options)
        with log_lines(self.lines.append):
            return serve(self.grid, self.config, checked)


def final(run: Run) -> dict[str, torch.Tensor]:
    path = sorted((run.folder / "checkpoints").glob("*.safetensors"))[-1]
    vectors = load_file(path)
    # The server of a federation has no digests of states that others keep.
    return {name: vectors[name] for name in vectors if name != "clients/digests"}


def assert_same(one: Run, other: Run) -> None:
    ours, theirs = final(one), final(other)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    lines = [(run.folder / "metrics.jsonl").read_text() for run in (one, other)]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("method", METHODS)
def test_bits_are_those_of_the_serial_engine(tmp_path, method):
    serial = run(values(**METHODS[method]), out=tmp_path / "serial")
    assert_same(Federation(tmp_path / "flower", **METHODS[method]).serve(), serial)


OWN = {"method": "scaffold", "private": "classifier", "probes": []}


def test_private_parts_stay_on_the_nodes_and_train_as_on_the_serial_engine(tmp_path):
    serial = run(values(**OWN), out=tmp_path / "serial")
    federation, sizes = Federation(tmp_path / "flower", **OWN), set()

    def watched(asked, message):
        if message.metadata.message_type != "train":
            return None
        reply = train(federation.config, node_options(federation.grid.nodes[asked]), message.content)
        parts = {**reply.array_records["weights"], **reply.array_records["uploads"]}
        sizes.update((name, array.shape[0]) for name, array in parts.items())
        return reply

    federation.grid.tamper = watched
    done, classifier = federation.serve(), 16 * 10 + 10
    ours, theirs = final(done), final(serial)
    # The server has neither the clients' parts nor, to evaluate with, their mean.
    trained = [name for name in theirs if name.partition("/")[0] in ("weights", "server", "clients")]
    assert all(torch.equal(ours[name], theirs[name]) for name in trained)
    shared = len(theirs["weights/parameters"]) - classifier
    assert {size for name, size in sizes if name in ("parameters", "control_change")} == {shared}
    for path in (tmp_path / "serial/states").glob("*/*"):
        (other,) = (tmp_path / "flower/state").glob(f"*/*/{path.name}")
        assert other.read_bytes() == path.read_bytes()
    mean = {"names": ["classifier"], "start": "mean"}
    with pytest.raises(InputError, match=r"private\.start = 'mean' is for simulations"):
        Federation(tmp_path / "mean", private=mean, probes=[]).serve()


def test_nodes_evaluate_models_with_their_own_private_parts(tmp_path):
    serial = run(values(**OWN), out=tmp_path / "serial")
    federation = Federation(tmp_path / "flower", **OWN)
    for node in federation.grid.nodes.values():
        node["validate"] = True
    done = federation.serve(**{"validate-on-clients": True})
    for ours, theirs in zip(done.records, serial.records, strict=True):
        assert ours["validation"]["accuracy"] == pytest.approx(theirs["validation"]["accuracy"])


def test_inputs_of_several_fields(tmp_path):
    x, y = columns(120)
    inputs = from_arrays(x, y, x, y).train.x
    arrays = {**pack_fields("x_train", inputs), **pack_fields("x_test", inputs), "y_train": y, "y_test": y}
    write_npz(tmp_path / "fields.npz", arrays)
    more = {"data": str(tmp_path / "fields.npz"), "model": "tests.field_inputs:FieldNet"}
    assert_same(Federation(tmp_path / "flower", **more).serve(), run(values(**more), out=tmp_path / "serial"))


REMEMBERS = METHODS["state, uploads and broadcast"]


@pytest.fixture(name="calm")
def _calm(tmp_path):
    return run(values(**REMEMBERS), out=tmp_path / "serial")


@pytest.mark.parametrize(
    "more", [REMEMBERS, METHODS["stale updates"], OWN], ids=["state", "stale", "private"]
)
def test_a_killed_server_goes_on_with_the_same_bits(tmp_path, more):
    calm = Federation(tmp_path / "calm", **more).serve()
    federation = Federation(tmp_path / "flower", **more)

    class Killed(BaseException):
        pass

    def killed(node, message):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 2:
            raise Killed

    # Not an exception that anybody handles: the first answer of round 2 is the end of the process.
    federation.grid.tamper = killed
    with pytest.raises(Killed):
        federation.serve()
    federation.grid.tamper = lambda node, message: None
    federation.grid.replies.clear()
    assert_same(federation.serve(), calm)


def test_another_config_cannot_go_on(tmp_path):
    federation = Federation(tmp_path / "flower")
    federation.serve()
    federation.config = federation.config.model_copy(update={"seed": 6})
    with pytest.raises(InputError, match="seed is 5 in"):
        federation.serve()


def test_a_client_keeps_two_states(tmp_path):
    federation = Federation(tmp_path / "flower", **REMEMBERS, rounds=5)
    federation.serve()
    trained = {client: [r for c, r in federation.grid.trained if c == client] for client in range(CLIENTS)}
    for client, rounds in trained.items():
        files = (tmp_path / "flower" / "state").glob(f"*/*/{client}-*")
        assert sorted(path.stem for path in files) == [f"{client}-{round}" for round in rounds[-2:]]


def test_a_slow_process_of_an_earlier_round_leaves_the_newer_state(tmp_path):
    federation = Federation(tmp_path / "flower", **REMEMBERS, rounds=4, participation=CLIENTS)
    node, slow = node_options(federation.grid.nodes[federation.node(0)]), []

    def late(asked, message):
        if asked != federation.node(0) or message.metadata.message_type != "train":
            return None
        round = message.content["order"]["round"]
        if round == 2:
            slow.append(RecordDict(dict(message.content)))
            raise Silence
        answer = train(federation.config, node, message.content)
        if round == 3:
            train(federation.config, node, slow[0])
        return answer

    federation.grid.tamper = late
    dropped = [[one["client"] for one in record["dropped"]] for record in federation.serve().records]
    assert dropped == [[], [0], [], []]
    files = (tmp_path / "flower" / "state").glob("*/*/0-*")
    assert sorted(path.stem for path in files) == ["0-3", "0-4"]


def test_a_silent_client_is_left_out_and_named(tmp_path):
    federation = Federation(tmp_path / "flower", participation=CLIENTS)

    def silent(node, message):
        if node == federation.node(2) and message.metadata.message_type == "train":
            raise Silence

    federation.grid.tamper = silent
    for record in federation.serve().records:
        assert sorted(record["clients"]) == [0, 1, 3]
        assert record["dropped"] == [{"client": 2, "reason": "it did not reply within 0.3 s"}]
    assert any("dropped: client 2" in text for text in federation.lines)


def test_a_node_that_leaves_in_mid_round_and_comes_back_is_queried_again(tmp_path, calm):
    federation = Federation(tmp_path / "flower", **REMEMBERS)
    grid, node, polls = federation.grid, federation.node(1), iter(range(10**6))
    lost: list[int] = []

    def loses_the_first_order(asked, message):
        if asked == node and message.metadata.message_type == "train" and not lost:
            lost.append(next(polls))
            raise Silence

    def goes_and_comes() -> None:
        now = next(polls)
        away = bool(lost) and lost[0] + 2 < now < lost[0] + 6
        grid.offline = {node} if away else set()

    grid.tamper, grid.before_poll = loses_the_first_order, goes_and_comes
    assert_same(federation.serve(timeout=20.0), calm)
    assert lost


def test_a_restarted_node_gets_a_new_number(tmp_path, calm):
    """Without node authentication a node that starts again is another one to Flower."""
    federation = Federation(tmp_path / "flower", **REMEMBERS)
    grid, old = federation.grid, federation.node(1)

    def dies(node, message):
        if (
            node == old
            and message.metadata.message_type == "train"
            and message.content["order"]["round"] >= 2
        ):
            grid.nodes[7] = grid.nodes[old]
            grid.offline = {old}
            raise Silence

    grid.tamper = dies
    assert_same(federation.serve(timeout=20.0), calm)


def test_a_second_node_takes_over_when_the_first_has_left(tmp_path, calm):
    federation = Federation(tmp_path / "flower", **REMEMBERS)
    grid, old = federation.grid, federation.node(1)
    # Asked after the first, since its number is higher.
    grid.nodes[5000] = dict(grid.nodes[old])

    def leaves(node, message):
        if message.metadata.message_type == "train" and message.content["order"]["round"] >= 2:
            grid.offline = {old}
        if node == old and grid.offline:
            raise Silence

    grid.tamper = leaves
    assert_same(federation.serve(timeout=20.0), calm)
    assert sum("two nodes claim to be client 1" in text for text in federation.lines) == 1


@pytest.mark.parametrize("key_of", ["a stranger", "client 3"])
def test_a_node_is_no_other_client_than_that_of_its_key(tmp_path, calm, key_of):
    federation = Federation(tmp_path / "flower", **REMEMBERS)
    grid, keys = federation.grid, tmp_path / "keys"
    for client in range(CLIENTS):
        make_node_key(keys, f"node-{client}")
        grid.keys[federation.node(client)] = try_load_public_key(keys / f"node-{client}.pub")
    make_node_key(tmp_path, "stranger")
    # Asked before the rightful one, since its number is lower.
    grid.nodes[5] = dict(grid.nodes[federation.node(0)])
    grid.keys[5] = try_load_public_key(
        tmp_path / "stranger.pub" if key_of == "a stranger" else keys / "node-3.pub"
    )
    assert_same(federation.serve(keys=keys), calm)
    warnings = [text for text in federation.lines if "warning" in text]
    assert warnings == ["warning: a node claims to be client 0 but does not have the key of node-0.pub"]


def test_a_missing_key_is_reported_before_waiting_for_clients(tmp_path):
    federation = Federation(tmp_path / "flower")
    for client in (0, 1, 3):
        make_node_key(tmp_path / "keys", f"node-{client}")
    with pytest.raises(InputError, match=r"node-2\.pub is not a node.s public key"):
        federation.serve(keys=tmp_path / "keys")
    (tmp_path / "keys" / "node-2.pub").write_text("no key")
    with pytest.raises(InputError, match=r"node-2\.pub is not a node.s public key"):
        federation.serve(keys=tmp_path / "keys")
    assert federation.lines == []


def test_too_few_answers_stop_the_run_and_it_can_go_on(tmp_path, calm):
    federation = Federation(tmp_path / "flower", **REMEMBERS)

    def dead(node, message):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 2:
            raise Silence

    federation.grid.tamper = dead
    with pytest.raises(RunFailed, match="0 of 3 clients sent an update in round 2"):
        federation.serve(quorum=2)
    assert json.loads((federation.folder / "run" / "status.json").read_text())["state"] == "failed"
    federation.grid.tamper = lambda node, message: None
    assert_same(federation.serve(quorum=2), calm)


def spoiled(**parts):
    """A tampering that changes parts of client 0's answers in round 2."""

    def tamper(federation):
        def change(node, message):
            train = message.metadata.message_type == "train"
            if node != federation.node(0) or not train or message.content["order"]["round"] != 2:
                return None
            size = message.content["weights"]["parameters"].shape[0]
            weights = {
                "parameters": torch.zeros(size),
                "float_buffers": torch.zeros(0),
                "int_buffers": torch.zeros(0, dtype=torch.int64),
            }
            numbers = dict.fromkeys(("steps", "forwards", "backwards", "keeps_state"), 1)
            numbers |= {"loss_before": 0.5, "loss_after": 0.5}
            numbers["size"] = int(federation.sizes[0])
            weights |= {k: f(weights.get(k)) for k, f in parts.get("weights", {}).items()}
            upload = parts.get("upload", lambda v: v)(torch.zeros(size))
            return RecordDict(
                {
                    "weights": ArrayRecord(weights),
                    "uploads": ArrayRecord({"sum": upload, **parts.get("uploads", {})}),
                    "numbers": MetricRecord(numbers | parts.get("numbers", {})),
                    **parts.get("records", {}),
                }
            )

        return change

    return tamper


def answered(records):
    """A tampering that lets client 0 answer with these records in round 2."""
    return lambda f: lambda node, message: RecordDict(records) if _bad_round(f, node, message) else None


@pytest.mark.parametrize(
    ("tamper", "reason"),
    [
        (spoiled(weights={"parameters": lambda v: v * torch.nan}), "not finite"),
        (spoiled(weights={"parameters": lambda v: v[1:]}), "cannot be read: parameters is"),
        (spoiled(weights={"parameters": lambda v: v.double()}), "parameters is float64"),
        (spoiled(weights={"parameters": lambda v: torch.full_like(v, 1e30)}), "its change has a norm of"),
        (spoiled(weights={"other": lambda v: torch.zeros(9)}), "not float_buffers, int_buffers, parameters"),
        (spoiled(weights={"int_buffers": lambda v: torch.ones(3, dtype=torch.int64)}), "int_buffers is"),
        (spoiled(upload=lambda v: v[:3]), "cannot be read: sum is float32 [3], not float32 or float64"),
        (spoiled(upload=lambda v: v[:, None]), "cannot be read: sum is float32"),
        (spoiled(upload=lambda v: v.long()), "cannot be read: sum is int64"),
        (spoiled(uploads={"more": torch.zeros(2)}), "it has the vectors more, sum, not sum"),
        (spoiled(records={"more": ConfigRecord({})}), "it has the records more, numbers"),
        (spoiled(numbers={"steps": 10**6}), "steps, more than the"),
        (spoiled(numbers={"size": 10**12}), "samples, not on its"),
        (spoiled(numbers={"steps": -1}), "steps is not a count"),
        (spoiled(numbers={"loss_after": [1.0]}), "loss_after is not a number"),
        (lambda f: lambda node, message: _refuse(f, node, message), "it failed: <class 'ValueError'>"),
        (answered({}), "its reply cannot be read"),
        (answered({"skipped": ConfigRecord({})}), "it is skipped (training.single_class)"),
        (answered({"skipped": ConfigRecord({"reason": "cats"})}), "it is skipped (training.single_class)"),
    ],
)
def test_a_bad_answer_is_dropped_and_its_state_does_not_count(tmp_path, tamper, reason):
    federation = Federation(tmp_path / "flower", **REMEMBERS, participation=CLIENTS)
    federation.sizes = build_federation(federation.config).sizes
    federation.grid.tamper = tamper(federation)
    first, second, third = federation.serve().records
    assert not first["dropped"]
    assert not third["dropped"]
    assert [one["client"] for one in second["dropped"]] == [0]
    assert reason in second["dropped"][0]["reason"]


@pytest.mark.parametrize("loss", [1e308, -1e308, np.inf, np.nan])
def test_a_loss_without_bounds_does_not_make_the_records_unreadable(tmp_path, loss):
    federation = Federation(tmp_path / "flower", **REMEMBERS, participation=CLIENTS)
    federation.sizes = build_federation(federation.config).sizes
    numbers = {"loss_before": loss, "loss_after": loss, "forwards": 2**63 - 1}
    federation.grid.tamper = spoiled(numbers=numbers)(federation)
    second = Run(federation.serve().folder).records[1]
    assert not second["dropped"]
    assert second["loss_before"][0] is second["loss_after"][0] is None


def test_a_client_that_is_skipped_sends_no_more(tmp_path):
    """Its records are those of the serial engine, and what it sends holds nothing of its labels."""
    more = {
        "partition": {"name": "classes", "clients": CLIENTS, "classes": 1},
        "training": {"epochs": 1, "batch_size": 32, "single_class": "skip"},
    }
    federation, sent = Federation(tmp_path / "flower", **more), []

    def watch(node, message):
        if message.metadata.message_type == "train":
            options = node_options(federation.grid.nodes[node])
            sent.append(train(federation.config, options, message.content))
            return sent[-1]

    federation.grid.tamper = watch
    serial = run(values(**more), out=tmp_path / "serial")
    assert_same(federation.serve(), serial)
    assert len(sent) == 3 * ROUNDS
    assert all(content == RecordDict({"skipped": ConfigRecord()}) for content in sent)


def test_what_a_node_writes_is_shown_in_one_short_line(tmp_path):
    federation = Federation(tmp_path / "flower")

    def rude(node, message):
        if node == federation.node(0):
            raise ValueError("\x1b[2Jno\n" + "x" * 10**5)

    federation.grid.tamper = rude
    federation.serve()
    warnings = [text for text in federation.lines if "could not join" in text]
    assert "ValueError'>:<' [2Jno xxx" in warnings[0]
    assert all(text.isprintable() and len(text) < 700 for text in warnings)


def _bad_round(federation, node, message):
    train = message.metadata.message_type == "train"
    return train and node == federation.node(0) and message.content["order"]["round"] == 2


def _refuse(federation, node, message):
    if _bad_round(federation, node, message):
        raise ValueError("no")


def test_a_refused_state_is_not_the_one_that_counts(tmp_path):
    """After a dropped answer the server names the state of the round before."""
    federation = Federation(tmp_path / "flower", **REMEMBERS, participation=CLIENTS)
    starts = []

    def watch(node, message):
        if node == federation.node(0) and message.metadata.message_type == "train":
            starts.append(message.content["order"]["start"])
        return _refuse(federation, node, message)

    federation.grid.tamper = watch
    federation.serve()
    assert starts == [-1, 1, 1]


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"damaged")])
def test_a_lost_state_is_reported_and_its_client_starts_afresh(tmp_path, harm):
    federation = Federation(tmp_path / "flower", **REMEMBERS, participation=CLIENTS)
    starts = []

    def removed(node, message):
        if node == federation.node(0) and message.metadata.message_type == "train":
            starts.append(message.content["order"]["start"])
        if _bad_round(federation, node, message):
            for path in (tmp_path / "flower" / "state").glob("*/*/0-1*"):
                harm(path)

    federation.grid.tamper = removed
    rounds = federation.serve().records
    assert "client 0 has no state of round 1" in rounds[1]["dropped"][0]["reason"]
    assert "it starts afresh in its next round" in rounds[1]["dropped"][0]["reason"]
    assert (starts, rounds[2]["dropped"]) == ([-1, 1, -1], [])


def test_a_claimed_state_that_is_not_there_does_not_exclude_a_client(tmp_path):
    """A node says that it keeps a state, and has none when it is asked for it."""
    federation = Federation(tmp_path / "flower", participation=CLIENTS)
    true_answer = federation.grid._answer

    def claims(node, message):
        reply = true_answer(node, message)
        if node == federation.node(0) and message.metadata.message_type == "train":
            reply.content["numbers"]["keeps_state"] = 1
        return reply

    federation.grid._answer = claims
    assert [len(record["dropped"]) for record in federation.serve().records] == [0, 1, 0]


def test_the_server_says_for_whom_it_waits_and_since_when(tmp_path, monkeypatch):
    monkeypatch.setattr(roster, "REMIND_SECONDS", 0.0)
    federation = Federation(tmp_path / "flower", participation=CLIENTS)
    federation.grid.offline.add(federation.node(1))

    def silent(node, message):
        train = message.metadata.message_type == "train"
        if train and node == federation.node(0) and message.content["order"]["round"] == 1:
            raise Silence

    federation.grid.tamper = silent
    federation.serve()
    lines = "\n".join(federation.lines)
    assert re.search(r"waiting since \d\d:\d\d:\d\d for clients 1 to join", lines)
    assert re.search(r"waiting since \d\d:\d\d:\d\d for clients 0, 1 \(not connected\) to train", lines)


def test_clients_that_do_not_join_are_named(tmp_path):
    federation = Federation(tmp_path / "flower")
    del federation.grid.nodes[federation.node(3)]["state"]
    federation.grid.nodes[5] = {"client": 0, "state": "elsewhere"}
    federation.grid.nodes[6] = {"client": 9, "state": "elsewhere"}
    with pytest.raises(RunFailed, match=r"have not joined: 3;.*state: field required"):
        federation.serve(quorum=CLIENTS)
    lines = "\n".join(federation.lines)
    assert "two nodes claim to be client 0" in lines
    assert "claims to be client 9" in lines


def test_a_node_that_makes_no_sense_does_not_join(tmp_path):
    federation = Federation(tmp_path / "flower")

    def odd(node, message):
        query = message.metadata.message_type == "query"
        answers = {4: {}, 5: {"numbers": MetricRecord({"client": [1], "size": 1, "validates": 0})}}
        return RecordDict(answers[node]) if query and node in answers else None

    federation.grid.nodes |= {4: {}, 5: {}}
    federation.grid.tamper = odd
    assert len(federation.serve().records) == ROUNDS
    assert sum("cannot read a client number" in text for text in federation.lines) == 2


def test_errors_are_reported_before_waiting_for_clients(tmp_path):
    federation = Federation(tmp_path / "flower", method="flashback")
    with pytest.raises(InputError, match="needs a public set"):
        federation.serve()
    assert federation.lines == []


def test_other_files_are_left_alone(tmp_path):
    federation = Federation(tmp_path / "flower")
    folder = federation.folder / "run"
    model, metrics = folder / "checkpoints" / "best.pt", folder / "metrics.jsonl"
    model.parent.mkdir(parents=True)
    for path in (model, metrics):
        path.write_text("precious")
    with pytest.raises(InputError, match="is not empty and has no run"):
        federation.serve()
    assert [path.read_text() for path in (model, metrics)] == ["precious", "precious"]
    assert federation.lines == []


def test_a_run_of_another_kind_is_not_gone_on_with(tmp_path):
    federation = Federation(tmp_path / "flower", rounds=1)
    run(values(rounds=1), out=federation.folder / "run")
    with pytest.raises(InputError, match="already has a run"):
        federation.serve()


def test_a_server_that_was_killed_before_it_wrote_its_config_can_start_again(tmp_path):
    federation = Federation(tmp_path / "flower", rounds=1)
    load_run_name(federation.folder / "run")
    assert len(federation.serve().records) == 1


def test_an_ordinary_resume_is_refused(tmp_path):
    federation = Federation(tmp_path / "flower", rounds=1)
    federation.serve()
    with pytest.raises(InputError, match="is a Flower run"):
        resume(federation.folder / "run")


def test_a_quorum_may_begin(tmp_path):
    federation = Federation(tmp_path / "flower", participation=CLIENTS)
    federation.grid.offline = {federation.node(3)}
    records = federation.serve(quorum=3).records
    assert [one["client"] for record in records for one in record["dropped"]] == [3] * ROUNDS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 2, "quorums": 3}, "quorums"),
        ({"clients": 2, "timeout": float("inf")}, "timeout"),
    ],
)
def test_wrong_run_options_are_reported(options, message):
    with pytest.raises(InputError, match=message):
        run_options(options)


def test_wrong_node_options_are_reported():
    with pytest.raises(InputError, match="client"):
        node_options({"client": -1, "state": "x"})
    assert node_options({"client": 1, "state": "x", "validate": True}).validates


def test_the_number_of_clients_must_agree(tmp_path):
    federation = Federation(tmp_path / "flower")
    federation.grid.offline = {federation.node(3)}
    with pytest.raises(InputError, match=r"the partition has 4 clients"):
        federation.serve(clients=3)


def test_an_attack_belongs_to_simulations(tmp_path):
    federation = Federation(tmp_path / "flower", attack={"name": "nan", "share": 0.5})
    with pytest.raises(InputError, match="attack is for simulations"):
        federation.serve()


def test_training_alone_is_refused(tmp_path):
    federation = Federation(tmp_path / "flower", method="local")
    with pytest.raises(InputError, match="'local' needs no federation"):
        federation.serve()


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_labels_and_numbers(tmp_path, task):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(160, 4)).astype(np.float32)
    y = x @ rng.normal(size=(4, 2))
    y = y if task == "regression" else (y > 0).astype(np.int64)
    arrays = {"x_train": x, "y_train": y, "x_test": x[:40], "y_test": y[:40]}
    write_npz(tmp_path / "own.npz", arrays)
    more = {
        "data": {"name": str(tmp_path / "own.npz"), "task": task},
        "partition": {"name": "iid", "clients": CLIENTS},
        "method": "scaffold",
        "loss": "ce",
    }
    federation = Federation(tmp_path / "flower", **more)
    served = federation.serve()
    assert served.config.loss.name == {"multilabel": "bce", "regression": "mse"}[task]
    assert_same(served, run(values(**more), out=tmp_path / "serial"))
    # The same config goes on, though it does not name the loss.
    federation.config = federation.config.model_copy(update={"rounds": ROUNDS + 1})
    assert len(federation.serve().records) == ROUNDS + 1

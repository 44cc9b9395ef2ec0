"""Clients with data of their own: the same bits as a partition of the same samples, and clear refusals."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.data.arrays import from_arrays
from eunoe.data.samples import checksum
from eunoe.data.sources.npz import pack_fields, read_npz, write_npz
from eunoe.errors import InputError, RunFailed
from eunoe.flower.client import join, node_options
from eunoe.flower.own_data import Facts, client_federation, decode_facts, encode_facts, read_own_data
from eunoe.flower.server import RunOptions, serve
from eunoe.simulation.build import build_federation
from eunoe.simulation.running import run
from eunoe.system.log_lines import log_lines
from tests.field_inputs import columns
from tests.flower.grid import FakeGrid, Silence

pytestmark = pytest.mark.usefixtures("server_process")
CLIENTS = 3


def values(path, **more):
    return {
        "seed": 2,
        "rounds": 2,
        "participation": 1.0,
        "data": str(path),
        "partition": {"name": "dirichlet", "clients": CLIENTS, "alpha": 1.0},
        "split": {"validation": 0.0},
        "model": {"name": "mlp", "hidden": [16]},
        "training": {"epochs": 1, "batch_size": 32},
        "method": "tests.flower.methods:Remembers",
        "engine": {"name": "serial"},
        **more,
    }


@pytest.fixture(name="world")
def _world(tmp_path, some_digits):
    """The parts of a partition as files of their own, and a server that has none of them."""
    config = make_config(values(some_digits))
    whole = build_federation(config)
    nodes = {}
    for client in range(CLIENTS):
        rows = whole.rows(client)
        x, y = whole.data.train.x[rows].numpy(), whole.data.train.y[rows].numpy()
        write_npz(tmp_path / f"{client}.npz", {"x": x, "y": y})
        # A client shuffles its samples before the split: this undoes it, for the partition's order.
        facts = Facts.of(whole.data, CLIENTS)
        order = client_federation(config, facts, tmp_path / f"{client}.npz", client).rows(client)
        write_npz(tmp_path / f"{client}.npz", {"x": x[np.argsort(order)], "y": y[np.argsort(order)]})
        nodes[50 + client] = {
            "client": client,
            "state": str(tmp_path / "state"),
            "data": str(tmp_path / f"{client}.npz"),
            "validate": client != 1,
        }
    (tmp_path / "config.toml").write_text(to_toml(values(some_digits)))
    return FakeGrid(tmp_path / "config.toml", nodes)


def served(world, values, lines=None, **options):
    options = {"clients": CLIENTS, "data": "own", "timeout": 5.0, "join-timeout": 0.2, **options}
    options["folder"] = world.config.parent / "run"
    world.config.write_text(to_toml(values))
    with log_lines(([] if lines is None else lines).append):
        return serve(world, make_config(values), RunOptions.model_validate(options))


def test_the_same_bits_as_a_partition_of_the_same_samples(world, tmp_path, some_digits):
    serial = run(values(some_digits), out=tmp_path / "serial")
    flower = served(world, values(some_digits))
    assert torch.equal(serial.weights().parameters, flower.weights().parameters)
    for ours, theirs in zip(flower.records, serial.records, strict=True):
        for key in ("clients", "sizes", "loss_before", "loss_after", "test", "forgetting"):
            assert ours[key] == theirs[key]


def test_a_method_that_trains_at_the_server_uses_the_servers_public_data(world, some_digits):
    settings = values(some_digits, method="flashback", loss="wsm", public={"share": 0.2})
    first, second = served(world, settings).records
    assert first["test"]["accuracy"] > 0.1
    assert not first["dropped"] + second["dropped"]


def test_the_server_keeps_sizes_only(world, some_digits):
    folder = served(world, values(some_digits)).folder
    # A client's state or model would be a file more.
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        ".lock",
        "checkpoints/00000001.safetensors",
        "checkpoints/00000002.safetensors",
        "config.toml",
        "environment.json",
        "flower.json",
        "metrics.jsonl",
        "partition.json",
        "partition.safetensors",
        "probes.jsonl",
        "status.json",
        "timings.jsonl",
    }
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["partition_sha256"]


def test_a_run_goes_on_although_a_client_is_gone(world, some_digits):
    def dead(node, message):
        if message.metadata.message_type == "train" and message.content["order"]["round"] == 2:
            raise Silence

    world.tamper = dead
    with pytest.raises(RunFailed, match="quorum"):
        served(world, values(some_digits), timeout=0.2)
    world.tamper = lambda node, message: None
    world.offline = {51}
    records = served(world, values(some_digits), timeout=0.2).records
    assert [one["client"] for one in records[1]["dropped"]] == [1]


def test_a_test_part_that_would_not_be_evaluated_is_refused(world, some_digits):
    with pytest.raises(InputError, match=r"set split.test to 0"):
        served(world, values(some_digits, split={"test": 0.2}))


def test_all_must_have_joined_before_the_first_round(world, some_digits):
    world.offline = {51}
    with pytest.raises(RunFailed, match="have not joined: 1"):
        served(world, values(some_digits))


@pytest.mark.parametrize("size", [-5, 0, 10**9 + 1, 2**62])
def test_a_size_that_cannot_be_does_not_join(world, some_digits, size):
    numbers = MetricRecord({"client": 1, "size": size, "validates": 0})
    world.tamper = lambda node, message: RecordDict({"numbers": numbers}) if node == 51 else None
    with pytest.raises(RunFailed, match=f"not joined: 1; client 1 reports {size} training samples"):
        served(world, values(some_digits))


def test_a_client_whose_data_changed_is_named(world, some_digits, tmp_path):
    def shrink(node, message):
        if node == 50 and message.metadata.message_type == "train":
            arrays = read_npz(tmp_path / "0.npz")
            write_npz(tmp_path / "0.npz", {name: array[:5].copy() for name, array in arrays.items()})

    world.tamper = shrink
    dropped = served(world, values(some_digits)).records[0]["dropped"]
    assert dropped[0]["client"] == 0
    assert "it trained on 5 samples, not on its" in dropped[0]["reason"]


def test_validation_at_the_clients_that_agree(world, some_digits):
    settings = values(some_digits, split={"validation": 0.25})
    result = served(world, settings, **{"validate-on-clients": True})
    for record in result.records:
        assert record["validation"]["by"] == [0, 2]
        assert 0 <= record["validation"]["accuracy"] <= 1
        assert len(record["validation"]["per_class"]) == 10
    # The counts are those of the final model on the two clients' validation parts.
    model, right, count = result.model(), 0, 0
    for client in (0, 2):
        facts = Facts.of(result.simulation.federation.data, CLIENTS)
        data = read_own_data(world.config.parent / f"{client}.npz", facts)
        part = client_federation(make_config(settings), facts, world.config.parent / f"{client}.npz", client)
        rows = torch.from_numpy(part.rows(client, "validation"))
        answers = model(part.inputs("clients", rows)).argmax(1)
        right, count = right + int((answers == data.train.y[rows]).sum()), count + len(rows)
    assert result.records[-1]["validation"]["accuracy"] == right / count


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "client 2's evaluation cannot be read"),
        ({"right": [1] * 9, "samples": [1] * 9}, "samples has shape (9,)"),
        ({"right": [2] * 10, "samples": [1] * 10}, "its counts are impossible"),
        ({"right": [0] * 10, "samples": [2**62] * 10}, "its counts are impossible"),
        (None, "client 2 did not evaluate"),
    ],
)
def test_an_invalid_evaluation_is_dropped_and_reported_once(world, some_digits, answer, reason):
    def tamper(node, message):
        if node != 52 or message.metadata.message_type != "evaluate":
            return None
        if answer is None:
            raise ValueError("no")
        counts = {"counts": ConfigRecord(answer), "numbers": MetricRecord({"loss": 1.0})} if answer else {}
        return RecordDict(counts)

    world.tamper, lines = tamper, []
    settings = values(some_digits, split={"validation": 0.25})
    for record in served(world, settings, lines, **{"validate-on-clients": True}).records:
        assert record["validation"]["by"] == [0]
    assert [reason in text for text in lines if "warning" in text] == [True]


def test_a_warning_if_no_client_agrees_to_evaluate(world, some_digits):
    for node in world.nodes.values():
        node["validate"] = False
    lines = []
    records = served(world, values(some_digits), lines, **{"validate-on-clients": True}).records
    assert "validation" not in records[-1]
    assert ["no client agrees" in text for text in lines if "warning" in text] == [True]


FACTS = Facts(classes=3, shape=(4, 4), form="uint8 [4, 4]", clients=2, class_names=("ant", "bee", "cat"))


def npz(path, **arrays):
    write_npz(path, arrays)
    return path


def test_classes_are_matched_by_name(tmp_path):
    x = np.zeros((4, 4, 4), np.uint8)
    names = np.array(["cat", "ant"])
    path = npz(tmp_path / "own.npz", x=x, y=np.array([0, 1, 1, 0]), class_names=names)
    assert read_own_data(path, FACTS).train.y.tolist() == [2, 0, 0, 2]
    path = npz(tmp_path / "odd.npz", x=x, y=np.array([0, 1, 1, 0]), class_names=np.array(["cat", "dog"]))
    with pytest.raises(InputError, match="'dog', which is not a class of the federation"):
        read_own_data(path, FACTS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1, 1, 2], "label -1 has no class name"),
        ([0, 7, 1, 2], "label 7 has no class name"),
        ([0.0, 1.0, 1.0, 2.0], "y is float64; labels must be integers"),
        ([True, False, True, True], "y is bool; labels must be integers"),
    ],
)
def test_labels_without_a_name_are_refused(tmp_path, labels, message):
    x, names = np.zeros((4, 4, 4), np.uint8), np.array(["cat", "ant", "bee"])
    path = npz(tmp_path / "own.npz", x=x, y=np.array(labels), class_names=names)
    with pytest.raises(InputError, match=message):
        read_own_data(path, FACTS)


def test_arrays_without_dimensions_are_refused(tmp_path):
    x, y = np.zeros((4, 4, 4), np.uint8), np.array([0, 1, 1, 0])
    for arrays in ({"y": np.array(1.5)}, {"y": np.array(1)}, {"y": y, "class_names": np.array("dog")}):
        with pytest.raises(InputError):
            read_own_data(npz(tmp_path / "own.npz", x=x, **arrays), FACTS)


def test_a_folder_of_pictures_has_the_servers_classes(tmp_path):
    for name, count in (("bee", 2), ("cat", 1)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(count):
            picture = Image.fromarray(np.full((4, 4), 10 * number, np.uint8))
            picture.save(tmp_path / "pictures" / name / f"{number}.png")
    assert read_own_data(tmp_path / "pictures", FACTS).train.y.tolist() == [1, 1, 2]
    with pytest.raises(InputError, match="class names"):
        read_own_data(tmp_path / "pictures", FACTS.model_copy(update={"class_names": None}))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 4, 5), np.uint8), "y": np.zeros(2, int)}, r"has samples of uint8 \[4, 5\], but"),
        ({"x": np.zeros((2, 4, 4), np.float32), "y": np.zeros(2, int)}, "has samples of float32"),
        ({"x": np.zeros((2, 4, 4), np.uint8), "y": np.array([0, 3])}, "label 3"),
        ({"a": np.zeros(2)}, "but needs x and y"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path, arrays, message):
    with pytest.raises(InputError, match=message):
        read_own_data(npz(tmp_path / "own.npz", **arrays), FACTS)


def test_normalization_is_the_servers(tmp_path):
    path = npz(tmp_path / "own.npz", x=np.zeros((2, 4, 4), np.uint8), y=np.zeros(2, int))
    data = read_own_data(path, FACTS.model_copy(update={"mean": (0.25,), "std": (0.5,)}))
    assert (data.mean, data.std) == ((0.25,), (0.5,))


def test_facts_survive_the_wire():
    assert decode_facts(RecordDict({**encode_facts(FACTS)})) == FACTS


def test_a_node_without_data_is_refused(tmp_path):
    node = node_options({"client": 0, "state": str(tmp_path)})
    content = RecordDict({**encode_facts(FACTS)})
    with pytest.raises(InputError, match="has no data path"):
        join(make_config({}), node, content)


def test_token_ids_of_a_client_are_those_of_the_federation(tmp_path):
    facts = Facts(classes=2, shape=(3,), form="int64 [3]", clients=1, vocabulary=9)
    y = np.arange(4) % 2
    write_npz(tmp_path / "own.npz", {"x": np.arange(12).reshape(4, 3) % 5, "y": y})
    # Ids up to 4 only, but the model has room for all 9.
    assert read_own_data(tmp_path / "own.npz", facts).vocabulary == 9
    assert decode_facts(RecordDict({**encode_facts(facts)})).vocabulary == 9
    write_npz(tmp_path / "own.npz", {"x": np.arange(12).reshape(4, 3), "y": y})
    with pytest.raises(InputError, match=r"has token ids 0 to 11; those of the federation are 0..8"):
        read_own_data(tmp_path / "own.npz", facts)


def test_a_client_encodes_its_own_data(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    x, y = np.ones((6, 3), np.float32), np.arange(6) % 2
    write_npz(tmp_path / "own.npz", {"x": x, "y": y})
    facts = Facts.of(from_arrays(x, y, x, y), 1)
    config = make_config({"backbone": "tests.data.test_backbone:Doubled"})
    made = client_federation(config, facts, tmp_path / "own.npz", 0)
    assert made.data.train.x.tolist() == [[2.0] * 6] * 6


def test_fields_of_a_client_are_those_of_the_federation(tmp_path):
    x, y = columns(30)
    facts = Facts.of(from_arrays(x, y, x, y), 1)
    assert decode_facts(RecordDict({**encode_facts(facts)})) == facts
    data = from_arrays(x, y, x, y)
    write_npz(tmp_path / "own.npz", {**pack_fields("x", data.train.x), "y": y})
    assert checksum(read_own_data(tmp_path / "own.npz", facts).train) == checksum(data.train)
    write_npz(tmp_path / "own.npz", {"x.ids": np.zeros((30, 2), int), "y": y})
    with pytest.raises(InputError, match=r"has samples of {ids: int64 \[2\]}, but the federation expects"):
        read_own_data(tmp_path / "own.npz", facts)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_labels_and_numbers_of_ones_own(world, tmp_path, task):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = 50 + 20 * (x @ rng.normal(size=(4, 2)))
    y = y if task == "regression" else (y > 50).astype(np.int64)
    write_npz(tmp_path / "server.npz", {"x_train": x[:30], "y_train": y[:30], "x_test": x, "y_test": y})
    for client in range(CLIENTS):
        rows = slice(30 * (client + 1), 30 * (client + 2))
        write_npz(tmp_path / f"{client}.npz", {"x": x[rows], "y": y[rows]})
    more = {"data": {"name": str(tmp_path / "server.npz"), "task": task}, "method": "fedavg"}
    settings = values("", split={"validation": 0.2}, **more)
    result = served(world, settings, **{"validate-on-clients": True})
    data = (
        result.simulation.federation.data
        if task == "multilabel"
        else build_federation(
            make_config({**settings, "partition": {"name": "iid", "clients": CLIENTS}})
        ).data
    )
    found = result.records[-1]["validation"]
    truth, said = [], []
    for client in (0, 2):
        facts = Facts.of(data, CLIENTS)
        own = client_federation(make_config(settings), facts, tmp_path / f"{client}.npz", client)
        rows = torch.from_numpy(own.rows(client, "validation"))
        truth.append(own.data.train.y[rows])
        said.append(result.model()(own.inputs("clients", rows)).detach())
    targets, outputs = torch.cat(truth), torch.cat(said)
    assert found["by"] == [0, 2]
    assert found["loss"] == pytest.approx(float(data.task.losses(outputs, targets).mean()), rel=1e-5)
    if task == "multilabel":
        right = ((outputs > 0) == (targets > 0)).double()
        assert found["hamming_loss"] == pytest.approx(1 - float(right.mean()))
        assert len(found["per_class"]) == 2
    else:
        varied = (targets - targets.mean(0)).square().sum(0)
        expected = float((1 - (outputs - targets).square().sum(0) / varied).mean())
        assert found["r2"] == pytest.approx(expected, rel=1e-4)
        assert found["by_client"]["clients"] == [0, 2]
        # By the clients that sent their losses, since the server's test samples are nobody's.
        assert result.records[-1]["forgetting"]["on"] == "validation"


def test_a_node_does_not_import_the_server():
    """A node imports its app for every message, and Flower's server with its database is slow to import."""
    heavy = {"alembic", "flwr.superlink.grid", "scipy"}
    code = f"import sys, eunoe.flower.client; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

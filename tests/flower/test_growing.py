"""Nodes whose data grow on disk: they train on what they have, and no sample changes its part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.data.arrays import from_arrays
from eunoe.data.sources.npz import write_npz
from eunoe.errors import InputError
from eunoe.flower.own_data import Facts, client_federation
from eunoe.flower.server import RunOptions, check_options, serve
from eunoe.simulation.run import Run
from tests.flower.grid import FakeGrid

pytestmark = pytest.mark.usefixtures("server_process")
CLIENTS = 2


def samples(seed: int, count: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return {"x": rng.normal(size=(count, 5)).astype(np.float32) + y[:, None], "y": y}


def joined(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([part[name] for part in parts]) for name in ("x", "y")}


def values(folder: Path) -> dict[str, Any]:
    return {
        "rounds": 4,
        "participation": 1.0,
        "data": str(folder / "server.npz"),
        "partition": {"name": "iid", "clients": CLIENTS},
        "split": {"validation": 0.2},
        "model": {"name": "mlp", "hidden": [4]},
        "training": {"epochs": 1, "batch_size": 8},
        "method": "scaffold",
        "engine": {"name": "serial"},
    }


def federation(folder: Path) -> FakeGrid:
    """Two nodes with files of their own, and a server that has none of them."""
    train, test = samples(10, 30), samples(11, 30)
    arrays = {"x_train": train["x"], "y_train": train["y"], "x_test": test["x"], "y_test": test["y"]}
    write_npz(folder / "server.npz", arrays)
    nodes = {}
    for client in range(CLIENTS):
        write_npz(folder / f"{client}.npz", samples(client, 40))
        nodes[50 + client] = {
            "client": client,
            "state": str(folder / "state"),
            "data": str(folder / f"{client}.npz"),
        }
    (folder / "config.toml").write_text(to_toml(values(folder)))
    return FakeGrid(folder / "config.toml", nodes)


def served(world: FakeGrid, growing: bool, **changes: Any) -> Run:
    folder = world.config.parent
    options = {"clients": CLIENTS, "data": "own", "timeout": 5.0, "join-timeout": 0.5, "growing": growing}
    options["folder"] = folder / "run"
    return serve(world, make_config({**values(folder), **changes}), RunOptions.model_validate(options))


def growing_after_round(world: FakeGrid, round: int, more: dict[str, Any]) -> None:
    """Let client 1 have more samples once client 0 has trained in this round."""
    path = world.config.parent / "1.npz"

    def before_poll() -> None:
        if (0, round) in world.trained and len(np.load(path)["y"]) == 40:
            write_npz(path, joined(samples(1, 40), more))

    world.before_poll = before_poll


def sizes(done: Run) -> list[dict[int, int]]:
    return [dict(zip(record["clients"], record["sizes"], strict=True)) for record in done.records]


def test_a_client_takes_part_with_what_it_has_now(tmp_path: Path) -> None:
    world = federation(tmp_path)
    growing_after_round(world, 2, samples(7, 25))
    found = sizes(served(world, growing=True))
    config, facts = make_config(values(tmp_path)), Facts.of(some_data(), CLIENTS, growing=True)
    after = client_federation(config, facts, tmp_path / "1.npz", 1).size(1)
    first = found[0][1]
    assert first < after
    assert {one[0] for one in found} == {found[0][0]}
    assert [one[1] for one in found[2:]] == [after, after]
    # Its control variate of the last round is there.
    assert list((tmp_path / "state").rglob("1-4*"))


def test_label_counts_follow(tmp_path: Path) -> None:
    world = federation(tmp_path)
    # More samples of one class than the client had of all when it joined.
    growing_after_round(world, 2, {"x": samples(7, 90)["x"], "y": np.zeros(90, np.int64)})
    method = {"name": "flashback", "server_epochs": 0}
    world.config.write_text(to_toml({**values(tmp_path), "method": method}))
    done = served(world, growing=True, method=method)
    assert not [record["dropped"] for record in done.records if record["dropped"]]
    assert sizes(done)[3][1] > 90


def test_without_the_option_a_client_that_grows_is_left_out(tmp_path: Path) -> None:
    world = federation(tmp_path)
    growing_after_round(world, 2, samples(7, 25))
    done = served(world, growing=False)
    assert [sorted(one) for one in sizes(done)] == [[0, 1], [0, 1], [0], [0]]
    assert "not on its" in done.records[-1]["dropped"][0]["reason"]


def test_fewer_samples_than_at_first_are_not_believed(tmp_path: Path) -> None:
    world = federation(tmp_path)
    path = tmp_path / "1.npz"

    def before_poll() -> None:
        if (0, 2) in world.trained:
            write_npz(path, samples(1, 20))

    world.before_poll = before_poll
    assert [sorted(one) for one in sizes(served(world, growing=True))] == [[0, 1], [0, 1], [0], [0]]


def some_data() -> Any:
    part = samples(10, 30)
    return from_arrays(part["x"], part["y"], part["x"], part["y"])


@pytest.mark.parametrize("position", ["before", "after"])
def test_a_sample_stays_in_its_part(tmp_path: Path, position: str) -> None:
    config, facts = make_config(values(tmp_path)), Facts.of(some_data(), CLIENTS, growing=True)
    old, new = samples(1, 200), samples(2, 100)
    parts = []
    for number, now in enumerate((old, joined(new, old) if position == "before" else joined(old, new))):
        write_npz(tmp_path / f"{number}.npz", now)
        found = client_federation(config, facts, tmp_path / f"{number}.npz", 0)
        assert len(found.rows(0)) + len(found.rows(0, "validation")) == len(now["y"])
        parts.append({now["x"][row].tobytes() for row in found.rows(0, "validation")})
    assert parts[0] == parts[1] & {sample.tobytes() for sample in old["x"]}
    assert len(parts[0]) == pytest.approx(40, abs=20)


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({"data": "partition"}, {}, "growing = true is for data = 'own'"),
        ({"data": "own"}, {"secure_aggregation": {"max_samples": 9}}, "remove secure_aggregation"),
    ],
)
def test_where_data_cannot_grow(options: dict[str, Any], more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_options(make_config(more), RunOptions.model_construct(growing=True, **options))

"""Exported models in plain PyTorch: without Eunoe they have the accuracy that Eunoe says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open

from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.simulation.export import export_model
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import blobs, make_simulation
from tests.small_runs import FAST, NAMED, bits

# Eunoe cannot be imported: only the files, PyTorch and NumPy.
BEFORE = """
import json, sys
import numpy as np, torch
from safetensors.torch import load_file
class NoEunoe:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "eunoe":
            raise ImportError(name)
sys.meta_path.insert(0, NoEunoe())
folder = sys.argv[1]
x, y = (np.load(f"{folder}/{name}.npy") for name in "xy")
about = json.load(open(f"{folder}/last.json"))
"""
AFTER = """
print(float((logits.argmax(1).numpy() == y).mean()))
"""
RAW = """
program = torch.export.load(f"{folder}/last.pt2").module()
logits = torch.cat([program(part) for part in torch.from_numpy(x).split(7)])
"""
WEIGHTS = """
state = load_file(f"{folder}/last.safetensors")
x = torch.from_numpy(x)
assert about["steps"][0].startswith("add a dimension of 1 channel")
x = x.unsqueeze(1).to(torch.float32) / 255
x = (x - torch.tensor(about["mean"]).view(-1, 1, 1)) / torch.tensor(about["std"]).view(-1, 1, 1)
assert list(x.shape[1:]) == about["model_input"]["shape"]
hidden = torch.relu(x.flatten(1) @ state["hidden.0.weight"].T + state["hidden.0.bias"])
logits = hidden @ state["classifier.weight"].T + state["classifier.bias"]
"""


def plain_accuracy(folder: Path, code: str, x: Any, y: Any) -> float:
    """The accuracy of what `code` computes in a Python that has no Eunoe."""
    np.save(folder / "x.npy", np.asarray(x))
    np.save(folder / "y.npy", np.asarray(y))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + code + AFTER, str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def said(done: Run) -> float:
    return float(done.records[-1]["test"]["accuracy"])


def test_weights_with_their_description(tmp_path: Path) -> None:
    done = run(NAMED, out=tmp_path / "run")
    export_model(done, tmp_path / "last.safetensors")
    test = done.simulation.federation.data.test
    assert plain_accuracy(tmp_path, WEIGHTS, test.x, test.y) == said(done)
    about = json.loads((tmp_path / "last.json").read_text())
    with safe_open(tmp_path / "last.safetensors", "pt") as file:
        assert json.loads(file.metadata()["description"]) == about
    assert about["input"] == {"dtype": "uint8", "shape": [8, 8]}
    assert about["class_names"] == list("0123456789")
    assert about["model"]["name"] == "mlp"


@pytest.mark.parametrize("model", ["mlp", "small_cnn"])
def test_a_program_takes_inputs_as_they_are_stored(tmp_path: Path, model: str) -> None:
    done = run({**NAMED, "model": {"name": model}}, out=tmp_path / "run")
    export_model(done, tmp_path / "last.pt2", raw=True)
    test = done.simulation.federation.data.test
    assert plain_accuracy(tmp_path, RAW, test.x, test.y) == said(done)


def test_colors_and_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    color = (rng.integers(0, 60, (300, 8, 8, 3)) + 60 * y[:, None, None, None]).astype(np.uint8)
    series = (rng.normal(size=(300, 4, 2)) + y[:, None, None] * [5.0, 0.1]).astype(np.float16)
    for name, x, options, model in (
        ("color", color, {}, "small_cnn"),
        ("series", series, {"mean": (2.0, 0.0), "std": (3.0, 1.0)}, "mlp"),
    ):
        federation = Federation.from_arrays(x, y, clients=4, alpha=0.5, **options)
        done = run({**FAST, "model": {"name": model}}, federation=federation, out=tmp_path / name)
        export_model(done, done.folder / "last.pt2", raw=True)
        test = federation.data.test
        assert plain_accuracy(done.folder, RAW, test.x, test.y) == said(done)
        assert (done.model(raw=True)(test.x).argmax(1).numpy() == done.predict(test.x)).all()


TABLE = """
import csv
rows = list(csv.DictReader(open(f"{folder}/rows.csv")))
x = []
for row in rows:
    cells = []
    for column in about["encoding"]["columns"]:
        cell = row[column["name"]]
        if column["type"] == "numeric":
            cells += [column["fill"] if cell == "" else float(cell)]
            cells += [float(cell == "")] if column["gaps"] else []
        else:
            known = column["values"] + ([""] if column["gaps"] else [])
            cells += [float(cell == value) for value in known] + [float(cell not in known)]
    x.append(cells)
x = np.array(x, np.float32)
assert x.shape[1] == len(about["encoding"]["features"])
y = np.array([about["class_names"].index(row["y"]) for row in rows])
"""
TEXT = """
import csv, re
spec = about["encoding"]
rows = list(csv.DictReader(open(f"{folder}/rows.csv")))
numbers = {token: spec["first"] + i for i, token in enumerate(spec["tokens"])}
x = np.full((len(rows), spec["length"]), spec["padding"], np.int16)
for line, row in zip(x, rows):
    ids = [numbers.get(word, spec["unknown"]) for word in re.findall(spec["pattern"], row["text"].lower())]
    line[: len(ids)] = ids[: spec["length"]]
y = np.array([about["class_names"].index(row["label"]) for row in rows])
"""


def test_a_table_by_its_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(200):
        color = ["red", "blue", "green"][rng.integers(3)]
        size = float(rng.normal(10 * (color == "red"), 3))
        right = size + 20 * (color == "blue") > 8
        cells = "" if number % 9 == 0 else f"{size:.3f}", "" if number % 11 == 0 else color
        rows.append(",".join([*cells, f"site{number % 4}", "yes" if right else "no"]))
    header, tested = "size,color,site,y", [*rows[150:], "3,violet,site1,no"]
    part = [f"{row},train" for row in rows[:150]] + [f"{row},test" for row in tested]
    (tmp_path / "all.csv").write_text("\n".join([header + ",part", *part]) + "\n")
    (tmp_path / "rows.csv").write_text("\n".join([header, *tested]) + "\n")
    data = {"name": str(tmp_path / "all.csv"), "label": "y", "client": "site", "part": "part"}
    done = run({**FAST, "rounds": 8, "data": data, "partition": "natural"}, out=tmp_path / "run")
    export_model(done, tmp_path / "last.pt2", raw=True)
    assert plain_accuracy(tmp_path, TABLE + RAW, [], []) == said(done) > 0.6
    assert len(done.values["preprocessing"]["mean"]) == len(done.simulation.federation.data.mean or ())


def test_text_by_its_vocabulary(tmp_path: Path) -> None:
    words = ["sun", "rain", "Wind", "snow", "it's", "dark"]
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(240):
        chosen = [words[i] for i in rng.integers(0, 6, rng.integers(3, 9))]
        rows.append(f"{' '.join(chosen)},{'wet' if 'rain' in chosen or 'snow' in chosen else 'dry'}")
    tested = [*rows[180:], "nobody knows this,dry"]
    part = [f"{row},train" for row in rows[:180]] + [f"{row},test" for row in tested]
    (tmp_path / "all.csv").write_text("\n".join(["text,label,part", *part]) + "\n")
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *tested]) + "\n")
    data = {"name": "text", "path": str(tmp_path / "all.csv"), "part": "part", "length": 6}
    for model in ("text_cnn", "text_bag"):
        values = {
            **FAST,
            "rounds": 6,
            "data": data,
            "partition": {"name": "iid", "clients": 4},
            "model": model,
        }
        done = run(values, out=tmp_path / model)
        export_model(done, tmp_path / "last.pt2", raw=True)
        assert plain_accuracy(tmp_path, TEXT + RAW, [], []) == said(done) > 0.6
        assert "preprocessing" not in done.values


def test_the_raw_module_equals_preprocessing_and_model_bit_for_bit(tmp_path: Path) -> None:
    done = run(NAMED, out=tmp_path / "run")
    federation = done.simulation.federation
    x = federation.data.test.x
    raw = done.model(raw=True)
    assert not raw.training
    assert torch.equal(raw(x), done.model()(federation.preprocess(x)))


def test_the_resolved_config_says_what_inputs_are_normalized_by(tmp_path: Path) -> None:
    done = run({**NAMED, "rounds": 2}, out=tmp_path / "run")
    data = done.simulation.federation.data
    assert done.values["preprocessing"] == {"mean": list(data.mean or ()), "std": list(data.std or ())}
    again = run(done.config, out=tmp_path / "again")
    assert bits(again.folder) == bits(done.folder)
    assert resume(tmp_path / "run", rounds=3).finished
    with pytest.raises(InputError, match=r"preprocessing.mean is .* and cannot become"):
        resume(tmp_path / "run", rounds=4, preprocessing={"mean": (0.1,), "std": (1.0,)})
    other = run({**NAMED, "preprocessing": {"mean": [0.5], "std": [2]}}, out=tmp_path / "other")
    x = torch.full((1, 8, 8), 255, dtype=torch.uint8)
    # (255 / 255 - 0.5) / 2
    assert other.simulation.federation.preprocess(x).unique().tolist() == [pytest.approx(0.25, rel=1e-6)]
    plain = run(FAST, federation=blobs(), model={"name": "mlp"}, out=tmp_path / "plain")
    assert "preprocessing" not in plain.values


def test_normalization_that_cannot_be(tmp_path: Path) -> None:
    for wrong, says in (
        ({"mean": [0.5]}, "preprocessing.std"),
        ({"mean": [0.5], "std": [0]}, "std.0: input should be greater than 0"),
        ({"mean": [0.5, 0.1], "std": [1, 1]}, "mean must be 1 or 1 numbers"),
    ):
        with pytest.raises(InputError, match=says):
            run({**NAMED, "preprocessing": wrong}, out=tmp_path / "run")
    ids = np.arange(40).reshape(20, 2) % 7
    federation = Federation.from_arrays(ids, np.arange(20) % 2, partition="iid", clients=2)
    with pytest.raises(InputError, match=r"integer inputs.* are not normalized"):
        make_simulation(federation, preprocessing={"mean": [0.5], "std": [1]})
    assert not (tmp_path / "run").exists()


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    done = run(NAMED, out=tmp_path / "run")
    for name, raw, says in (
        ("a.json", False, "take another suffix"),
        ("a.safetensors", True, "must end in .pt2"),
        ("none/a.pt2", True, "there is no folder"),
    ):
        with pytest.raises(InputError, match=says):
            export_model(done, tmp_path / name, raw=raw)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]

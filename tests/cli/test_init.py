"""`eunoe init`: a config for each kind of data, which then runs, and one line for what cannot be."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eunoe.cli import init as command
from eunoe.config.settings import read_config
from tests.cli.command import eunoe

RNG = np.random.default_rng(0)
Y = np.tile([0, 1, 2], 20)


def table(folder: Path) -> list[object]:
    rows = [
        f"{y + RNG.normal():.3f},{'ab'[n % 2]},{'xyz'[y]},{('north', 'south')[n % 2]}"
        for n, y in enumerate(Y)
    ]
    (folder / "t.csv").write_text("\n".join(["age,ward,outcome,site", *rows]))
    return [folder / "t.csv", "--label", "outcome", "--client", "site"]


def numbers(folder: Path) -> list[object]:
    rows = [f"{RNG.normal():.3f},{RNG.normal():.3f}" for _ in Y]
    (folder / "t.csv").write_text("\n".join(["age,cost", *rows]))
    return [folder / "t.csv", "--label", "cost", "--clients", 3]


def several_labels(folder: Path) -> list[object]:
    rows = [f"{RNG.normal():.3f},{int(y > 0)},{int(n % 2)}" for n, y in enumerate(Y)]
    (folder / "t.csv").write_text("\n".join(["age,pain,fever", *rows]))
    return [folder / "t.csv", "--label", "pain,fever", "--clients", 3]


def text(folder: Path) -> list[object]:
    rows = [f"please give me the {'abc'[y]}{n % 5} now,{'xyz'[y]}" for n, y in enumerate(Y)]
    (folder / "t.csv").write_text("\n".join(["question,intent", *rows]))
    return [folder / "t.csv", "--label", "intent", "--clients", 3]


def images(folder: Path) -> list[object]:
    for part in ("train", "test"):
        for label in "ab":
            (folder / "pictures" / part / label).mkdir(parents=True)
            for n in range(12):
                pixels = RNG.integers(0, 255, (32, 32, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / "pictures" / part / label / f"{n}.png")
    return [folder / "pictures", "--clients", 3]


def arrays(folder: Path, *shape: int) -> list[object]:
    x = RNG.normal(size=(60, *shape)).astype(np.float32)
    np.savez(
        folder / "own.npz",
        x_train=x,
        y_train=Y,
        x_test=x[:12],
        y_test=Y[:12],
        writer_train=Y,
        writer_test=Y[:12],
    )
    return [folder / "own.npz"]


def vectors(folder: Path) -> list[object]:
    return arrays(folder, 4)


def signals(folder: Path) -> list[object]:
    return arrays(folder, 32, 2)


@pytest.mark.parametrize(
    ("made", "model", "partition"),
    [
        (table, "mlp", "natural"),
        (text, "text_cnn", "dirichlet"),
        (images, "lenet", "dirichlet"),
        (vectors, "mlp", "natural"),
        (signals, "signal_cnn", "natural"),
        (numbers, "mlp", "quantity"),
        (several_labels, "mlp", "quantity"),
    ],
    ids=["table", "text", "images", "npz", "signal", "numbers", "labels"],
)
def test_a_config_for_each_kind_of_data_runs(
    made: Callable[[Path], list[object]], model: str, partition: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    wrote = eunoe("init", *made(tmp_path), "--out", config)
    assert (wrote.code, wrote.error) == (0, "")
    assert f"eunoe run {config}" in wrote.out
    values = read_config(config)
    assert (values["model"]["name"], values["partition"]["name"]) == (model, partition)
    # Every section says what it is for.
    assert config.read_text().count("#") >= 9
    short = ("--set", "rounds=2", "--engine", "serial", "--no-report")
    done = eunoe("run", config, *short, "--out", tmp_path / "run")
    assert done.code == 0, done.error
    assert "all 2 rounds done" in done.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.csv"], "there is no file or folder nothing.csv"),
        (["t.csv"], "set the label column; there are age, ward, outcome, site"),
        (["t.csv", "--label", "outcom"], "has no column 'outcom'; did you mean 'outcome'?"),
        (
            ["t.csv", "--label", "outcome", "--client", "site", "--clients", "5"],
            "omit the number of clients",
        ),
        (["notes.txt"], "use a .csv, .parquet or .npz file or a folder of images"),
        (["broken.npz"], "broken.npz"),
        ([], "pass your data"),
        (["t.csv", "--label", "outcome", "--out", "t.csv"], "t.csv exists: pass another file"),
    ],
)
def test_wrong_input_gets_one_line_and_nothing_is_written(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "broken.npz").write_text("x")
    refused = eunoe("init", *arguments)
    assert refused.code == 2
    assert says in refused.error
    assert refused.error.count("\n") == 1
    assert not (tmp_path / "config.toml").exists()


def test_what_is_not_passed_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path)
    answers, asked = iter(["t.csv", "outcome", "site"]), []

    def prompt(question: str, *_: object) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(command.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(command.typer, "prompt", prompt)
    assert eunoe("init").code == 0
    assert len(asked) == 3
    assert "age, ward, outcome, site" in asked[1]
    data = read_config(tmp_path / "config.toml")["data"]
    assert data == {"name": "t.csv", "label": "outcome", "client": "site"}


def test_columns_that_say_nothing_of_other_rows_are_left_out(tmp_path: Path) -> None:
    """An id, a number of the row and a date are not used; a column of train and test is."""
    rows = [
        f"P{n:03d},{n},2024-05-{1 + n % 28:02d},{y + RNG.normal():.2f},{'ab'[n % 2]},{'xyz'[y]},"
        f"{'test' if n % 5 == 0 else 'train'}"
        for n, y in enumerate(Y)
    ]
    (tmp_path / "t.csv").write_text("\n".join(["patient,row,seen,age,ward,outcome,set", *rows]))
    config = tmp_path / "config.toml"
    wrote = eunoe("init", tmp_path / "t.csv", "--label", "outcome", "--out", config).out
    assert "Note: not used: patient differs in nearly every row" in wrote
    data = read_config(config)["data"]
    assert (data["drop"], data["part"]) == (["patient", "row", "seen"], "set")
    assert "patient differs in nearly every row, row numbers the rows, seen holds dates" in config.read_text()
    done = eunoe("init", tmp_path / "t.csv", "--label", "patient", "--out", tmp_path / "other.toml")
    assert "column 'patient' differs in nearly every row" in done.error


def test_imbalance_and_columns_that_may_be_codes_are_named(tmp_path: Path) -> None:
    # 16 of 80 rows are ill, and 12 or 13 of 64 in the training part.
    rows = [f"{RNG.normal():.3f},{1 + n % 8},{n % 2},{'ill' if n % 5 == 0 else 'well'}" for n in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["age,ward,smokes,outcome", *rows]))
    config = tmp_path / "config.toml"
    wrote = eunoe("init", tmp_path / "t.csv", "--label", "outcome", "--out", config).out
    assert (
        'Note: ward: few whole numbers, taken as quantities; if they are codes, set categorical = ["ward"].'
        in wrote
    )
    assert "Note: classes are imbalanced: 'well' has 8" in wrote
    assert read_config(config)["evaluation"] == {"metric": "auroc"}
    assert '# class_weights = "balanced"' in config.read_text()
    uncommented = config.read_text().replace("# class_weights", "class_weights")
    config.write_text(uncommented)
    done = eunoe(
        "run", config, "--set", "rounds=1", "--engine", "serial", "--no-report", "--out", tmp_path / "run"
    )
    assert done.code == 0, done.error
    assert "auroc on the test set" in " ".join(done.out.split())


def test_classes_of_similar_size_get_no_note(tmp_path: Path) -> None:
    rows = [f"{RNG.normal():.3f},{'ill' if n % 4 == 0 else 'well'}" for n in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["age,outcome", *rows]))
    wrote = eunoe("init", tmp_path / "t.csv", "--label", "outcome", "--out", tmp_path / "config.toml").out
    assert "Note" not in wrote
    assert "evaluation" not in read_config(tmp_path / "config.toml")


def test_images_of_different_sizes_are_resized(tmp_path: Path) -> None:
    images(tmp_path)
    Image.fromarray(np.zeros((9, 12, 3), np.uint8)).save(tmp_path / "pictures" / "train" / "a" / "odd.png")
    config = tmp_path / "config.toml"
    assert eunoe("init", tmp_path / "pictures", "--out", config).code == 0
    assert read_config(config)["data"]["size"] == [32, 32]
    # Twenty-five samples are too few for the ten clients that there are by default.
    assert read_config(config)["partition"]["clients"] == 2


def test_integers_are_token_ids_and_fields_need_a_model_of_ones_own(tmp_path: Path) -> None:
    x, config = RNG.integers(0, 9, (60, 5)), tmp_path / "config.toml"
    np.savez(tmp_path / "ids.npz", x_train=x, y_train=Y, x_test=x, y_test=Y)
    assert eunoe("init", tmp_path / "ids.npz", "--out", config).code == 0
    assert read_config(config)["model"]["name"] == "text_cnn"
    assert "convert quantities to real numbers" in config.read_text()
    fields = {f"{part}.{name}": x for part in ("x_train", "x_test") for name in "ab"}
    np.savez(tmp_path / "fields.npz", y_train=Y, y_test=Y, **fields)
    refused = eunoe("init", tmp_path / "fields.npz", "--out", tmp_path / "other.toml")
    assert "no built-in model takes" in refused.error

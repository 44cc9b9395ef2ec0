"""Commented configs for a user's own data, with the roles of a table's columns guessed from their values."""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from eunoe.config.settings import path_kind
from eunoe.config.toml import inline
from eunoe.core.fields import describe_input
from eunoe.data.loading import load
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import get_column, read_frame
from eunoe.errors import InputError, join_names

# With at most this many clients, all take part in every round.
_FEW_CLIENTS = 10
# The least number of samples of a simulated client, approximately.
_MIN_SAMPLES = 20
# How many images are examined, and the side length above which they are slow on a CPU.
_EXAMINED_IMAGES, _LARGE_IMAGE = 500, 64
# A column of strings with this many words on average is text, not categories.
_WORDS = 3
# A column of strings with more distinct values is not one of categories if most rows differ.
_MANY = 20


@dataclass(frozen=True)
class Setting:
    """How a kind of data is trained: the models to try in turn, epochs, batch size and lr."""

    what: str
    models: tuple[str, ...]
    training: tuple[int, int, float]


@dataclass(frozen=True)
class DataSection:
    """The kind of data, their section of the config, and its comments."""

    kind: str
    values: dict[str, Any]
    comments: tuple[str, ...] = ()


SETTINGS = {
    "table": Setting("a table", ("mlp",), (2, 16, 0.02)),
    "text": Setting("text", ("text_cnn",), (3, 16, 0.5)),
    "signal": Setting("windows of signals", ("signal_cnn", "mlp"), (2, 32, 0.05)),
    "images": Setting("images", ("lenet", "small_cnn", "mlp"), (1, 32, 0.05)),
    "ids": Setting("token ids", ("text_cnn",), (3, 16, 0.5)),
    "numbers": Setting("vectors of numbers", ("mlp",), (2, 32, 0.05)),
}


def list_columns(path: str) -> list[str] | None:
    """Return the columns of a table file; None for other files and for folders."""
    if path_kind(path)[0] != "table":
        return None
    return list(read_frame(Path(path)).column_names)


def starter_configs(
    path: str,
    *,
    label: str | None = None,
    text: str | None = None,
    client: str | None = None,
    clients: int | None = None,
) -> list[str]:
    """Return configs for a CSV, Parquet or .npz file or a folder of images, one for each suitable model.

    Not every model may fit the data: use the first that builds. Tables need a `label` column, or several
    separated by commas; one of real numbers is regression, several of 0 and 1 are multilabel. `text` is the
    column of sentences, guessed if it is None, and `client` the column of client ids. If the data have no
    clients, `clients` with different class mixes are simulated.
    """
    location = Path(path).expanduser()
    if not location.exists():
        raise InputError(f"there is no file or folder {path}")
    if location.is_dir() and not path_kind(path)[0]:
        path = f"./{path}"
    reader = path_kind(path)[0]
    if not reader:
        raise InputError(f"{path} is not supported: use a .csv, .parquet or .npz file or a folder of images")
    if reader == "table":
        section = _table_section(path, label, text, client)
    elif label or text or client:
        raise InputError(f"{path} is not a table: omit the columns")
    else:
        section = _image_section(path) if reader == "folder" else DataSection("npz", {"name": path})
    options = {key: value for key, value in section.values.items() if key != "name"}
    data = load(section.values["name"], **options)
    if section.kind == "npz":
        section = _array_section(path, data)
    if data.owners is not None and clients is not None:
        raise InputError(f"{path} has the client of each sample: omit the number of clients")
    if data.owners is None and clients is None:
        clients = min(_FEW_CLIENTS, max(2, len(data.train) // _MIN_SAMPLES))
    return [_write_config(section, data, clients, model) for model in SETTINGS[section.kind].models]


def _table_section(path: str, label: str | None, text: str | None, client: str | None) -> DataSection:
    frame = read_frame(Path(path))
    if label is None:
        raise InputError(f"{path}: set the label column; there are {', '.join(frame.column_names)}")
    labels = [label] if label in frame.column_names else [name.strip() for name in label.split(",")]
    if len(labels) == 1:
        labels = [label]
    for name in filter(None, (*labels, text, client)):
        get_column(frame, name, path)
    for name in labels:
        values = frame.column(name)
        if _is_mostly_distinct(values) and isinstance(values[0].as_py(), str):
            raise InputError(f"{path}: column {name!r} differs in nearly every row, so it is not a label")
    part = find_part_column(frame, {*labels, text, client})
    text = text or find_text_column(frame, {*labels, client, part})
    roles = {"label": labels if len(labels) > 1 else label, "client": client, "part": part}
    roles = {key: value for key, value in roles.items() if value is not None}
    held_out = "" if part else "A fifth of the rows is the test part: held_out = 20."
    if text is not None:
        length = "Longer sentences are cut: length = 32 words."
        return DataSection("text", {"name": "text", "path": path, "text": text, **roles}, (length, held_out))
    useless = find_useless_columns(frame, {*labels, client, part})
    drop = {"drop": list(useless)} if useless else {}
    why = f"Not used: {join_names(f'{name} {why}' for name, why in useless.items())}." if useless else ""
    return DataSection("table", {"name": path, **roles, **drop}, (why, held_out))


def _image_section(path: str) -> DataSection:
    """Resize images that are large or differ in size."""
    from PIL import Image, UnidentifiedImageError

    sizes = set()
    for file in list(Path(path).expanduser().glob("train/*/[!.]*"))[:_EXAMINED_IMAGES]:
        # Loading the data reports files that are not images.
        with suppress(OSError, UnidentifiedImageError), Image.open(file) as image:
            sizes.add(image.size)
    if len(sizes) > 1 or max(map(max, sizes), default=0) > _LARGE_IMAGE:
        return DataSection("images", {"name": path, "size": [32, 32]}, ("Resized to this height and width.",))
    return DataSection("images", {"name": path})


def _array_section(path: str, data: DataSet) -> DataSection:
    x = data.train.x
    if not isinstance(x, Tensor):
        raise InputError(
            f"{path} is {describe_input(x)}, for which no model is built in: write a config with your own"
        )
    if data.vocabulary is not None:
        why = "Integers are token ids; convert quantities to real numbers, as with x.astype(float)."
        return DataSection("ids", {"name": path}, (why,))
    if x.ndim == 3 and x.is_floating_point():
        return DataSection("signal", {"name": "signal", "path": path})
    return DataSection("images" if x.ndim > 2 else "numbers", {"name": path})


def find_text_column(frame: Any, others: Collection[str | None]) -> str | None:
    """Return the column with the longest sentences, if any has sentences; `others` are ignored."""
    words = {}
    for name in frame.column_names:
        values = [value for value in frame.column(name)[:200].to_pylist() if isinstance(value, str)]
        if name not in others and values:
            words[name] = float(np.mean([len(value.split()) for value in values]))
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest is not None and words[longest] >= _WORDS else None


def find_part_column(frame: Any, others: Collection[str | None]) -> str | None:
    """Return the column that says train or test for each row, if there is one."""
    for name in frame.column_names:
        if name not in others and {"train", "test"} <= set(map(str, frame.column(name).unique().to_pylist())):
            return str(name)
    return None


def find_useless_columns(frame: Any, others: Collection[str | None]) -> dict[str, str]:
    """Return the columns from which a model cannot learn, and why."""
    reasons = {name: _why_useless(frame.column(name)) for name in frame.column_names if name not in others}
    return {name: why for name, why in reasons.items() if why}


def _why_useless(column: Any) -> str:
    from pyarrow import compute, types

    kind, present = column.type, column.drop_null()
    if len(present) == 0:
        return "is empty"
    if types.is_temporal(kind):
        return "holds dates or times"
    if types.is_string(kind) or types.is_large_string(kind):
        # Each id would become a feature of its own, which no other row has.
        return "differs in nearly every row" if _is_mostly_distinct(present) else ""
    distinct = len(present.unique())
    if types.is_integer(kind) and distinct == len(column) > _MANY:
        ends = compute.min_max(column).as_py()
        return "numbers the rows" if ends["max"] - ends["min"] == distinct - 1 else ""
    return ""


def _is_mostly_distinct(column: Any) -> bool:
    return len(column.unique()) > max(_MANY, len(column) / 2)


def _write_config(section: DataSection, data: DataSet, clients: int | None, model: str) -> str:
    setting = SETTINGS[section.kind]
    epochs, batch_size, lr = setting.training
    count = clients or len(np.unique(np.asarray(data.owners)))
    if clients is None:
        partition = '# Clients as in the data.\nname = "natural"'
    elif data.task.name != "classification":
        partition = (
            "# Simulated: clients of different sizes; a smaller alpha makes them differ more.\n"
            f'name = "quantity"\nclients = {clients}\nalpha = 1.0'
        )
    else:
        partition = (
            "# Simulated: each client gets its own class mix; a smaller alpha makes them differ more.\n"
            f'name = "dirichlet"\nclients = {clients}\nalpha = 0.3'
        )
    comments = [f"# {comment}" for comment in section.comments if comment]
    lines = "\n".join([*comments, *(f"{key} = {inline(value)}" for key, value in section.values.items())])
    sizes = f"{len(data.train):,} training samples, {len(data.test):,} test samples"
    what = setting.what[0].upper() + setting.what[1:]
    losses = {
        "classification": "wsm prevents forgetting of classes that a client lacks",
        "multilabel": "bce treats each label separately",
        "regression": "mse is the squared error, huber is robust to outliers",
    }
    return f"""# {what}: {sizes}, {data.classes} {data.task.outputs}, {count} clients.
# All options: eunoe options; those of a section: eunoe options training.

# The seed of all random numbers; run several seeds before you trust a difference.
seed = 0
rounds = 50
# Clients per round: a share of all, or a number.
participation = {"1.0" if count <= _FEW_CLIENTS else "0.2"}

[data]
{lines}

[partition]
{partition}

[split]
# Of each client's training samples: models are chosen on the validation part, never on test data.
validation = 0.1

[model]
# Others: eunoe list models.
name = "{model}"

[training]
# Local training of a client in a round; tune lr first: eunoe tune.
epochs = {epochs}
batch_size = {batch_size}
lr = {lr}

[loss]
# {losses[data.task.name]}; others: eunoe list losses.
name = "{data.task.loss}"

[method]
# local trains every client alone, central on all samples; others: eunoe list methods.
name = "fedavg"

[engine]
# All cores; vectorized is faster for small models.
name = "process"
"""

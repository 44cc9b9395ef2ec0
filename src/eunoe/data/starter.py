"""Commented configs for a user's own data, with the roles of a table's columns guessed from their values."""

from collections.abc import Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from pyarrow import compute, types
from torch import Tensor

from eunoe.config.settings import inline, path_kind
from eunoe.core.fields import describe_input
from eunoe.data.loading import load
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import column_values, get_column, is_text, read_frame
from eunoe.errors import InputError, join_names
from eunoe.text import fill_template, read_data

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
# Classes are imbalanced if one has this many times the samples of another.
_IMBALANCED = 4
# Comments that `eunoe init` prints, too.
NOTE = "Note: "


class DataSection(NamedTuple):
    """The kind of data, their section of the config, and its comments."""

    kind: str
    values: dict[str, Any]
    comments: tuple[str, ...] = ()


def list_columns(path: str) -> list[str] | None:
    """Return the columns of a table file; None for other files and for folders."""
    return list(read_frame(Path(path)).column_names) if path_kind(path) == "table" else None


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
    if location.is_dir() and not path_kind(path):
        path = f"./{path}"
    reader = path_kind(path)
    if not reader:
        raise InputError(f"{path} is not supported: use a .csv, .parquet or .npz file or a folder of images")
    if reader == "table":
        section = _table_section(path, label, text, client)
    elif label or text or client:
        raise InputError(f"{path} is not a table, so it has no columns: omit --label, --text and --client")
    else:
        section = _image_section(path) if reader == "folder" else DataSection("npz", {"name": path})
    data = load(**section.values)
    if section.kind == "npz":
        section = _array_section(path, data)
    if data.owners is not None and clients is not None:
        raise InputError(f"{path} has the client of each sample: omit the number of clients")
    if data.owners is None and clients is None:
        clients = min(_FEW_CLIENTS, max(2, len(data.train) // _MIN_SAMPLES))
    settings = read_data("eunoe.data", "starter.toml")
    training = {**settings[section.kind], "loss_note": settings["loss_notes"][data.task.name]}
    return [_write_config(section, data, clients, {**training, "model": name}) for name in training["models"]]


def _table_section(path: str, label: str | None, text: str | None, client: str | None) -> DataSection:
    frame = read_frame(Path(path))
    if label is None:
        raise InputError(f"{path}: set the label column; there are {', '.join(frame.column_names)}")
    labels = [label] if label in frame.column_names else [name.strip() for name in label.split(",")]
    for name in filter(None, (*labels, text, client)):
        get_column(frame, name, path)
    for name in labels:
        values = column_values(frame, name, path)
        if _is_mostly_distinct(frame.column(name)) and isinstance(values[0], str):
            raise InputError(f"{path}: column {name!r} differs in nearly every row, so it is not a label")
    used = {*labels, text, client}
    part = _find_part_column(frame, used)
    used.add(part)
    text = text or _find_text_column(frame, used)
    roles = {"label": labels if len(labels) > 1 else labels[0], "client": client, "part": part}
    roles = {key: value for key, value in roles.items() if value is not None}
    held_out = "" if part else "A fifth of the rows is the test part: held_out = 20."
    if text is not None:
        length = "Longer sentences are cut: length = 32 words."
        return DataSection("text", {"name": "text", "path": path, "text": text, **roles}, (length, held_out))
    reasons = {name: _why_useless(frame.column(name)) for name in frame.column_names if name not in used}
    drop = [name for name, why in reasons.items() if why]
    unused = join_names(f"{name} {reasons[name]}" for name in drop)
    codes = join_names(names := _find_code_columns(frame, used.union(drop)))
    comments = (
        f"{NOTE}not used: {unused}." if drop else "",
        f"{NOTE}{codes}: few whole numbers, taken as quantities; if they are codes, set categorical = "
        f"{inline(names)}."
        if names
        else "",
        held_out,
    )
    return DataSection("table", {"name": path, **roles, **({"drop": drop} if drop else {})}, comments)


def _image_section(path: str) -> DataSection:
    """Resize images that are large or differ in size."""
    sizes = set()
    files = (file for file in Path(path).expanduser().glob("train/*/[!.]*") if file.is_file())
    for file in islice(files, _EXAMINED_IMAGES):
        # Loading the data reports files that are not images.
        with suppress(OSError, Image.DecompressionBombError), Image.open(file) as image:
            sizes.add(image.size)
    if len(sizes) > 1 or max(map(max, sizes), default=0) > _LARGE_IMAGE:
        return DataSection("images", {"name": path, "size": [32, 32]}, ("Resized to this height and width.",))
    return DataSection("images", {"name": path})


def _array_section(path: str, data: DataSet) -> DataSection:
    x = data.train.x
    if not isinstance(x, Tensor):
        raise InputError(f"{path}: no built-in model takes {describe_input(x)}; write a config with your own")
    if data.vocabulary is not None:
        why = "Integers are token ids; convert quantities to real numbers, as with x.astype(float)."
        return DataSection("ids", {"name": path}, (why,))
    if x.ndim == 3 and x.is_floating_point():
        return DataSection("signal", {"name": "signal", "path": path})
    return DataSection("images" if x.ndim > 2 else "numbers", {"name": path})


def _find_text_column(frame: Any, others: Collection[str | None]) -> str | None:
    """Return the column with the longest sentences, if any has sentences; `others` are ignored."""
    words = {}
    for name in _text_columns(frame, others):
        if values := frame.column(name)[:200].drop_null().to_pylist():
            words[name] = float(np.mean([len(value.split()) for value in values]))
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest is not None and words[longest] >= _WORDS else None


def _find_part_column(frame: Any, others: Collection[str | None]) -> str | None:
    """Return the column that says train or test for each row, if there is one."""
    values = {name: set(frame.column(name).unique().to_pylist()) for name in _text_columns(frame, others)}
    return next((name for name, parts in values.items() if {"train", "test"} <= parts), None)


def _text_columns(frame: Any, others: Collection[str | None]) -> list[str]:
    """Return the columns of text that are not among `others`."""
    return [field.name for field in frame.schema if field.name not in others and is_text(field.type)]


def _find_code_columns(frame: Any, others: Collection[str | None]) -> list[str]:
    """Return the columns of 3 to 20 different integers, which may be codes; `others` are ignored."""
    fields = [field for field in frame.schema if field.name not in others]
    names = [field.name for field in fields if types.is_integer(field.type)]
    return [name for name in names if 3 <= len(frame.column(name).drop_null().unique()) <= _MANY]


def _describe_imbalance(data: DataSet) -> str:
    """Describe how far the classes differ in size; empty if they do not, or for other tasks."""
    if data.task.name != "classification":
        return ""
    counts = np.bincount(data.train.y.numpy(), minlength=data.classes)
    if counts.max() < _IMBALANCED * counts.min():
        return ""
    names = data.class_names or [str(label) for label in range(data.classes)]
    most, least = (
        f"{names[at]!r} has {counts[at] / counts.sum():.1%}" for at in (counts.argmax(), counts.argmin())
    )
    return f"{NOTE}classes are imbalanced: {most} of the training samples, {least}; accuracy hides rare ones."


def _why_useless(column: Any) -> str:
    """Return why a model cannot learn from a column; empty if it can."""
    kind, present = column.type, column.drop_null()
    if len(present) == 0:
        return "is empty"
    if types.is_temporal(kind):
        return "holds dates or times"
    if types.is_nested(kind):
        return "holds lists or structs"
    if is_text(kind):
        # Each id would become a feature of its own, which no other row has.
        return "differs in nearly every row" if _is_mostly_distinct(present) else ""
    if types.is_integer(kind) and (distinct := len(present.unique())) == len(column) > _MANY:
        ends = compute.min_max(column).as_py()
        return "numbers the rows" if ends["max"] - ends["min"] == distinct - 1 else ""
    return ""


def _is_mostly_distinct(column: Any) -> bool:
    return len(column.unique()) > max(_MANY, len(column) / 2)


def _write_config(section: DataSection, data: DataSet, clients: int | None, training: dict[str, Any]) -> str:
    task, parts = data.task, read_data("eunoe.data", "starter.toml")["parts"]
    count = clients or len(np.unique(np.asarray(data.owners)))
    partition = parts["natural"]
    if clients is not None:
        differ, name, alpha = "clients of different sizes", "quantity", 1.0
        if task.name == "classification":
            differ, name, alpha = "each client gets its own class mix", "dirichlet", 0.3
        partition = parts["simulated"].format(differ=differ, name=name, clients=clients, alpha=alpha)
    comments = [f"# {comment}" for comment in section.comments if comment]
    evaluation = class_weights = ""
    if imbalance := _describe_imbalance(data):
        metric = "auroc" if data.classes == 2 else "balanced_accuracy"
        evaluation = parts["evaluation"].format(imbalance=imbalance, metric=metric)
        class_weights = parts["class_weights"]
    values = {
        **training,
        "train": f"{len(data.train):,}",
        "test": f"{len(data.test):,}",
        "outputs": f"{data.classes} {task.outputs}",
        "count": count,
        "participation": "1.0" if count <= _FEW_CLIENTS else "0.2",
        "data": "\n".join([*comments, *(f"{k} = {inline(v)}" for k, v in section.values.items())]),
        "partition": partition,
        "evaluation": evaluation,
        "loss": task.loss,
        "class_weights": class_weights,
    }
    return fill_template("eunoe.data", "starter.toml.tpl", values)

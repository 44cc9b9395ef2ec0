"""A commented config for somebody's own data, tried before it is given: a model fits the data."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.config.paths import path_kind
from eunoe.config.schema import make_config
from eunoe.config.toml import inline
from eunoe.data.loading import load
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import column_of, read_frame
from eunoe.errors import InputError, first_line
from eunoe.runs.assembly import assemble

# A column of strings with this many words on average is text, not categories.
_WORDS = 3
# With no more clients than this all take part in every round.
_FEW = 10


@dataclass(frozen=True)
class Setting:
    """What one kind of data is trained with: the models to try in turn, epochs, batch size and lr."""

    what: str
    models: tuple[str, ...]
    training: tuple[int, int, float]


SETTINGS = {
    "table": Setting("a table", ("mlp",), (2, 16, 0.02)),
    "text": Setting("text", ("text_cnn",), (3, 16, 0.5)),
    "signal": Setting("windows of signals", ("signal_cnn", "mlp"), (2, 32, 0.05)),
    "images": Setting("images", ("lenet", "small_cnn", "mlp"), (1, 32, 0.05)),
    "ids": Setting("token ids", ("text_cnn",), (3, 16, 0.5)),
    "numbers": Setting("vectors of numbers", ("mlp",), (2, 32, 0.05)),
}


def columns_of(path: str) -> list[str] | None:
    """The columns of a table file; None for other files and for folders."""
    if path_kind(path)[0] != "table":
        return None
    return list(read_frame(Path(path)).column_names)


def starter_config(
    path: str,
    *,
    label: str | None = None,
    text: str | None = None,
    client: str | None = None,
    clients: int | None = None,
) -> str:
    """A config for a CSV, Parquet or .npz file or a folder of images.

    Tables need a `label` column; `text` is the column of sentences, found if it is not named, and `client`
    the one that says whose row it is. Where the data do not say so, `clients` of different class mixes are
    simulated.
    """
    place = Path(path).expanduser()
    if not place.exists():
        raise InputError(f"there is no file or folder {path}")
    if place.is_dir() and not path_kind(path)[0]:
        path = f"./{path}"
    reader = path_kind(path)[0]
    if not reader:
        raise InputError(
            f"{path} is no data that is known: it must be .csv, .parquet, .npz or a folder of images"
        )
    kind, section = _section(path, reader, label, text, client)
    options = {key: value for key, value in section.items() if key != "name"}
    data = load(section["name"], **options)
    if kind == "npz":
        kind = _kind_of(data)
        if kind == "signal":
            section = {"name": "signal", "path": path}
    natural = data.writers_train is not None
    if natural and clients is not None:
        raise InputError(f"{path} says whose each sample is: leave the number of clients out")
    return _first_that_runs(kind, section, data, None if natural else clients or _FEW)


def _section(
    path: str, reader: str, label: str | None, text: str | None, client: str | None
) -> tuple[str, dict[str, Any]]:
    """The kind of data, if the file's name says it, and the section of the config."""
    if reader != "table":
        if label or text or client:
            raise InputError(f"{path} is no table: leave the columns out")
        return ("images" if reader == "folder" else "npz"), {"name": path}
    frame = read_frame(Path(path))
    if label is None:
        raise InputError(f"{path}: which column is the label? There are {', '.join(frame.column_names)}")
    for name in filter(None, (label, text, client)):
        column_of(frame, name, path)
    whose = {} if client is None else {"client": client}
    text = text or _text_column(frame, {label, client})
    if text is not None:
        return "text", {"name": "text", "path": path, "text": text, "label": label, **whose}
    return "table", {"name": path, "label": label, **whose}


def _text_column(frame: Any, others: set[str | None]) -> str | None:
    """The column with the longest sentences, if one has sentences."""
    words = {}
    for name in frame.column_names:
        values = [value for value in frame.column(name)[:200].to_pylist() if isinstance(value, str)]
        if name not in others and values:
            words[name] = float(np.mean([len(value.split()) for value in values]))
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest is not None and words[longest] >= _WORDS else None


def _kind_of(data: DataSet) -> str:
    """What the arrays of a .npz are."""
    x = data.train.tensor
    if data.vocabulary is not None:
        return "ids"
    if x.ndim == 3 and x.is_floating_point():
        return "signal"
    return "images" if x.ndim > 2 else "numbers"


def _first_that_runs(kind: str, section: dict[str, Any], data: DataSet, clients: int | None) -> str:
    """The config with the first of the kind's models that fits the data."""
    problem = ""
    for model in SETTINGS[kind].models:
        text = _written(kind, section, data, clients, model)
        try:
            assemble(make_config(tomllib.loads(text)))
        except InputError as error:
            problem = problem or first_line(error)
            continue
        return text
    raise InputError(problem)


def _written(kind: str, section: dict[str, Any], data: DataSet, clients: int | None, model: str) -> str:
    setting = SETTINGS[kind]
    epochs, batch_size, lr = setting.training
    writers = data.writers_train
    count = clients or (0 if writers is None else len(np.unique(writers.numpy())))
    everybody = count <= _FEW
    if clients is None:
        partition = '# Clients as the data say.\nname = "natural"'
    else:
        partition = (
            "# Simulated: each client gets a class mix of its own; a smaller alpha makes them differ more.\n"
            f'name = "dirichlet"\nclients = {clients}\nalpha = 0.3'
        )
    lines = "\n".join(f"{key} = {inline(value)}" for key, value in section.items())
    sizes = f"{len(data.train):,} samples to train on, {len(data.test):,} to test on"
    what = setting.what[0].upper() + setting.what[1:]
    return f"""# {what}: {sizes}, {data.classes} classes, {count} clients.
# Every option, with a sentence each: eunoe options; those of a section: eunoe options training.

# The source of every random number; run several seeds before you believe a difference.
seed = 0
rounds = 50
# Clients in a round: a share of all, or a number.
participation = {"1.0" if everybody else "0.2"}

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
# What a client does in a round; lr is what to tune first: eunoe tune.
epochs = {epochs}
batch_size = {batch_size}
lr = {lr}

[loss]
# wsm keeps classes that a client lacks from being forgotten; others: eunoe list losses.
name = "ce"

[method]
# local trains every client alone, central on all samples; others: eunoe list methods.
name = "fedavg"

[engine]
# All cores; vectorized is faster for small models.
name = "process"
"""

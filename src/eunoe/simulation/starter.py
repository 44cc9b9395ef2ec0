"""A commented config for somebody's own data, tried before it is given: a model fits the data."""

import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from eunoe.config.schema import make_config
from eunoe.config.settings import path_kind
from eunoe.config.toml import inline
from eunoe.core.fields import in_words
from eunoe.data.column_roles import differs, part_column, text_column, useless_columns
from eunoe.data.loading import load
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import column_of, read_frame
from eunoe.errors import InputError, first_line, listed
from eunoe.simulation.build import assemble

# With no more clients than this all take part in every round.
_FEW = 10
# A simulated client has about as many samples, or more.
_ENOUGH = 20
# Images whose sizes are looked at, and the length from which they take long on a CPU.
_IMAGES, _LARGE = 500, 64


@dataclass(frozen=True)
class Setting:
    """What one kind of data is trained with: the models to try in turn, epochs, batch size and lr."""

    what: str
    models: tuple[str, ...]
    training: tuple[int, int, float]


@dataclass(frozen=True)
class Source:
    """What kind of data there are, their section of the config, and what its comments say."""

    kind: str
    section: dict[str, Any]
    comments: tuple[str, ...] = ()


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

    Tables need a `label` column, or several separated by commas; one of real numbers is for regression,
    several of 0 and 1 are labels. `text` is the column of sentences, found if it is not named, and `client`
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
    source = _source(path, reader, label, text, client)
    options = {key: value for key, value in source.section.items() if key != "name"}
    data = load(source.section["name"], **options)
    if source.kind == "npz":
        source = _arrays(path, data)
    natural = data.writers_train is not None
    if natural and clients is not None:
        raise InputError(f"{path} says whose each sample is: leave the number of clients out")
    enough = min(_FEW, max(2, len(data.train) // _ENOUGH))
    return _first_that_runs(source, data, None if natural else clients or enough)


def _source(path: str, reader: str, label: str | None, text: str | None, client: str | None) -> Source:
    """The kind of data, as far as the file's name and its columns say it, and their section of the config."""
    if reader != "table":
        if label or text or client:
            raise InputError(f"{path} is no table: leave the columns out")
        return _images(path) if reader == "folder" else Source("npz", {"name": path})
    frame = read_frame(Path(path))
    if label is None:
        raise InputError(f"{path}: which column is the label? There are {', '.join(frame.column_names)}")
    several = [] if label in frame.column_names else [name.strip() for name in label.split(",")]
    labels = several if len(several) > 1 else [label]
    for name in filter(None, (*labels, text, client)):
        column_of(frame, name, path)
    for name in labels:
        values = frame.column(name)
        if differs(values) and isinstance(values[0].as_py(), str):
            raise InputError(
                f"{path}: column {name!r} differs in nearly every row; labels are few and return"
            )
    part = part_column(frame, {*labels, text, client})
    text = text or text_column(frame, {*labels, client, part})
    whose = {"label": labels if len(labels) > 1 else label, "client": client, "part": part}
    given = {key: value for key, value in whose.items() if value is not None}
    tested = "" if part else "A fifth of the rows is tested on: held_out = 20."
    if text is not None:
        length = "Longer sentences are cut: length = 32 words."
        return Source("text", {"name": "text", "path": path, "text": text, **given}, (length, tested))
    useless = useless_columns(frame, {*labels, client, part})
    dropped = {"drop": list(useless)} if useless else {}
    why = f"Not used: {listed(f'{name} {why}' for name, why in useless.items())}." if useless else ""
    return Source("table", {"name": path, **given, **dropped}, (why, tested))


def _images(path: str) -> Source:
    """A folder of images, made small if they are large or differ in size."""
    from PIL import Image, UnidentifiedImageError

    sizes = set()
    for file in list(Path(path).expanduser().glob("train/*/[!.]*"))[:_IMAGES]:
        # Reading the data says more of a file that is no image.
        with suppress(OSError, UnidentifiedImageError), Image.open(file) as image:
            sizes.add(image.size)
    if len(sizes) > 1 or max(map(max, sizes), default=0) > _LARGE:
        return Source("images", {"name": path, "size": [32, 32]}, ("Resized to this height and width.",))
    return Source("images", {"name": path})


def _arrays(path: str, data: DataSet) -> Source:
    """What the arrays of a .npz are."""
    x = data.train.x
    if not isinstance(x, Tensor):
        raise InputError(
            f"{path} holds {in_words(x)}, for which no model is built in: name it and your own in a config"
        )
    if data.vocabulary is not None:
        why = "Integers are token ids; numbers that mean more or less must be reals, as of x.astype(float)."
        return Source("ids", {"name": path}, (why,))
    if x.ndim == 3 and x.is_floating_point():
        return Source("signal", {"name": "signal", "path": path})
    return Source("images" if x.ndim > 2 else "numbers", {"name": path})


def _first_that_runs(source: Source, data: DataSet, clients: int | None) -> str:
    """The config with the first of the kind's models that fits the data."""
    problem = ""
    for model in SETTINGS[source.kind].models:
        text = _written(source, data, clients, model)
        try:
            assemble(make_config(tomllib.loads(text)))
        except InputError as error:
            problem = problem or first_line(error)
            continue
        return text
    raise InputError(problem)


def _written(source: Source, data: DataSet, clients: int | None, model: str) -> str:
    setting = SETTINGS[source.kind]
    epochs, batch_size, lr = setting.training
    writers = data.writers_train
    count = clients or (0 if writers is None else len(np.unique(writers.numpy())))
    everybody = count <= _FEW
    if clients is None:
        partition = '# Clients as the data say.\nname = "natural"'
    elif data.task.name != "classification":
        partition = (
            "# Simulated: clients of different sizes; a smaller alpha makes them differ more.\n"
            f'name = "quantity"\nclients = {clients}\nalpha = 1.0'
        )
    else:
        partition = (
            "# Simulated: each client gets a class mix of its own; a smaller alpha makes them differ more.\n"
            f'name = "dirichlet"\nclients = {clients}\nalpha = 0.3'
        )
    comments = [f"# {comment}" for comment in source.comments if comment]
    lines = "\n".join([*comments, *(f"{key} = {inline(value)}" for key, value in source.section.items())])
    sizes = f"{len(data.train):,} samples to train on, {len(data.test):,} to test on"
    what = setting.what[0].upper() + setting.what[1:]
    losses = {
        "classification": "wsm keeps classes that a client lacks from being forgotten",
        "multilabel": "bce decides each label for itself",
        "regression": "mse is the squared error, huber bends for far targets",
    }
    return f"""# {what}: {sizes}, {data.classes} {data.task.outputs}, {count} clients.
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
# {losses[data.task.name]}; others: eunoe list losses.
name = "{data.task.loss}"

[method]
# local trains every client alone, central on all samples; others: eunoe list methods.
name = "fedavg"

[engine]
# All cores; vectorized is faster for small models.
name = "process"
"""

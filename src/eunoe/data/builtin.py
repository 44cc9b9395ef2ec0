"""Built-in data sets: those of scikit-learn, and files in $EUNOE_DATA.

Arrays are <name>.npz, downloaded if missing; tables and texts are <name>.csv, also .csv.gz and .csv.xz.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from pydantic import PositiveInt, TypeAdapter

from eunoe.core.fields import describe_input
from eunoe.data.arrays import from_rows, mean_and_std, number_ids
from eunoe.data.checks import Array
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources import hub
from eunoe.data.sources.frames import LabeledRows, column_values, label_rows, read_frame, read_values
from eunoe.data.sources.hub import HubSpec
from eunoe.data.sources.npz import make_dataset, read_npz, standardize_signal
from eunoe.data.sources.table import from_table
from eunoe.data.sources.text import Vocabulary, encode_rows, fit_encoder, text
from eunoe.data.split import every_fifth_row
from eunoe.errors import InputError, nearest
from eunoe.text import read_data

logger = logging.getLogger(__name__)
# The digits that have each attribute; a loop is a closed line in the printed digit.
ATTRIBUTES = {
    "even": (0, 2, 4, 6, 8),
    "prime": (2, 3, 5, 7),
    "above four": (5, 6, 7, 8, 9),
    "has a loop": (0, 6, 8, 9),
}


@dataclass(frozen=True)
class DataSetSpec:
    """A built-in data set, a section of specs.toml.

    `rows` are those of the hub's training and test splits; `sha256` is that of the arrays x_train, y_train,
    x_test, y_test one after the other in their official order. `mean` and `std` are None if they
    are measured when the data is loaded. `about` is the docstring of its loader.
    """

    classes: int
    shape: tuple[int, ...]
    rows: tuple[int, int]
    class_names: tuple[str, ...] | None = None
    hub: HubSpec | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    writers: bool = False
    dtype: str = "uint8"
    sha256: str | None = None
    about: str = ""


_VALUES = read_data("eunoe.data", "specs.toml")
# Data sets that are stored as a CSV file: their `columns` and number of `classes`.
TABLES = _VALUES.pop("tables")
for _spec in _VALUES.values():
    _spec["class_names"] = _spec["class_names"].split(", ") if "class_names" in _spec else None

SPECS = TypeAdapter(dict[str, DataSetSpec]).validate_python(_VALUES)


def digits() -> DataSet:
    """8 x 8 gray handwritten digits that come with scikit-learn: 1,442 for training, 355 for testing.

    The test part is every fifth sample of each class, in file order. The gray values 0..16 are scaled to
    0..255, so that these images go through the same code as all others.
    """
    x, y = _read_digits()
    return from_rows(x, y, every_fifth_row(y), name="digits", classes=10, class_names=tuple("0123456789"))


def digit_attributes() -> DataSet:
    """The images of `digits` with four labels: even, prime, above four, has a loop; clients are digits."""
    x, y = _read_digits()
    labels = [[digit in digits for digits in ATTRIBUTES.values()] for digit in y]
    return from_rows(
        x,
        np.array(labels, np.float32),
        every_fifth_row(y),
        np.array([f"digit {digit}" for digit in y]),
        name="digit_attributes",
        task="multilabel",
        class_names=tuple(ATTRIBUTES),
    )


def diabetes() -> DataSet:
    """Diabetes: ten measurements of 442 patients, and the progression of the disease a year later.

    A client is a decade of age (partition 'natural'): under 30, 30 to 39, ..., 60 and over. The test part is
    every fifth patient of each, in file order.
    """
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    decades = np.clip(x[:, 0] // 10, 2, 6).astype(np.int64)
    test = every_fifth_row(decades)
    names = {2: "under 30", 3: "30 to 39", 4: "40 to 49", 5: "50 to 59", 6: "60 and over"}
    x = x.astype(np.float32)
    mean, std = mean_and_std(x[~test])
    return from_rows(
        x,
        y,
        test,
        np.array([names[decade] for decade in decades.tolist()]),
        name="diabetes",
        task="regression",
        class_names=("progression",),
        mean=mean,
        std=std,
    )


def _loader(name: str) -> Callable[..., DataSet]:
    def load(*, revision: str | None = None) -> DataSet:
        return load_named(name, revision)

    load.__doc__ = SPECS[name].about
    return load


mnist, fashion_mnist, cifar10 = _loader("mnist"), _loader("fashion_mnist"), _loader("cifar10")
cifar100, cinic10, femnist = _loader("cifar100"), _loader("cinic10"), _loader("femnist")
omniglot = _loader("omniglot")


def har() -> DataSet:
    """HAPT: windows [128, 6] of a phone's acceleration and rotation, 12 activities of 30 people."""
    return standardize_signal(load_named("har"))


def heart_disease(*, path: Path | None = None) -> DataSet:
    """Heart disease (UCI): 920 patients of 4 hospitals, 13 features with gaps; disease present or absent.

    A fixed fifth of each hospital's patients is the test part.
    """
    file = path or table_path("heart_disease")
    frame, where = read_frame(file), str(file)
    degrees, at = read_values(frame, where, "num"), frame.column_names.index("num")
    # 1 to 4 are degrees of the disease.
    frame = frame.set_column(at, "num", [["present" if value > 0 else "absent" for value in degrees]])
    categorical = ("cp", "restecg", "slope", "thal")
    data = from_table(frame, label="num", client="hospital", categorical=categorical, name=where)
    return replace(data, name="heart_disease")


def banking77(*, path: Path | None = None, length: PositiveInt = 32, tokenizer: str | None = None) -> DataSet:
    """BANKING77: 10,003 + 3,080 questions to a bank, 77 intents."""
    file = path or table_path("banking77")
    data = text(file, label="intent", part="part", length=length, tokenizer=tokenizer)
    return replace(data, name="banking77")


def clinc150(*, path: Path | None = None, length: PositiveInt = 24, tokenizer: str | None = None) -> DataSet:
    """CLINC150: 15,000 + 4,500 requests of 150 intents in 10 domains, the clients; none out of scope."""
    file = path or table_path("clinc150")
    where = str(file)
    frame = read_frame(file, ("part", "domain", "intent", "text"))
    frame = frame.filter(np.array(column_values(frame, "domain", where)) != "oos")
    rows = label_rows(frame, where, "intent", "domain", "part", None, "classification")
    texts = column_values(rows.frame, "text", where)
    return encode_rows(rows, texts, fit_encoder(rows.training(texts), length, tokenizer), "clinc150")


def shakespeare(*, path: Path | None = None, length: PositiveInt = 40, stride: PositiveInt = 20) -> DataSet:
    """Shakespeare: the next character after `length` characters of a speech; speakers are the clients.

    Each speech gives a sample for every `stride` characters. Test samples with a next character that the
    training part does not have are dropped.
    """
    file = path or table_path("shakespeare")
    where = str(file)
    frame = read_frame(file, ("part", "client", "text"))
    columns = [column_values(frame, name, where) for name in ("part", "client", "text")]
    samples = [
        (speech[max(0, end - length) : end], speech[end], speaker, part == "test")
        for part, speaker, speech in zip(*columns, strict=True)
        for end in range(stride, len(speech), stride)
    ]
    names = tuple(sorted({mark for _, mark, _, test in samples if not test}))
    if len(names) < 2 or not any(test for *_, test in samples):
        raise InputError(f"{where} is too short: both parts need speeches of more than {stride} characters")
    contexts, marks, speakers, test = zip(*(s for s in samples if s[1] in names), strict=True)
    y, clients = np.array([names.index(mark) for mark in marks]), number_ids(np.array(speakers))[0]
    speeches = (speech for part, _, speech in zip(*columns, strict=True) if part == "train")
    vocabulary = Vocabulary.fit(speeches, "characters", length, 1000)
    rows = LabeledRows(None, y, names, clients, np.array(test))
    return encode_rows(rows, contexts, vocabulary, "shakespeare")


def load_named(name: str, revision: str | None = None) -> DataSet:
    """Load a built-in data set, downloaded if missing; a file of another hub `revision` is an error."""
    spec, path = get_spec(name), path_of(name)
    if not path.exists():
        fetch_named(name, revision)
    record = hub.read_record(path)
    revisions = [str(record[key]) for key in ("revision", "commit") if key in record]
    if revision is not None and revision not in revisions:
        raise InputError(
            f"{path} is revision {' = '.join(revisions) or 'unknown'}, not {revision}; "
            f"replace it with: eunoe data fetch {name} --revision {revision} --force"
        )
    known = {option: getattr(spec, option) for option in ("classes", "class_names", "mean", "std")}
    data = make_dataset(read_npz(path), name, str(path), task="classification", **known)
    form = f"{spec.dtype} {list(spec.shape)}"
    if describe_input(data.train.x) != form:
        raise InputError(f"{path} has samples {describe_input(data.train.x)}, but {name} has {form}")
    if spec.sha256 is not None and (sha256 := checksum(data.train, data.test)) != spec.sha256:
        problem = f"{path} is not the official {name}: SHA-256 {sha256[:12]}..., not {spec.sha256[:12]}..."
        # Another number of samples may be intended, such as a subset.
        if (len(data.train), len(data.test)) == spec.rows:
            fetch = "" if spec.hub is None else f"; replace it with: eunoe data fetch {name} --force"
            raise InputError(f"{problem}{fetch}")
        logger.warning(problem)
    return data


def fetch_named(name: str, revision: str | None = None) -> None:
    """Download a built-in data set from the hub into the data folder, replacing the file there."""
    spec, path = get_spec(name), path_of(name)
    try:
        if spec.hub is None:
            raise InputError(f"{name} is not on the hub in this form")
        hub.fetch(spec.hub, path, revision=revision or hub.PARQUET, classes=spec.classes, rows=spec.rows)
    except InputError as error:
        shape = ", ".join(str(size) for size in spec.shape)
        writers = ", writer_train and writer_test int64 (the writer of each sample)" if spec.writers else ""
        raise InputError(
            f"{error}; without the internet, write {path} yourself (numpy.savez) with x_train and x_test "
            f"{spec.dtype} [n, {shape}], y_train and y_test int64 [n], labels 0..{spec.classes - 1}{writers}"
        ) from error


def _read_digits() -> tuple[Array, Array]:
    """Return the images as bytes, and their labels."""
    package = find_spec("sklearn")
    file = Path(package.origin if package and package.origin else "").parent / "datasets/data/digits.csv.gz"
    if file.exists():
        # Importing scikit-learn takes over a second in every process; reading its file takes hundredths.
        table = np.loadtxt(file, delimiter=",")
    else:
        from sklearn.datasets import load_digits

        table = np.column_stack(load_digits(return_X_y=True))
    images = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return images, table[:, -1].astype(np.int64)


def get_spec(name: str) -> DataSetSpec:
    """Return the specification of a data set that is stored as .npz."""
    if name == "digits":
        raise InputError("digits comes with scikit-learn; it is not downloaded")
    if name in TABLES:
        raise InputError(f"{name} is not on the hub in this form; put it as {name}.csv into the data folder")
    if name not in SPECS:
        raise InputError(f"unknown data set {name!r}; {nearest(name, SPECS)}")
    return SPECS[name]


def path_of(name: str) -> Path:
    """Return the path of a built-in data set."""
    return hub.data_folder() / f"{name}.npz"


def table_path(name: str) -> Path:
    """Return the path of a built-in table, plain or compressed."""
    paths = [hub.data_folder() / f"{name}{ending}" for ending in (".csv", ".csv.gz", ".csv.xz")]
    for path in paths:
        if path.exists():
            return path
    raise InputError(
        f"there is no file {paths[0]} (nor .csv.gz, .csv.xz): put it there, with the columns "
        f"{TABLES[name]['columns']}, or set its path"
    )

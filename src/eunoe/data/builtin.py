"""Built-in data sets: read from $EUNOE_DATA/<name>.npz, downloaded there from the hub if missing."""

import logging
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from eunoe.data.arrays import from_arrays
from eunoe.data.builtin_tables import TABLES
from eunoe.data.checks import Array
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources import hub
from eunoe.data.sources.npz import dataset_of, read_npz
from eunoe.data.sources.signal import standardized
from eunoe.data.specs import SPECS, DataSetSpec
from eunoe.errors import InputError, nearest

logger = logging.getLogger(__name__)
# Files that were compared with the official data: path, size and time of change.
_compared: set[tuple[str, int, int]] = set()


def digits() -> DataSet:
    """8 x 8 gray handwritten digits that come with scikit-learn: 1,442 to train on, 355 to test.

    The test part is every fifth sample of each class, in file order. The gray values 0..16 are scaled to
    0..255, so that these images go through the same code as all others.
    """
    table = _digits_table()
    x = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    y = table[:, -1].astype(np.int64)
    test = np.zeros(len(y), bool)
    for label in range(10):
        test[np.flatnonzero(y == label)[4::5]] = True
    return from_arrays(
        x[~test], y[~test], x[test], y[test], name="digits", classes=10, class_names=tuple("0123456789")
    )


def mnist(*, revision: str | None = None) -> DataSet:
    """MNIST: 28 x 28 gray handwritten digits, 60,000 to train on, 10,000 to test."""
    return load_named("mnist", revision)


def fashion_mnist(*, revision: str | None = None) -> DataSet:
    """Fashion-MNIST: 28 x 28 gray pieces of clothing, 60,000 to train on, 10,000 to test."""
    return load_named("fashion_mnist", revision)


def cifar10(*, revision: str | None = None) -> DataSet:
    """CIFAR-10: 32 x 32 color photographs in 10 classes, 50,000 to train on, 10,000 to test."""
    return load_named("cifar10", revision)


def cifar100(*, revision: str | None = None) -> DataSet:
    """CIFAR-100: 32 x 32 color photographs in 100 classes, 50,000 to train on, 10,000 to test."""
    return load_named("cifar100", revision)


def cinic10(*, revision: str | None = None) -> DataSet:
    """CINIC-10: CIFAR-10's classes, 180,000 to train on (training and validation merged), 90,000 to test."""
    return load_named("cinic10", revision)


def femnist(*, revision: str | None = None) -> DataSet:
    """FEMNIST: 28 x 28 digits and letters by 3,597 writers, 62 classes, 814,277 samples.

    The hub has no test part, so a fixed random 15% of each writer's samples, rounded down, are held out for
    it. A writer with at least 50 samples in all has at least 43 in the training part.
    """
    return load_named("femnist", revision)


def har() -> DataSet:
    """HAPT: windows [128, 6] of a phone's acceleration and rotation, 12 activities of 30 people."""
    return standardized(load_named("har"))


def omniglot() -> DataSet:
    """Omniglot: 28 x 28 characters of 8 alphabets, 242 classes, each drawn by 20 people."""
    return load_named("omniglot")


def load_named(name: str, revision: str | None = None) -> DataSet:
    """Load a built-in data set from its file, which is downloaded if missing.

    `revision` is a branch or commit of the hub; a file from another one is refused.
    """
    spec, path = spec_of(name), path_of(name)
    if not path.exists():
        fetch_named(name, revision=revision)
    record = hub.read_record(path)
    got = [str(record[key]) for key in ("revision", "commit") if key in record]
    if revision is not None and revision not in got:
        raise InputError(
            f"{path} is {' = '.join(got) or 'of no known revision'}, not {revision}; "
            f"replace it with: eunoe data fetch {name} --revision {revision} --force"
        )
    arrays = read_npz(path)
    data = dataset_of(
        arrays,
        name,
        str(path),
        task="classification",
        classes=spec.classes,
        class_names=spec.class_names,
        mean=spec.mean,
        std=spec.std,
    )
    dtype = str(data.train.tensor.dtype).removeprefix("torch.")
    if dtype != spec.dtype:
        raise InputError(f"{path}: x_train is {dtype}; that of {name} is {spec.dtype}")
    if data.train.tensor.shape[1:] != spec.shape:
        raise InputError(
            f"{path}: samples have shape {list(data.train.tensor.shape[1:])}; "
            f"those of {name} have {list(spec.shape)}"
        )
    _check_official(name, spec, path, data)
    return data


def _check_official(name: str, spec: DataSetSpec, path: Path, data: DataSet) -> None:
    """Refuse a file that is the official data but for some values; warn of one that is another selection."""
    about = path.stat()
    key = (str(path), about.st_size, about.st_mtime_ns)
    if spec.sha256 is None or key in _compared:
        return
    if (found := checksum(data.train, data.test)) != spec.sha256:
        problem = (
            f"{path} is not the official {name}: its SHA-256 is {found[:12]}..., not {spec.sha256[:12]}..."
        )
        if (len(data.train), len(data.test)) == spec.rows:
            fetch = "" if spec.source is None else f"; replace it with: eunoe data fetch {name} --force"
            raise InputError(f"{problem}{fetch}")
        logger.warning(problem)
    _compared.add(key)


def fetch_named(name: str, *, revision: str | None = None, client: hub.Hub | None = None) -> Path:
    """Download a built-in data set from the hub into the data folder, replacing the file there."""
    spec, path = spec_of(name), path_of(name)
    if spec.source is None:
        raise InputError(f"{name} is not on the hub in this form; {_what_to_put(name, spec)}")
    try:
        hub.fetch(
            spec.source,
            path,
            revision=revision or hub.PARQUET,
            classes=spec.classes,
            rows=spec.rows,
            hub=client,
        )
    except InputError as error:
        raise InputError(f"{error}; {_what_to_put(name, spec)}") from error
    return path


def _digits_table() -> Array:
    # Importing scikit-learn takes over a second in every process; its file is read in hundredths.
    package = find_spec("sklearn")
    if package is not None and package.origin is not None:
        file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.exists():
            return np.loadtxt(file, delimiter=",")
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    return np.column_stack([data, target])


def spec_of(name: str) -> DataSetSpec:
    """The specification of a data set that is stored as a file."""
    if name == "digits":
        raise InputError("digits comes with scikit-learn; there is nothing to fetch")
    if name in TABLES:
        raise InputError(f"{name} is not on the hub in this form; put it as {name}.csv into the data folder")
    if name not in SPECS:
        raise InputError(f"no data set is called {name!r}; {nearest(name, SPECS)}")
    return SPECS[name]


def path_of(name: str) -> Path:
    """The file of a built-in data set."""
    return hub.data_folder() / f"{name}.npz"


def _what_to_put(name: str, spec: DataSetSpec) -> str:
    counts = [format(count, "d") for count in spec.rows] if spec.rows[1] else ["n", "m"]
    shape = "".join(f", {size}" for size in spec.shape)
    arrays = [
        f"x_{part} {spec.dtype} [{count}{shape}] and y_{part} int64 [{count}]"
        for part, count in zip(("train", "test"), counts, strict=True)
    ]
    writers = ", writer_train and writer_test int64 (the writer of each sample)" if spec.writers else ""
    return (
        f"without the internet, write {path_of(name)} yourself (numpy.savez) with the arrays "
        f"{', '.join(arrays)} with labels 0..{spec.classes - 1}{writers}"
    )

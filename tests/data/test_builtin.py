"""Named data sets: the embedded one, those kept as files, and those fetched from the hub."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from eunoe.data import builtin as named
from eunoe.data.builtin import SPECS, diabetes, digit_attributes, digits, fetch_named, load_named, path_of
from eunoe.data.loading import entry
from eunoe.data.sources import hub
from eunoe.errors import InputError
from tests.data.fake_hub import COMMIT, FakeHub, parquet, pictures


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    def unreachable(repo, revision):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hub, "list_files", unreachable)


def test_digits_are_those_of_scikit_learn_split_by_class():
    from sklearn.datasets import load_digits

    data, file = digits(), load_digits()
    assert (len(data.train), len(data.test), data.classes) == (1442, 355, 10)
    assert data.train.x.dtype == torch.uint8
    assert tuple(data.train.x.shape[1:]) == (8, 8)
    assert (int(data.train.x.min()), int(data.train.x.max())) == (0, 255)
    for label in range(10):
        ours = file.images[file.target == label]
        test = data.test.x[data.test.y == label].numpy()
        train = data.train.x[data.train.y == label].numpy()
        assert np.array_equal(np.rint(test / 255 * 16), ours[4::5])
        assert len(train) + len(test) == len(ours)
    scaled = data.train.x.double() / 255
    assert data.mean == (pytest.approx(scaled.mean().item(), abs=1e-3),)
    assert data.std == (pytest.approx(scaled.std().item(), abs=1e-3),)


def test_digits_are_the_same_if_scikit_learn_hides_its_file(monkeypatch):
    direct = digits()
    monkeypatch.setattr(named, "find_spec", lambda name: None)
    assert digits().train.x.equal(direct.train.x)


def keep(path, shape, classes, dtype="uint8", **more):
    y = np.arange(classes)
    x = np.zeros((classes, *shape), dtype)
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y, **more)


@pytest.mark.parametrize("name", SPECS)
def test_every_name_is_found_as_a_file(folder, name):
    known = SPECS[name]
    writers = np.arange(known.classes)
    keep(folder / f"{name}.npz", known.shape, known.classes, known.dtype, writer_train=writers)
    data = getattr(named, name)()
    assert (data.name, data.classes, len(data.train)) == (name, known.classes, known.classes)
    assert data.class_names == known.class_names
    assert data.writers_train is not None
    channels = known.shape[-1] if len(known.shape) == 3 or known.dtype != "uint8" else 1
    assert len(data.mean) == len(data.std) == channels
    if known.mean:
        assert (data.mean, data.std) == (known.mean, known.std)


@pytest.mark.parametrize("name", SPECS)
def test_known_facts_fit_together(name):
    known = SPECS[name]
    assert known.class_names is None or len(set(known.class_names)) == known.classes
    assert known.hub is None or known.hub.mode == ("RGB" if len(known.shape) == 3 else "L")
    assert known.hub is None or known.writers == (known.hub.client is not None)


def test_cifar_is_normalized_as_in_the_wsm_code():
    for name in ("cifar10", "cifar100"):
        assert SPECS[name].mean == (0.4914, 0.4822, 0.4465)
        assert SPECS[name].std == (0.2023, 0.1994, 0.2010)


def test_without_the_internet_the_error_says_which_file_to_put_where(folder, offline):
    with pytest.raises(InputError) as error:
        named.cifar10()
    assert str(error.value) == (
        "the download of hub data set uoft-cs/cifar10 failed (ConnectionError: no route to host); without "
        f"the internet, write {folder}/cifar10.npz yourself (numpy.savez) with x_train and x_test uint8 "
        "[n, 32, 32, 3], y_train and y_test int64 [n], labels 0..9"
    )
    with pytest.raises(
        InputError, match=r"labels 0..61, writer_train and writer_test int64 \(the writer of each sample\)"
    ):
        named.femnist()
    with pytest.raises(
        InputError, match=r"omniglot is not on the hub in this form; without the internet, .*omniglot.npz"
    ):
        named.omniglot()
    assert list(folder.iterdir()) == []


def test_the_default_folder_is_in_the_home(monkeypatch):
    monkeypatch.delenv("EUNOE_DATA", raising=False)
    monkeypatch.setenv("HOME", "/home/zoe")
    assert str(path_of("mnist")) == "/home/zoe/.cache/eunoe/mnist.npz"


def test_a_file_of_another_shape_or_with_other_labels_is_refused(folder):
    keep(folder / "mnist.npz", (8, 8), 10)
    with pytest.raises(
        InputError, match=r"mnist.npz has samples uint8 \[8, 8\], but mnist has uint8 \[28, 28\]"
    ):
        named.mnist()
    keep(folder / "mnist.npz", (28, 28), 11)
    with pytest.raises(InputError, match=r"mnist.npz: label 10 is too large; 10 classes are 0..9"):
        named.mnist()


def test_a_file_of_another_type_is_refused(folder):
    keep(folder / "har.npz", (128, 6), 12, "float32")
    with pytest.raises(InputError, match=r"har.npz has samples float32 .*, but har has float16"):
        named.har()


def test_samples_of_other_writers_in_a_file_are_left_alone(folder):
    writers = np.arange(62)
    other = {"x_other": np.zeros((2, 28, 28), np.uint8), "y_other": writers[:2], "writer_other": writers[:2]}
    keep(folder / "femnist.npz", (28, 28), 62, writer_train=writers, **other)
    assert len(named.femnist().train) == 62


def test_unknown_and_embedded_names():
    with pytest.raises(InputError, match="unknown data set 'cifar'; did you mean 'cifar10'"):
        load_named("cifar")
    with pytest.raises(InputError, match="digits comes with scikit-learn; it is not downloaded"):
        fetch_named("digits")


def smaller(monkeypatch, name, rows):
    """The same data set, but known to have few rows."""
    monkeypatch.setitem(SPECS, name, dataclasses.replace(SPECS[name], rows=rows, sha256=None))


def femnist_file(writers, start=0):
    """Rows as flwrlabs/femnist has them."""
    count = len(writers)
    columns = {
        "image": pictures([np.full((28, 28), start + i, np.uint8) for i in range(count)]),
        "writer_id": pa.array(writers),
        "hsf_id": pa.array([0] * count, pa.int64()),
        "character": pa.array([(start + i) % 62 for i in range(count)], pa.int64()),
    }
    return parquet(columns, {"character": SPECS["femnist"].class_names})


def test_femnist_has_writers_and_a_test_part_of_15_per_cent_of_each(folder, monkeypatch):
    writers = ["f0001_41"] * 50 + ["f0000_14"] * 49
    smaller(monkeypatch, "femnist", (99, 0))
    client = FakeHub(
        {
            "default/train/0000.parquet": femnist_file(writers[:60]),
            "default/train/0001.parquet": femnist_file(writers[60:], 60),
        }
    )
    with client.serving():
        fetch_named("femnist")
    assert client.requests == [("flwrlabs/femnist", "refs/convert/parquet")]
    data = named.femnist()
    assert (data.classes, data.class_names[10], data.class_names[61]) == (62, "A", "z")
    # As the docstring says: 50 samples in all leave 43 to train on, 49 leave 42.
    assert np.bincount(data.writers_train).tolist() == [42, 43]
    assert np.bincount(data.writers_test).tolist() == [7, 7]
    assert torch.equal(data.train.x[:, 0, 0] % 62, data.train.y)
    assert torch.equal((data.train.x[:, 0, 0] < 50).long(), data.writers_train)


def colored(count, start):
    return parquet(
        {
            "image": pictures([np.full((32, 32, 3), start + i, np.uint8) for i in range(count)]),
            "label": [i % 10 for i in range(count)],
        },
        {"label": SPECS["cinic10"].class_names},
    )


def test_cinic10_merges_training_and_validation(folder, monkeypatch):
    smaller(monkeypatch, "cinic10", (14, 2))
    content = {
        "default/test/0000.parquet": colored(2, 50),
        "default/train/0000.parquet": colored(10, 0),
        "default/validation/0000.parquet": colored(4, 30),
    }
    with FakeHub(content).serving():
        fetch_named("cinic10", "abc")
    data = named.cinic10()
    assert data.train.x[:, 0, 0, 0].tolist() == [*range(10), *range(30, 34)]
    assert data.test.x[:, 0, 0, 0].tolist() == [50, 51]


@pytest.mark.parametrize(
    ("name", "image", "label"),
    [
        ("mnist", "image", "label"),
        ("fashion_mnist", "image", "label"),
        ("cifar10", "img", "label"),
        ("cifar100", "img", "fine_label"),
    ],
)
def test_the_others_by_the_columns_the_hub_has(folder, monkeypatch, name, image, label):
    smaller(monkeypatch, name, (2, 2))
    file = parquet(
        {image: pictures([np.full(SPECS[name].shape, i, np.uint8) for i in range(2)]), label: [0, 1]}
    )
    with FakeHub({f"{name}/{part}/0000.parquet": file for part in ("train", "test")}).serving():
        fetch_named(name)
    assert load_named(name).test.y.tolist() == [0, 1]


def test_a_wrong_number_of_rows_is_refused_with_the_way_out(folder):
    content = {"default/train/0000.parquet": femnist_file(["a"] * 3)}
    wrong = pytest.raises(
        InputError, match=r"has 3 training and 0 test rows, not 814277 and 0; .*femnist.npz"
    )
    with wrong, FakeHub(content).serving():
        fetch_named("femnist")
    assert list(folder.iterdir()) == []


def test_the_stored_revision_must_be_the_requested_one(folder, monkeypatch):
    keep(folder / "mnist.npz", (28, 28), 10)
    with pytest.raises(
        InputError, match=r"mnist.npz is revision unknown, not v2; .*fetch mnist --revision v2 --f"
    ):
        named.mnist(revision="v2")
    record = {"repo": "ylecun/mnist", "revision": "v1", "commit": COMMIT, "files": []}
    (folder / "mnist.json").write_text(json.dumps(record))
    assert named.mnist(revision="v1").classes == named.mnist(revision=COMMIT).classes == 10
    with pytest.raises(InputError, match=f"mnist.npz is revision v1 = {COMMIT}, not v2"):
        named.mnist(revision="v2")


def test_attributes_follow_from_the_digit() -> None:
    data, plain = digit_attributes(), digits()
    assert data.class_names == ("even", "prime", "above four", "has a loop")
    assert data.writer_names == tuple(f"digit {digit}" for digit in range(10))
    assert data.writers_train is not None
    assert data.writers_train.tolist() == plain.train.y.tolist()
    for digit, expected in ((0, [1, 0, 0, 1]), (2, [1, 1, 0, 0]), (7, [0, 1, 1, 0]), (1, [0, 0, 0, 0])):
        rows = np.unique(data.train.y[plain.train.y == digit].numpy(), axis=0)
        assert rows.tolist() == [expected]


def test_patients_by_age() -> None:
    data = diabetes()
    assert (len(data.train), len(data.test), data.task.name) == (356, 86, "regression")
    assert data.writer_names == ("30 to 39", "40 to 49", "50 to 59", "60 and over", "under 30")
    assert data.train.y.mean().abs() < 1e-6
    # The first patient is 59 years old and has a progression of 151.
    assert data.train.tensor[0, 0] == 59
    assert data.writers_train is not None
    assert data.writers_train[0] == 2
    assert float(data.task.to_units(data.train.y)[0, 0]) == 151.0  # type: ignore[attr-defined]


def test_they_are_in_the_catalog() -> None:
    found = entry("diabetes")
    assert [found[key] for key in ("train", "test", "classes", "clients", "description")] == [
        *("356", "86", "1", "5"),
        "scikit-learn",
    ]

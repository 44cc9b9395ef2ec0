"""The federation: parts, counts, pools, the public set, a million clients, checksums, own arrays."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from eunoe.config.options import FeatureShift, Public, Split
from eunoe.data.arrays import from_arrays
from eunoe.data.builtin import digits
from eunoe.data.federation import Federation, find_writers
from eunoe.data.partitions.by_class import Dirichlet
from eunoe.data.partitions.without_labels import Iid, Natural
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError


def numbered(samples: int = 100, classes: int = 5) -> DataSet:
    """Samples whose input is their row."""
    x = torch.arange(samples, dtype=torch.float32).reshape(-1, 1)
    y = torch.arange(samples) % classes
    return DataSet("numbered", Samples(x, y), Samples(x[:10], y[:10]), classes)


@given(
    clients=st.integers(1, 30),
    validation=st.floats(0, 0.6),
    test=st.floats(0, 0.39),
    public=st.floats(0, 0.6),
    seed=st.integers(0, 3),
)
def test_every_sample_has_one_place(
    clients: int, validation: float, test: float, public: float, seed: int
) -> None:
    federation = Federation.build(
        numbered(),
        Iid(clients=clients),
        seed=seed,
        split=Split(validation=validation, test=test),
        public=Public(share=public),
    )
    places = [federation.rows(k, part) for k in range(clients) for part in ("train", "validation", "test")]
    places += [rows for rows in (federation.public_train, federation.public_validation) if rows is not None]
    rows = np.concatenate(places)
    assert len(set(rows.tolist())) == len(rows)
    assert set(rows.tolist()) <= set(range(100))
    assert (federation.sizes >= 1).all()
    assert len(federation) == clients


def test_parts_counts_and_pools_agree() -> None:
    federation = Federation.build(
        numbered(), Dirichlet(clients=4, alpha=0.5), split=Split(validation=0.2, test=0.1)
    )
    assert federation.sizes.tolist() == [len(federation.rows(k)) for k in range(4)]
    for part in ("train", "validation", "test"):
        rows, owners = federation.pooled(part)
        assert rows.tolist() == [row for k in range(4) for row in federation.rows(k, part)]
        assert owners.tolist() == [k for k in range(4) for _ in federation.rows(k, part)]
        for k in range(4):
            labels = [row % 5 for row in federation.rows(k, part)]
            assert federation.counts(k, part).tolist() == [labels.count(c) for c in range(5)]
    # 25 samples each: 5 to validate on, 2.5 upwards to test on.
    assert [len(federation.rows(0, part)) for part in ("train", "validation", "test")] == [17, 5, 3]
    assert np.array_equal(federation.all_counts(), [federation.counts(k).tolist() for k in range(4)])


def test_the_public_set_is_taken_out_first() -> None:
    federation = Federation.build(numbered(), Iid(clients=3), public=Public(count=10, validation=0.2))
    assert federation.public_train is not None
    assert federation.public_validation is not None
    assert (len(federation.public_train), len(federation.public_validation)) == (8, 2)
    assert not {*federation.public_train, *federation.public_validation} & set(federation.order.tolist())
    inputs = federation.inputs("public", torch.from_numpy(federation.public_train))
    assert inputs.flatten().tolist() == federation.public_train.tolist()
    with pytest.raises(InputError, match="there is no public set"):
        Federation.build(numbered(), Iid(clients=3)).samples("public")


def test_a_public_set_from_elsewhere_leaves_the_clients_theirs() -> None:
    federation = Federation.build(
        numbered(), Iid(clients=4), public=Public(validation=0.25), public_data=numbered(40)
    )
    assert len(federation.order) == 100
    assert federation.public_train is not None
    assert federation.public_validation is not None
    assert sorted([*federation.public_train, *federation.public_validation]) == list(range(40))
    assert len(federation.public_validation) == 10


def foreign(data: DataSet, **options: Any) -> tuple[list[int], list[int]]:
    """The rows of another data set that the server trains and validates on."""
    federation = Federation.build(
        numbered(), Iid(clients=4), public=Public.model_validate(options), public_data=data
    )
    assert federation.public_train is not None
    assert federation.public_validation is not None
    return federation.public_train.tolist(), federation.public_validation.tolist()


def test_a_separate_public_set_is_chosen_as_configured() -> None:
    labels = np.repeat([0, 1], [90, 10])
    rows = np.arange(100, dtype=np.float32).reshape(-1, 1)
    data = from_arrays(rows, labels, rows, labels, writer_train=np.repeat(np.arange(10), 10))
    train, validation = foreign(data, count=10, balanced=True)
    assert np.bincount(labels[train + validation]).tolist() == [5, 5]
    train, validation = foreign(data, groups=3, min_size=10)
    assert sorted(np.unique(np.array(train + validation) // 10, return_counts=True)[1]) == [10, 10, 10]
    # Halves upwards, and one is always left to train on.
    assert [len(part) for part in foreign(data, share=0.05, validation=0.5)] == [2, 3]
    assert [len(part) for part in foreign(data, count=1, validation=0.9)] == [1, 0]
    assert [len(part) for part in foreign(data, count=100)] == [90, 10]
    with pytest.raises(InputError, match="101 public samples were requested, but there are only 100"):
        foreign(data, count=101)


def test_the_same_seed_gives_the_same_federation() -> None:
    made = [Federation.build(numbered(), Dirichlet(clients=4), seed=seed).checksum() for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


def test_the_checksum_sees_every_part() -> None:
    base: dict[str, Any] = {"seed": 0, "split": Split(validation=0.2), "public": Public(share=0.1)}
    changed = [
        {},
        {"split": Split(validation=0.3)},
        {"split": Split(validation=0.2, test=0.1)},
        {"public": Public(share=0.2)},
        {"public": Public(share=0.1, validation=0.5)},
        {"public": Public()},
    ]
    sums = {
        Federation.build(numbered(), Iid(clients=4), **{**base, **change}).checksum() for change in changed
    }
    assert len(sums) == len(changed)


def test_the_saved_partition_has_the_rows_of_each_client(tmp_path: Path) -> None:
    federation = Federation.build(numbered(), Iid(clients=4), public=Public(share=0.1))
    federation.save(tmp_path / "p.safetensors")
    saved = load_file(tmp_path / "p.safetensors")
    again = Federation(
        federation.data,
        *(saved[name] for name in ("order", "offsets", "train_end", "validation_end")),
        public=federation.public,
        public_train=saved["public_train"],
        public_validation=saved["public_validation"],
    )
    assert again.checksum() == federation.checksum()


def test_a_million_clients_cost_megabytes() -> None:
    clients = 1_000_000
    x = torch.zeros((2 * clients, 1), dtype=torch.uint8)
    y = torch.arange(2 * clients) % 10
    data = DataSet("many", Samples(x, y), Samples(x[:1], y[:1]), 10)
    tracemalloc.start()
    federation = Federation.build(data, Iid(clients=clients))
    kept, peak = tracemalloc.get_traced_memory()
    # Looking at some of them must cost no more than they do.
    tracemalloc.reset_peak()
    for client in range(0, clients, 200_000):
        assert len(federation.rows(client)) == 2
        assert federation.counts(client).sum() == 2
        federation.inputs("clients", torch.from_numpy(federation.rows(client)), client)
    looked = tracemalloc.get_traced_memory()[1] - kept
    tracemalloc.stop()
    # Two rows, three ends, of 8 bytes each.
    assert kept < 60e6
    assert peak < 400e6
    assert looked < 1e6


def test_inputs_keep_their_type_until_a_batch_is_read() -> None:
    data = digits()
    federation = Federation.build(data, Iid(clients=4), dtype=torch.float64)
    assert federation.data.train.x.dtype == torch.uint8
    assert federation.shape == (1, 8, 8)
    assert federation.inputs("clients", torch.tensor([3, 5])).dtype == torch.float64
    assert federation.inputs("test", torch.tensor([0])).shape == (1, 1, 8, 8)


def test_what_is_printed_is_one_short_line() -> None:
    federation = Federation.build(digits(), Iid(clients=4))
    assert repr(federation) == "Federation(4 clients, 1,298 training samples, 10 classes, inputs [1, 8, 8])"
    assert repr(federation.data.test) == "Samples(355 of uint8 [8, 8])"
    parts = "train=Samples(1,442 of uint8 [8, 8]), test=Samples(355 of uint8 [8, 8])"
    assert repr(federation.data) == f"DataSet('digits', {parts}, 10 classes)"


# One's own arrays.


def test_clients_as_the_data_say() -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    y = np.arange(12) % 2
    ids = np.array(list("abcabcabcabc"))
    federation = Federation.from_arrays(x, y, x, y, client_ids=ids, validation=0.0)
    assert len(federation) == 3
    owners = [sorted(ids[federation.rows(k)].tolist()) for k in range(3)]
    assert sorted(owners) == [["a"] * 4, ["b"] * 4, ["c"] * 4]


def test_torch_datasets_are_a_federation_as_their_arrays_are():
    x, y = torch.arange(100.0).reshape(50, 2), torch.arange(50) % 3
    given = torch.utils.data.TensorDataset(x, y)
    options = {"partition": "iid", "clients": 4, "seed": 3}
    for test in (None, given):
        arrays = () if test is None else (x, y)
        from_torch = Federation.from_torch(given, test, **options)
        plain = Federation.from_arrays(x, y, *arrays, **options)
        assert torch.equal(from_torch.data.train.x, plain.data.train.x)
        assert torch.equal(from_torch.data.test.y, plain.data.test.y)
        assert from_torch.rows(2).tolist() == plain.rows(2).tolist()


def test_a_test_share_is_set_aside() -> None:
    federation = Federation.from_arrays(np.zeros((50, 2)), np.arange(50) % 3, partition="iid", clients=4)
    assert len(federation.data.test) == 10
    assert len(federation.data.train) == 40


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"alpha": 0}, "alpha: input should be greater than 0"),
        ({"clients": 1000}, "1,000 clients cannot share"),
        ({"clients": 0}, "clients: input should be greater than or equal to 1"),
        ({"alfa": 1}, "did you mean 'alpha'"),
        ({"partition": "dirichle"}, "did you mean 'dirichlet'"),
        ({"test": 0.0}, "leaves one part empty"),
        ({"test": 1.5}, "leaves one part empty"),
        ({"validation": 1.0}, "must be at least 0 and below 1 together"),
        ({"public": 1.5}, "share: input should be less than 1"),
        ({"public": -0.5}, "share: input should be greater than or equal to 0"),
        ({"x_test": np.zeros((3, 2))}, "x_test and y_test, or neither"),
        ({"y": np.arange(49) % 3}, "x has 50 samples and y 49; they must be equal in length"),
        ({"y": ["cat"] * 50}, "y is text .*; labels must be one integer"),
        ({"x": [[1.0], [1.0, 2.0]] * 25}, "x consists of lists of unequal lengths"),
        ({"x": {"a": [1.0]}}, "x has 1 samples and y 50; they must be equal in length"),
        ({"client_ids": np.zeros(50)}, r"client_ids is float64 \[50\], not 50 integers or strings"),
        ({"client_ids": np.zeros(49, int)}, "not 50 integers or strings"),
        ({"y": np.arange(50) / 3}, "this partition divides by class, but labels are float32"),
        ({"y": np.arange(50) % 3 + 1}, "0 never occurs"),
        ({"y": np.arange(50) % 3 - 1}, "labels must be integers from 0"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, r"x has shape \[0, 2\]; it must be .* not empty"),
    ],
)
def test_bad_arrays_and_options_are_reported_in_one_line(change: dict[str, Any], says: str) -> None:
    values = {"x": np.zeros((50, 2)), "y": np.arange(50) % 3, "clients": 5, **change}
    with pytest.raises(InputError, match=says) as caught:
        Federation.from_arrays(**values)
    assert "\n" not in str(caught.value)


def test_the_test_set_is_divided_by_the_writers_that_are_clients() -> None:
    train, test = np.repeat([3, 5, 8], 10), np.array([8, 3, 9, 5, 5])
    x, y = np.zeros((30, 4), np.float32), np.arange(30) % 2
    data = from_arrays(x, y, x[:5], y[:5], writer_train=train, writer_test=test)
    federation = Federation.build(data, Natural())
    # Writer 9 is no client.
    assert federation.test_owners is not None
    assert federation.test_owners.tolist() == [2, 0, -1, 1, 1]
    shift = FeatureShift(kind="noise", strength=1.0)
    assert Federation.build(data, Natural(), shift=shift).test_owners is None
    assert Federation.build(data, Iid(clients=3)).test_owners is None
    without = from_arrays(x, y, x[:5], y[:5], writer_train=train)
    assert Federation.build(without, Natural()).test_owners is None


def test_writers_that_take_no_part_are_not_tested_on() -> None:
    # Writer 0 is too small for a client, one of the others is public, writer 9 is in the test part alone.
    train = np.repeat([0, 1, 2, 3], [2, 20, 20, 20])
    test = np.array([0, 1, 2, 3, 3, 9])
    x, y = np.zeros((62, 4), np.float32), np.arange(62) % 2
    data = from_arrays(x, y, x[:6], y[:6], writer_train=train, writer_test=test)
    federation = Federation.build(data, Natural(min_size=10), public=Public(groups=1, min_size=10))
    assert federation.public_train is not None
    public = train[federation.public_train[0]]
    assert public in (1, 2, 3)
    assert federation.data.writers_test is not None
    assert federation.data.writers_test.tolist() == [writer for writer in test if writer not in (0, public)]
    assert len(federation.data.test) == len(federation.data.writers_test)
    assert Federation.build(data, Natural()).data is data


def test_each_client_is_the_writer_of_its_samples():
    writers = find_writers(np.array([7, 7, 3, 5, 5, 5]), np.array([0, 2, 3, 6]))
    assert writers is not None
    assert writers.tolist() == [7, 3, 5]


@pytest.mark.parametrize(
    ("writers", "offsets"),
    [
        ([7, 3, 5], [0, 2, 3]),  # a client with samples of two writers
        ([7, 7, 7], [0, 2, 3]),  # a writer at two clients
        ([7, 7], [0, 2, 2]),  # a client without samples
        ([], [0]),  # no clients
    ],
)
def test_otherwise_nobody_is_a_writer(writers, offsets):
    assert find_writers(np.array(writers, np.int64), np.array(offsets)) is None


def test_counts_of_all_clients() -> None:
    y, ids = np.array([0, 1, 2, 0, 2, 0, 2, 1]), np.array([7, 8, 8, 7, 8, 8, 9, 9])
    federation = Federation.from_arrays(
        y[:, None] * 1.0, y, y[:, None] * 1.0, y, client_ids=ids, validation=0.5
    )
    train, validation = federation.all_counts(), federation.all_counts("validation")
    assert train.sum(1).tolist() == [1, 2, 1]
    assert (train + validation).tolist() == [[2, 0, 0], [1, 1, 2], [0, 1, 1]]

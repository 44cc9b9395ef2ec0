"""Data sets from arrays and torch Datasets."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from eunoe.data.arrays import from_arrays, measure_bytes, stack_dataset
from eunoe.errors import InputError


def arrays(**changes):
    good = {
        "x_train": np.arange(24, dtype=np.float32).reshape(6, 4),
        "y_train": np.array([0, 1, 2, 0, 1, 2], np.int32),
        "x_test": np.ones((2, 4), np.float32),
        "y_test": np.array([2, 1], np.uint8),
    }
    return {**good, **changes}


def test_type_is_kept_and_inputs_are_not_copied():
    given = arrays()
    data = from_arrays(**given)
    assert data.train.x.dtype == torch.float32
    assert data.train.x.data_ptr() == given["x_train"].ctypes.data
    assert data.train.y.dtype == data.test.y.dtype == torch.int64
    assert data.test.y.tolist() == [2, 1]
    assert (data.classes, data.mean, data.std, data.writers_train) == (3, None, None, None)


def test_tensors_and_lists_are_taken_too():
    x = torch.eye(2, dtype=torch.float64)
    data = from_arrays(x, torch.tensor([0, 1]), [[1.0, 2.0]], [0], name="mine")
    assert data.train.x.data_ptr() == x.data_ptr()
    assert data.test.x.tolist() == [[1.0, 2.0]]
    assert data.name == "mine"


def test_read_only_reversed_and_foreign_arrays_are_taken_without_a_warning():
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    x.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for odd in (x, x[::-1], x.astype(">f4")):
            assert from_arrays(**arrays(x_train=odd)).train.x.tolist() == odd.tolist()


def test_moments_of_bytes_are_per_channel_of_inputs_scaled_to_one():
    images = np.zeros((2, 1, 2, 3), np.uint8)
    images[..., 0] = 51  # always 0.2
    images[0, ..., 1] = 255  # half 1, half 0
    mean, std = measure_bytes(images)
    assert mean == (0.2, 0.5, 0.0)
    assert std == (1.0, 0.5, 1.0)  # a channel that never varies is not divided by zero
    assert measure_bytes(images[..., 1]) == ((0.5,), (0.5,))


def test_bytes_are_measured_unless_moments_are_given():
    x = np.array([[[0]], [[255]]], np.uint8)
    measured = from_arrays(x, [0, 1], x, [0, 1])
    assert (measured.mean, measured.std) == ((0.5,), (0.5,))
    given = from_arrays(x, [0, 1], x, [0, 1], mean=[0.1], std=[0.2])
    assert (given.mean, given.std) == ((0.1,), (0.2,))


@pytest.mark.parametrize(
    "writers", [([7, 7, 9, 9, 9, 9], [9, 7]), (["b", "b", "c", "c", "c", "c"], ["c", "a"])]
)
def test_writers_are_numbers_kept_or_strings_numbered_alike_in_both_parts(writers):
    data = from_arrays(**arrays(writer_train=writers[0], writer_test=writers[1]))
    expected = ([7, 7, 9, 9, 9, 9], [9, 7]) if writers[0][0] == 7 else ([1, 1, 2, 2, 2, 2], [2, 0])
    assert (data.writers_train.tolist(), data.writers_test.tolist()) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x_train": np.ones((6, 4), np.uint16)},
            "own: x_train is uint16; inputs must be numbers \\(bool, float16",
        ),
        ({"x_train": np.array([["a"]] * 6)}, "own: x_train is text; inputs must be numbers"),
        ({"x_train": np.ones(6, np.float32)}, r"own: x_train has shape \[6\]; it must be \[samples, ...\]"),
        ({"x_test": np.ones((0, 4), np.float32)}, r"own: x_test has shape \[0, 4\]; it must .* not empty"),
        ({"x_train": np.ones((6, 3, 8, 8), np.uint8)}, "must be channels-last"),
        (
            {"x_train": np.full((6, 4), np.nan, np.float32)},
            "own: x_train contains values that are not finite",
        ),
        ({"x_test": np.array([[0, np.inf, 0, 0]] * 2, np.float32)}, "own: x_test .* infinity"),
        ({"y_train": [0] * 6, "y_test": [0] * 2}, "own: every label is 0; there must be at least two"),
        ({"x_test": np.ones((2, 5), np.float32)}, r"x_train is float32 \[4\] but x_test is float32 \[5\]"),
        ({"x_test": np.ones((2, 4))}, "x_train is float32 .* but x_test is float64 .* same type and shape"),
        (
            {"y_train": [0.0] * 6},
            "own: y_train has whole numbers as float64: use integers for classes",
        ),
        ({"y_test": [[0, 1]]}, r"own: y_test is int64 \[1, 2\]; labels must be one integer per sample"),
        ({"y_train": [0, 1]}, "x_train has 6 samples and y_train 2; they must be equal in length"),
        ({"y_test": []}, "y_test is empty"),
        ({"y_test": [0, -1]}, "label -1 is negative; labels must be integers from 0"),
        ({"y_test": [0, 4]}, "labels go up to 4, but 3 never occurs; number them 0..C-1"),
        ({"y_test": [0, 10**12]}, "labels go up to 1000000000000, but 3 never occurs"),
        ({"classes": 2}, "label 2 is too large; 2 classes are 0..1"),
        ({"class_names": ["a"]}, "1 class names for 3 classes"),
        ({"mean": [0.5]}, "pass both mean and std, or neither"),
        (
            {"writer_train": [1]},
            r"writer_train is int64 \[1\], not 6 integers or strings",
        ),
        (
            {"x_train": [[1.0], [1.0, 2.0]] * 3},
            "own: x_train consists of lists of unequal lengths; samples",
        ),
        ({"x_train": {"a": 1}}, r"own: x_train\['a'\] has shape \[\]; it must be \[samples, ...\]"),
        (
            {"x_train": torch.zeros(6, 4, dtype=torch.bfloat16)},
            "x_train consists of a Tensor that NumPy lacks",
        ),
        (
            {"y_train": ["cat"] * 6},
            "own: y_train is text \\[6\\]; labels must be one integer",
        ),
        ({"writer_test": [0.5, 1]}, r"writer_test is float64 \[2\], not 2 integers or strings"),
        ({"writer_train": [1] * 6, "writer_test": ["a", "b"]}, "must both be integers or both be strings"),
    ],
)
def test_errors_are_reported(changes, message):
    with pytest.raises(InputError, match=message):
        from_arrays(**arrays(**changes))


def test_absent_classes_are_fine_if_their_number_is_given():
    assert from_arrays(**arrays(y_test=[0, 4]), classes=7).classes == 7


class Pairs(torch.utils.data.Dataset):
    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        return self.pairs[i]


def test_torch_datasets_of_tensors_arrays_and_pictures():
    tensors = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))
    x, y = stack_dataset(tensors, "train")
    assert x.ctypes.data == tensors.tensors[0].data_ptr()
    assert y.tolist() == [0, 1, 0]
    x, y = stack_dataset(Pairs([(torch.tensor([7.0, 8.0]), torch.tensor(1))]), "test")
    assert (x.tolist(), y.tolist()) == ([[7.0, 8.0]], [1])
    picture = Image.fromarray(np.full((2, 3), 9, np.uint8))
    x, y = stack_dataset(Pairs([(picture, 0), (np.zeros((2, 3), np.uint8), 1)]), "train")
    assert (x.dtype, x.shape) == (np.uint8, (2, 2, 3))
    assert x[:, 0, 0].tolist() == [9, 0]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(2), 0)])


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (Stream(), "train must be a torch Dataset with a length and numbered samples"),
        (Pairs([]), r"train must consist of \(input, label\) pairs, at least one"),
        (Pairs([torch.zeros(2)]), r"train must consist of \(input, label\) pairs"),
        (
            Pairs([(torch.zeros(2, 2), 0), (torch.zeros(3, 3), 0)]),
            "train has samples of different shapes; only the first dimension may differ",
        ),
        (
            Pairs([(torch.zeros(2), 0), (torch.zeros(2), [0, 1])]),
            "cannot be stacked into one array",
        ),
    ],
)
def test_torch_datasets_that_will_not_do(train, message):
    with pytest.raises(InputError, match=message):
        stack_dataset(train, "train")

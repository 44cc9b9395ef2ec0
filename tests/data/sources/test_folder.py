"""Folders of pictures."""

import numpy as np
import pytest
import torch
from PIL import Image

from eunoe.data.sources.images import folder
from eunoe.errors import InputError


def put(root, name, value, size=(2, 3), mode="RGB"):
    """A picture of one gray value; the size is height, width."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(size, value, np.uint8)).convert(mode).save(path)


@pytest.fixture
def root(tmp_path):
    put(tmp_path, "train/dog/2.png", 20)
    put(tmp_path, "train/dog/1.png", 10)
    put(tmp_path, "train/cat/b.jpg", 40)
    put(tmp_path, "train/cat/deeper/a.bmp", 30)
    put(tmp_path, "test/dog/1.png", 50)
    (tmp_path / "train/cat/.DS_Store").write_bytes(b"no picture")
    (tmp_path / "train/.cache").mkdir()
    return tmp_path


def test_classes_and_files_come_in_the_order_of_their_names(root):
    data = folder(root)
    assert data.class_names == ("cat", "dog")
    assert data.train.y.tolist() == [0, 0, 1, 1]
    assert tuple(data.train.x.shape) == (4, 2, 3, 3)
    assert data.train.x.dtype == torch.uint8
    assert data.train.x[:, 0, 0, 0].tolist() == [40, 30, 10, 20]  # b.jpg comes before deeper/a.bmp
    assert (data.test.x.unique().tolist(), data.test.y.tolist()) == ([50], [1])
    assert data.name == root.name


def test_gray_pictures_have_no_channel(tmp_path):
    for name in ("train/a/1.png", "test/a/1.png"):
        put(tmp_path, name, 9, mode="L")
    assert tuple(folder(tmp_path).train.x.shape) == (1, 2, 3)
    assert tuple(folder(tmp_path, mode="RGB").train.x.shape) == (1, 2, 3, 3)


def test_size_brings_all_to_one_height_and_width(root):
    put(root, "train/cat/large.png", 60, (20, 30))
    with pytest.raises(
        InputError, match=r"large.png is 20 x 30 but .*b.jpg is 2 x 3; set a size to resize them"
    ):
        folder(root)
    assert tuple(folder(root, size=(4, 5)).train.x.shape) == (5, 4, 5, 3)
    square = folder(root, size=4).train.x
    assert tuple(square.shape) == (5, 4, 4, 3)
    assert square[2].unique().tolist() == [60]


def test_gray_among_colored_needs_a_choice(root):
    put(root, "train/dog/gray.png", 9, mode="L")
    with pytest.raises(InputError, match=r"gray.png is gray but .*b.jpg is colored; set mode to RGB or L"):
        folder(root)
    assert tuple(folder(root, mode="L").train.x.shape) == (5, 2, 3)


def test_errors_are_reported(root, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(InputError, match="has no folder train/; it needs train/<class>/ and test/<class>/"):
        folder(empty)
    (empty / "train").mkdir()
    (empty / "test").mkdir()
    with pytest.raises(InputError, match="train has no folders; there must be one per class"):
        folder(empty)
    (empty / "train" / "a").mkdir()
    with pytest.raises(InputError, match=r"train has no images; put them in .*train/<class>/"):
        folder(empty)
    (root / "train" / "eel").mkdir()
    with pytest.raises(InputError, match="train/eel has no images; every class needs training images"):
        folder(root)
    (root / "train" / "eel").rmdir()
    put(root, "test/dogs/1.png", 1)
    with pytest.raises(InputError, match="dogs has no training images; did you mean 'dog'"):
        folder(root)


def test_a_file_that_is_no_picture_is_named(root):
    (root / "train/cat/notes.txt").write_text("cats")
    with pytest.raises(InputError, match=r"notes.txt is not an image Pillow can read"):
        folder(root)


def test_sixteen_bits_are_refused_rather_than_cut(tmp_path):
    for name in ("train/a/1.png", "test/a/1.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        Image.fromarray(np.full((2, 2), 1000, np.uint16)).save(path)
    with pytest.raises(InputError, match=r"1.png has pixels of type I;16; only 8-bit channels"):
        folder(tmp_path)

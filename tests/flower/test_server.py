"""A server's files may be damaged; that is an error of one line."""

import os

import pytest

pytest.importorskip("flwr")

import torch
from safetensors.torch import save_file

from eunoe.errors import Damaged
from eunoe.flower.server import load_run_name, read_declared_sizes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"run": 5}',
        b'{"run": "../up"}',
        b'{"run": ""}',
        b'{"run": "%s"}' % (b"a" * 300),
        b"\xff",
    ],
)
def test_a_damaged_name_of_the_run(tmp_path, content):
    (tmp_path / "flower.json").write_bytes(content)
    with pytest.raises(Damaged, match=r"flower\.json"):
        load_run_name(tmp_path)


def test_the_name_of_a_run_is_kept(tmp_path):
    name = load_run_name(tmp_path)
    assert load_run_name(tmp_path) == name
    assert load_run_name(tmp_path / "another") != name


@pytest.mark.parametrize("sizes", [[[1, 2]], [1.5, 2.0], [5, 0], [-5, 3], 3])
def test_damaged_sizes_of_the_clients(tmp_path, sizes):
    save_file({"declared": torch.tensor(sizes)}, tmp_path / "partition.safetensors")
    with pytest.raises(Damaged, match=r"partition\.safetensors does not have the sizes of the clients"):
        read_declared_sizes(tmp_path)


def test_the_file_of_the_sizes_is_damaged(tmp_path):
    assert read_declared_sizes(tmp_path) is None
    path = tmp_path / "partition.safetensors"
    for make in (os.mkfifo, os.mkdir, lambda path: path.write_bytes(b"nonsense" * 50)):
        make(path)
        with pytest.raises(Damaged, match=r"partition\.safetensors"):
            read_declared_sizes(tmp_path)
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    save_file({"declared": torch.tensor([3, 4])}, path)
    assert read_declared_sizes(tmp_path).tolist() == [3, 4]

"""Data sets from the hub, against small files of its schema; the hub's own client against a server here."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pytest
from huggingface_hub import constants
from hypothesis import given
from hypothesis import strategies as st

from eunoe.data.sources.hub import HubSpec, RemoteFile, fetch, hub, split_files
from eunoe.data.sources.npz import npz, read_npz
from eunoe.data.split import fixed_test_rows
from eunoe.errors import InputError
from tests.data.fake_hub import COMMIT, FakeHub, fetch_from, parquet, pictures, png


def images(count, start=0, size=(2, 2)):
    return [np.full(size, start + i, np.uint8) for i in range(count)]


def labeled(count, start=0, **more):
    columns = {"image": pictures(images(count, start)), "label": pa.array([i % 2 for i in range(count)])}
    return parquet({**columns, **more}, {"label": ["cat", "dog"]})


@pytest.fixture
def files():
    return {
        "README.md": b"hello",
        "default/train/0000.parquet": labeled(3),
        "default/train/0001.parquet": labeled(2, 10),
        "default/test/0000.parquet": labeled(4, 20),
    }


def test_all_files_of_a_split_are_read_in_order_and_kept_with_a_record(tmp_path, files):
    target, client = tmp_path / "new" / "cats.npz", FakeHub(files)
    fetch_from(client, HubSpec("me/cats"), target)
    data = npz(target)
    assert data.train.x[:, 0, 0].tolist() == [0, 1, 2, 10, 11]
    assert data.train.y.tolist() == [0, 1, 0, 0, 1]
    assert data.test.x[:, 0, 0].tolist() == [20, 21, 22, 23]
    assert (tuple(data.train.x.shape), data.class_names) == ((5, 2, 2), ("cat", "dog"))
    record = json.loads(target.with_suffix(".json").read_text())
    assert (record["repo"], record["revision"], record["commit"]) == (
        "me/cats",
        "refs/convert/parquet",
        COMMIT,
    )
    assert record["files"][1] == {
        "path": "default/train/0001.parquet",
        "bytes": len(files["default/train/0001.parquet"]),
        "sha256": hashlib.sha256(files["default/train/0001.parquet"]).hexdigest(),
    }
    assert {path.name for path in target.parent.iterdir()} == {"cats.npz", "cats.json"}


def test_splits_are_merged_in_the_order_given(tmp_path, files):
    files["default/validation/0000.parquet"] = labeled(1, 99)
    fetch_from(FakeHub(files), HubSpec("me/cats", train=("validation", "train")), tmp_path / "a.npz")
    assert npz(tmp_path / "a.npz").train.x[:, 0, 0].tolist() == [99, 0, 1, 2, 10, 11]


def test_clients_are_numbered_alike_in_both_parts(tmp_path):
    content = {
        "default/train/0000.parquet": labeled(3, who=pa.array(["zoe", "ann", "zoe"])),
        "default/test/0000.parquet": labeled(2, who=pa.array(["bob", "zoe"])),
    }
    fetch_from(FakeHub(content), HubSpec("me/cats", client="who"), tmp_path / "a.npz")
    data = npz(tmp_path / "a.npz")
    assert (data.writers_train.tolist(), data.writers_test.tolist()) == ([2, 0, 2], [1, 2])


def test_without_a_test_split_a_share_of_each_client_is_held_out(tmp_path):
    writers = ["ann"] * 10 + ["bob"] * 21 + ["cy"] * 3
    content = {"data/train-00000-of-00001.parquet": labeled(34, who=pa.array(writers))}
    for name in "ab":
        source = HubSpec("me/cats", test=(), client="who", held_out=20)
        fetch_from(FakeHub(content), source, tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    data = npz(tmp_path / "a.npz")
    assert np.bincount(data.writers_test, minlength=3).tolist() == [2, 4, 0]
    assert np.bincount(data.writers_train, minlength=3).tolist() == [8, 17, 3]
    values = data.train.x[:, 0, 0].tolist()
    assert values == sorted(values)
    assert sorted(values + data.test.x[:, 0, 0].tolist()) == list(range(34))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=200), st.integers(0, 99))
def test_held_out_is_the_rounded_down_share_of_every_group(groups, percent):
    groups = np.array(groups, np.int64)
    chosen = fixed_test_rows(groups, percent)
    for group in np.unique(groups):
        members = groups == group
        assert chosen[members].sum() == members.sum() * percent // 100
    assert np.array_equal(chosen, fixed_test_rows(groups, percent))


def test_gray_and_colored_are_brought_to_the_mode_given(tmp_path, files):
    mixed = pictures([np.full((2, 2, 3), 9), png(np.full((2, 2), 7), "L")])
    files["default/train/0000.parquet"] = parquet({"image": mixed, "label": [0, 1]})
    with pytest.raises(InputError, match=r"column 'image', row 1 is gray but .* row 0 is colored; set mode"):
        fetch_from(FakeHub(files), HubSpec("me/cats"), tmp_path / "a.npz")
    fetch_from(FakeHub(files), HubSpec("me/cats", mode="RGB"), tmp_path / "a.npz")
    assert npz(tmp_path / "a.npz").train.x[:2, 0, 0].tolist() == [[9, 9, 9], [7, 7, 7]]


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [
        (pa.array([[0.5, 1.5], [2.5, 3.5]], pa.list_(pa.float32())), np.float32, (2, 2)),
        (pa.array([[[1, 2, 3]], [[4, 5, 6]]], pa.list_(pa.list_(pa.int16(), 3), 1)), np.int16, (2, 1, 3)),
    ],
)
def test_lists_of_numbers_keep_their_type(tmp_path, values, dtype, shape):
    file = parquet({"signal": values, "label": [0, 1]})
    content = {"default/train/0000.parquet": file, "default/test/0000.parquet": file}
    fetch_from(FakeHub(content), HubSpec("me/signals", image="signal"), tmp_path / "a.npz")
    x = read_npz(tmp_path / "a.npz")["x_train"]
    assert (x.dtype, x.shape) == (dtype, shape)
    assert x.tolist() == values.to_pylist()


def cell(image=None, label=0, more=None):
    good = pictures(images(1)) if image is None else image
    return parquet(
        {"image": good, "label": label if isinstance(label, pa.Array) else [label], **(more or {})}
    )


@pytest.mark.parametrize(
    ("file", "source", "message"),
    [
        (
            cell(),
            HubSpec("me/cats", image="img"),
            "default--train--0000.parquet has no column 'img'; did you mean 'image'",
        ),
        (cell(), HubSpec("me/cats", label="lable"), "has no column 'lable'; did you mean 'label'"),
        (cell(), HubSpec("me/cats", client="writer"), "has no column 'writer'"),
        (
            cell(label=pa.array(["cat"])),
            HubSpec("me/cats"),
            "column 'label' is string; labels must be integers",
        ),
        (cell(label=pa.array([None], pa.int64())), HubSpec("me/cats"), "column 'label' has empty cells"),
        (cell(label=-1), HubSpec("me/cats"), "hub data set me/cats: label -1 is negative"),
        (cell(label=7), HubSpec("me/cats"), "hub data set me/cats: label 7 is too large; 2 classes"),
        (
            cell(more={"who": [0.5]}),
            HubSpec("me/cats", client="who"),
            "column 'who' is double; client ids must be",
        ),
        (cell(pictures([b"no picture"])), HubSpec("me/cats"), "row 0 is not an image Pillow can read"),
        (cell(pa.array([{"bytes": None, "path": "a.png"}])), HubSpec("me/cats"), "rows have no bytes"),
        (
            cell(pa.array(["text"])),
            HubSpec("me/cats"),
            "rows are string; images or lists of numbers are needed",
        ),
        (
            cell(pa.array([3.0])),
            HubSpec("me/cats"),
            "rows are double; images or lists of numbers are needed",
        ),
        (cell(pictures(images(1, size=(3, 3)))), HubSpec("me/cats"), "3 x 3; set a size"),
        (
            parquet({"image": pa.array([[1], [1, 2]]), "label": [0, 1]}),
            HubSpec("me/cats"),
            "lists of unequal length",
        ),
    ],
)
def test_bad_content_is_reported_and_nothing_is_kept(tmp_path, files, file, source, message):
    files = {
        "default/train/0000.parquet": file,
        "default/test/0000.parquet": files["default/test/0000.parquet"],
    }
    with pytest.raises(InputError, match=message):
        fetch_from(FakeHub(files), source, tmp_path / "a.npz", classes=2)
    assert list(tmp_path.iterdir()) == []


def test_lists_whose_length_changes_between_files_and_empty_files(tmp_path):
    content = {
        "default/train/0000.parquet": parquet({"image": pa.array([[1, 2]]), "label": [0]}),
        "default/train/0001.parquet": parquet({"image": pa.array([[1, 2, 3]]), "label": [0]}),
        "default/test/0000.parquet": parquet({"image": pa.array([], pa.list_(pa.int64())), "label": []}),
    }
    with pytest.raises(InputError, match=r"rows change shape from \[2\] to \[3\]"):
        fetch_from(FakeHub(content), HubSpec("me/cats"), tmp_path / "a.npz")
    del content["default/train/0001.parquet"]
    with pytest.raises(InputError, match="no rows; at least one is needed"):
        fetch_from(FakeHub(content), HubSpec("me/cats"), tmp_path / "a.npz")


def test_wrong_numbers_of_rows_are_refused(tmp_path, files):
    with pytest.raises(
        InputError, match="me/cats has 5 training and 4 test rows, not 6 and 4; use another revision"
    ):
        fetch_from(FakeHub(files), HubSpec("me/cats"), tmp_path / "a.npz", rows=(6, 4))
    fetch_from(FakeHub(files), HubSpec("me/cats"), tmp_path / "a.npz", rows=(5, 4))


def test_a_damaged_file_is_refused(tmp_path, files):
    with pytest.raises(InputError, match=r"default/train/0000.parquet of .* is corrupt \(SHA-256 mismatch\)"):
        fetch_from(FakeHub(files, damaged=True), HubSpec("me/cats"), tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def remote(*paths):
    return [RemoteFile(path, 1, None) for path in paths]


def test_both_layouts_are_understood():
    theirs = remote(
        "plain/train/0001.parquet", "plain/train/0000.parquet", "plain/test/0000.parquet", "a.txt"
    )
    assert [f.path for f in split_files(theirs, "train", HubSpec("o/n"))] == [
        "plain/train/0000.parquet",
        "plain/train/0001.parquet",
    ]
    owners = remote(
        "data/train-00001-of-00002.parquet", "data/train-00000-of-00002-ab12.parquet", "test.parquet"
    )
    assert [f.path for f in split_files(owners, "train", HubSpec("o/n"))] == [
        "data/train-00000-of-00002-ab12.parquet",
        "data/train-00001-of-00002.parquet",
    ]
    assert [f.path for f in split_files(owners, "test", HubSpec("o/n"))] == ["test.parquet"]


def test_missing_splits_and_ambiguous_configs():
    some = remote("small/train/0000.parquet", "large/train/0000.parquet", "large/valid/0000.parquet")
    with pytest.raises(InputError, match="o/n has no split 'test'; it has train, valid"):
        split_files(some, "test", HubSpec("o/n"))
    with pytest.raises(InputError, match="o/n: set config to one of large, small"):
        split_files(some, "train", HubSpec("o/n"))
    assert split_files(some, "train", HubSpec("o/n", config="small")) == some[:1]
    with pytest.raises(InputError, match="has no split 'train'; it has no parquet files"):
        split_files(remote("a.csv"), "train", HubSpec("o/n"))


def test_a_hub_data_set_of_ones_own_is_fetched_once(tmp_path, files, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    client = FakeHub(files)
    with client.serving():
        first = hub("me/cats", revision="v1")
        second = hub("me/cats", revision="v1")
        assert client.requests == [("me/cats", "v1")]
        assert first.name == "hf:me/cats"
        assert first.train.x.equal(second.train.x)
        assert len(hub("me/cats", train=("train", "test"), revision="v1", held_out=50).train) == 5
        hub("me/cats", revision="v1", held_out=40)
    assert len(client.requests) == 3
    assert len(list((tmp_path / "hub").glob("me--cats-*.npz"))) == 3


class Server(BaseHTTPRequestHandler):
    """As much of the hub's HTTP interface as listing and streaming files needs."""

    content: dict[str, bytes] = {}  # noqa: RUF012

    def do_GET(self):
        path = self.path.split("?")[0]
        listing = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"size": len(data), "sha256": _sha(data), "pointerSize": 1},
            }
            for name, data in self.content.items()
        ]
        if path.startswith("/api/datasets/me/cats/revision/"):
            self.answer(
                json.dumps({"id": "me/cats", "sha": COMMIT, "siblings": listing, "tags": []}).encode()
            )
        elif path.startswith(f"/datasets/me/cats/resolve/{COMMIT}/"):
            self.answer(self.content[path.removeprefix(f"/datasets/me/cats/resolve/{COMMIT}/")])
        else:
            self.answer(b"{}", 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        found = [
            {"type": "file", "path": name, "size": len(data), "oid": "0" * 40}
            for name, data in self.content.items()
            if name.rsplit("/", 1)[1] in body
        ]
        self.answer(json.dumps(found).encode())

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def _sha(data):
    return hashlib.sha256(data).hexdigest()


def test_the_real_client_lists_and_streams(tmp_path, files, monkeypatch):
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    del files["README.md"]
    Server.content = files
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE
        template = template.replace("https://huggingface.co", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        fetch(HubSpec("me/cats"), tmp_path / "a.npz", revision="refs/convert/parquet")
        assert npz(tmp_path / "a.npz").train.x[:, 0, 0].tolist() == [0, 1, 2, 10, 11]
        with pytest.raises(InputError, match="the download of hub data set you/dogs failed"):
            fetch(HubSpec("you/dogs"), tmp_path / "b.npz")
    finally:
        server.shutdown()
        server.server_close()


def test_no_split_is_both_trained_and_tested_on(tmp_path, files):
    with pytest.raises(InputError, match=r"me/cats: a split is named twice in train, test, test"):
        fetch_from(FakeHub(files), HubSpec("me/cats", train=("train", "test")), tmp_path / "a.npz")

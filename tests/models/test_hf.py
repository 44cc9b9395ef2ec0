"""Networks of the transformers library: adapters alone travel, and every engine has the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from eunoe.core.fields import Fields, gather
from eunoe.data.loading import load
from eunoe.data.sources.text import Tokenizer
from eunoe.errors import InputError
from eunoe.models.hf import BIDIRECTIONAL, HF, Lora
from eunoe.simulation.export import export_model
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import list_checkpoints
from tests.models.tiny_hf import tiny_folder, tiny_texts, tiny_values
from tests.small_runs import Stopped, bits, stop_after

# Of both layers' query and value, 2 x 16 each way, and a classifier of 3 classes.
TRAINED = 2 * 2 * (2 * 16 + 16 * 2) + 3 * 17


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_only_adapters_and_classifier_travel_and_engines_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = tiny_values(tmp_path)
    serial = run(values, out=tmp_path / "serial")
    assert {record["bytes_up"] for record in serial.records} == {3 * 4 * TRAINED}
    saved = load_file(list_checkpoints(serial.folder)[-1])
    assert max(value.numel() for value in saved.values()) == TRAINED
    frozen = [p for p in serial.model().parameters() if not p.requires_grad]
    assert sum(p.numel() for p in frozen) > 4000
    assert serial.records[-1]["test"]["loss"] < serial.records[0]["test"]["loss"]
    process = run({**values, "engine": "process"}, out=tmp_path / "process")
    assert bits(process.folder) == bits(serial.folder)
    vectorized = run({**values, "engine": "vectorized"}, out=tmp_path / "vectorized")
    assert "one after the other" not in caplog.text
    assert (vectorized.weights().parameters - serial.weights().parameters).abs().max() < 1e-5
    with pytest.raises(Stopped):
        run(values, out=tmp_path / "stopped", on_round=stop_after(1))
    resume(tmp_path / "stopped")
    assert bits(tmp_path / "stopped") == bits(serial.folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", b"x" * 100),
        ("model.safetensors", b""),
        ("pytorch_model.bin", b"x" * 100),
        ("config.json", b"null"),
        ("config.json", b'{"model_type": "bert", "hidden_act": "none"}'),
    ],
)
def test_a_damaged_folder_is_an_error_of_one_line(tmp_path: Path, file: str, content: bytes) -> None:
    folder = tiny_folder(tmp_path / "bert")
    (folder / file).write_bytes(content)
    with pytest.raises(InputError, match="cannot be loaded"):
        HF(3, **{"from": str(folder)})


def test_without_adapters_all_is_trained(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "bert")
    model = HF(3, random=True, dropout=0.0, **{"from": str(folder)})
    assert all(p.requires_grad for p in model.parameters())
    ids, mask = torch.tensor([[2, 5, 3], [2, 3, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    assert torch.allclose(model(ids, mask)[1], model(ids[1:, :2])[0], atol=1e-6)


def tiny_classifier(folder: Path, kind: str) -> HF:
    """A network of an architecture with random weights, all of them large enough to matter."""
    from transformers import AutoConfig

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "type_vocab_size": 1,
    }
    if kind in ("distilbert", "gpt2"):
        names = ("n_embd", "n_layer", "n_head") if kind == "gpt2" else ("dim", "n_layers", "n_heads")
        sizes = dict(zip(names, (16, 2, 2), strict=True))
    more = {"vocab_size": 24, "max_position_embeddings": 40, "pad_token_id": 0}
    AutoConfig.for_model(kind, **sizes, **more).save_pretrained(folder)
    torch.manual_seed(0)
    model = HF(3, random=True, dropout=0.0, **{"from": str(folder)})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("kind", BIDIRECTIONAL)
def test_under_vmap_padding_is_hidden_and_nothing_else(tmp_path: Path, kind: str) -> None:
    model = tiny_classifier(tmp_path, kind)
    ids, mask = torch.randint(3, 24, (2, 2, 7)), torch.ones(2, 2, 7, dtype=torch.int64)
    ids[:, 1, 4:] = mask[:, 1, 4:] = 0
    with torch.no_grad():
        one_by_one = torch.stack([model(*both) for both in zip(ids, mask, strict=True)])
        torch.testing.assert_close(torch.func.vmap(model)(ids, mask), one_by_one, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(model(ids[0]), one_by_one[0], atol=1e-2)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_causal_networks_train_one_after_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    values = tiny_values(tmp_path)
    tiny_classifier(tmp_path / kind, kind)
    values["model"] = {"name": "hf", "from": str(tmp_path / kind), "random": True, "dropout": 0.0}
    serial = run(values, rounds=1, out=tmp_path / "serial")
    vectorized = run(values, rounds=1, engine="vectorized", out=tmp_path / "vectorized")
    assert f"not for '{kind}'" in caplog.text
    assert torch.equal(vectorized.weights().parameters, serial.weights().parameters)


PLAIN = """
import json, sys, torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
folder, base, texts = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if base:
    from peft import PeftModel
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    model = PeftModel.from_pretrained(model, folder)
else:
    model = AutoModelForSequenceClassification.from_pretrained(folder)
tokens = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
tokens.pop("token_type_ids", None)
names = {int(number): name for number, name in model.config.id2label.items()}
print(json.dumps(model.eval()(**tokens).logits.argmax(1).tolist()), json.dumps(names[0]))
assert "eunoe" not in sys.modules
"""


def plain(folder: Path, base: str, texts: list[str]) -> str:
    """What transformers alone predicts, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(folder), base, json.dumps(texts)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.slow
def test_exports_load_in_transformers_and_peft(tmp_path: Path) -> None:
    values = tiny_values(tmp_path)
    texts = [line.split(",")[0] for line in (tmp_path / "texts.csv").read_text().splitlines()[1:21]]
    done = run(values, out=tmp_path / "run")
    export_model(done, tmp_path / "merged", merged=True)
    tokens = Tokenizer(str(tmp_path / "bert"), 32).encode(texts)
    named = done.predict(texts).tolist()
    assert done.predict(dict(zip(tokens.labels, tokens.values, strict=True))).tolist() == named
    names = done.simulation.federation.data.class_names
    mine = [names.index(name) for name in named]
    assert plain(tmp_path / "merged", "", texts) == f'{json.dumps(mine)} "class 0"'
    with pytest.raises(InputError, match=r"the frozen weights of this model are random: .* with --merged"):
        export_model(done, tmp_path / "adapters")
    with pytest.raises(InputError, match="exists; name a new folder"):
        export_model(done, tmp_path / "merged", merged=True)
    # A network whose weights are on disk: the merged one of before.
    base = {**values["model"], "from": str(tmp_path / "merged"), "random": False}
    second = run({**values, "model": base}, out=tmp_path / "second")
    export_model(second, tmp_path / "adapters")
    export_model(second, tmp_path / "both", merged=True)
    assert sum(f.stat().st_size for f in (tmp_path / "adapters").glob("*.safetensors")) < 8 * 4 * TRAINED
    one = plain(tmp_path / "adapters", str(tmp_path / "merged"), texts)
    assert one.split("]")[0] == plain(tmp_path / "both", "", texts).split("]")[0]


PROGRAM = """
import sys, torch
class Absent:
    def find_spec(self, name, *_):
        if name.split(".")[0] in ("eunoe", "transformers", "peft"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
program = torch.export.load(sys.argv[1]).module()
batches = torch.load(sys.argv[2])
torch.save([program(*batch) for batch in batches], sys.argv[3])
"""


@pytest.mark.parametrize(
    "kind",
    ["bert", pytest.param("roberta", marks=pytest.mark.slow), pytest.param("gpt2", marks=pytest.mark.slow)],
)
def test_a_program_needs_no_transformers(tmp_path: Path, kind: str) -> None:
    """Batches of other sizes and lengths than the one that it was made with, and one without padding."""
    values = tiny_values(tmp_path)
    if kind != "bert":
        tiny_classifier(tmp_path / kind, kind)
        values["model"] = {"name": "hf", "from": str(tmp_path / kind), "random": True, "dropout": 0.0}
    done = run(values, rounds=1, out=tmp_path / "run")
    export_model(done, tmp_path / "last.pt2", raw=True)
    test = done.simulation.federation.data.test
    batches = [gather(test.x, torch.tensor(rows)) for rows in (list(range(len(test))), [3], [5, 0, 7])]
    torch.save([batch.values for batch in batches], tmp_path / "batches.pt")
    files = [str(tmp_path / name) for name in ("last.pt2", "batches.pt", "logits.pt")]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *files], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = torch.load(tmp_path / "logits.pt")
    for batch, logits in zip(batches, found, strict=True):
        torch.testing.assert_close(logits, done.model(raw=True)(*batch.values))
    accuracy = (found[0].argmax(1) == test.y).double().mean().item()
    assert accuracy == pytest.approx(done.records[-1]["test"]["accuracy"])
    assert json.loads((tmp_path / "last.json").read_text())["model"]["name"] == "hf"


def test_text_is_tokenized_once_and_kept_as_integers(tmp_path: Path) -> None:
    folder, path = tiny_folder(tmp_path / "bert"), tiny_texts(tmp_path / "texts.csv", 20)
    first = load("text", path=str(path), tokenizer=str(folder), length=6)
    (kept,) = (tmp_path / "data" / "tokens").glob("*.npz")
    assert isinstance(first.train.x, Fields)
    ids, mask = first.train.x.values
    assert (ids.values.dtype, mask.values.dtype, ids.longest) == (torch.int16, torch.bool, 6)
    assert first.train.x.names == ("input_ids", "attention_mask")
    assert ids.values[0] == 2
    assert int(ids.values[ids.offsets[1] - 1]) == 3
    assert first.vocabulary == 24
    kept.touch()
    stamp = kept.stat().st_mtime_ns
    again = load("text", path=str(path), tokenizer=str(folder), length=6)
    assert isinstance(again.train.x, Fields)
    assert again.train.x.values[0].values.equal(ids.values)
    assert kept.stat().st_mtime_ns == stamp
    load("text", path=str(path), tokenizer=str(folder), length=5)
    assert len(list((tmp_path / "data" / "tokens").glob("*.npz"))) == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"from": ""}, "model 'hf' needs the option 'from'"),
        ({"from": "nobody/nothing"}, "nobody/nothing cannot be loaded"),
        ({"random": False}, "cannot be loaded .*random = true"),
        ({"lora": {"targets": ["query", "nowhere"]}}, r"lora.targets = \['nowhere'\] match no layer"),
        (
            {"lora": {"targets": ["nowhere"]}},
            r"lora.targets = .* match no layer; .*query, value",
        ),
        ({"lora": {"rank": 3}}, "rank"),
        ({"form": "x"}, "model 'hf' has no option 'form'"),
        ({"dropout": 1.5}, "dropout"),
    ],
)
def test_models_that_cannot_be(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    values = tiny_values(tmp_path)
    with pytest.raises(InputError, match=says):
        run({**values, "model": {**values["model"], **change}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_tokenizers_that_cannot_be(tmp_path: Path) -> None:
    path, folder = tiny_texts(tmp_path / "texts.csv", 20), tiny_folder(tmp_path / "bert", vocab_size=10)
    with pytest.raises(InputError, match="cannot load tokenizer nobody/nothing"):
        load("text", path=str(path), tokenizer="nobody/nothing")
    with pytest.raises(InputError, match=r"the data have 24 token ids, but .* has 10"):
        HF(3, 24, random=True, lora=Lora(), **{"from": str(folder)})


@pytest.mark.parametrize(
    ("data", "random", "says"),
    [
        ({"name": "text"}, False, "takes token ids, not numbers of words in the training part: set the data"),
        ({"name": "table"}, True, r"takes token ids, not float32 \[2\]: set the data"),
    ],
)
def test_inputs_that_are_no_ids_of_the_model_are_refused(
    tmp_path: Path, data: dict[str, Any], random: bool, says: str
) -> None:
    bert, texts = tiny_folder(tmp_path / "bert"), tiny_texts(tmp_path / "texts.csv", 40)
    rows = "".join(f"{number},{number % 7},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "rows.csv").write_text("size,age,label\n" + rows)
    path = texts if data["name"] == "text" else tmp_path / "rows.csv"
    values = {
        "data": {**data, "path": str(path), "label": "label"},
        "partition": {"name": "iid", "clients": 2},
        "model": {"name": "hf", "from": str(bert), "random": random},
    }
    with pytest.raises(InputError, match=says):
        run(values, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()

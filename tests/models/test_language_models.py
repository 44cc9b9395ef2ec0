"""Language models: blocks of text, numbers by hand, the same bits everywhere, adapters, generated text."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.analysis.comparison import Comparison
from eunoe.core.tasks import LANGUAGE_MODEL
from eunoe.data.loading import load
from eunoe.errors import InputError
from eunoe.metrics import Evaluation, Predictions, Snapshot
from eunoe.metrics.retention import Retention
from eunoe.metrics.standard import Perplexity
from eunoe.metrics.sums import compute_sums, metrics_from_sums, validate_sums
from eunoe.models.char_gpt import CharGPT
from eunoe.report.figures import all_figures
from eunoe.simulation.export import export_model
from eunoe.simulation.running import resume, run
from tests.models.tiny_hf import WORDS, tiny_folder
from tests.small_runs import FAST, Stopped, bits, stop_after

LENGTH = 8


def speeches(path: Path, words: list[str] = WORDS, speakers: int = 4) -> Path:
    """Speeches in which each word is followed by the next one."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["part", "who", "text"])
        for row in range(speakers * 12):
            first, many = rng.integers(len(words)), 8 + row % 5
            text = " ".join(words[(first + place) % len(words)] for place in range(many))
            writer.writerow(
                ["test" if row // speakers % 4 == 3 else "train", f"speaker {row % speakers}", text]
            )
    return path


def source(path: Path, **more: Any) -> dict[str, Any]:
    return {
        "name": "text",
        "path": str(path),
        "client": "who",
        "part": "part",
        "unit": "characters",
        "length": LENGTH,
        "task": "language_model",
        **more,
    }


def values(folder: Path, **more: Any) -> dict[str, Any]:
    data = source(speeches(folder / "speeches.csv"))
    return {
        **FAST,
        "data": data,
        "partition": "natural",
        "model": {"name": "char_gpt", "width": 8, "heads": 2, "layers": 1},
        "training": {"epochs": 1, "batch_size": 16, "lr": 0.02, "optimizer": "adam"},
        "retain": [{"name": "old", "data": data}],
        "rounds": 3,
        **more,
    }


def test_texts_are_joined_by_client_and_cut_into_blocks(tmp_path: Path) -> None:
    path = tmp_path / "text.csv"
    path.write_text('part,who,text\ntrain,a,abc\ntrain,b,cc\ntrain,a,ba\ntrain,c,a\ntest,a,"abx"\ntest,b,\n')
    data = load(**source(path, length=3))
    # The line break ends each text; the most frequent token has id 2.
    assert data.encoding is not None
    assert data.encoding["tokens"] == ("\n", "a", "c", "b")
    # a: "abc\nba\n", of which two blocks have a next token; b: "cc\n" is too short, as is c.
    assert data.train.x.tolist() == [[3, 5, 4], [2, 5, 3]]
    assert data.train.y.tolist() == [[5, 4, 2], [5, 3, 2]]
    assert data.test.x.tolist() == [[3, 5, 1]]
    assert (data.classes, data.task, data.writer_names) == (6, LANGUAGE_MODEL, ("a",))
    with pytest.raises(InputError, match="no client has 41 tokens in the training part: lower length"):
        load(**source(path, length=40))


def evaluation(losses: list[float]) -> Evaluation:
    said = np.array([[1, 2], [0, 0]])
    predictions = Predictions(said, np.array(losses), np.zeros(4))
    return Evaluation(predictions, np.array([[1, 1], [0, 0]]), 4, np.array([0, 1]), LANGUAGE_MODEL)


def test_numbers_by_hand() -> None:
    logits = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]]])
    loss = LANGUAGE_MODEL.losses(logits, torch.tensor([[1, 0]]))
    assert loss.tolist() == pytest.approx([(math.log(2) + math.log(4 / 3)) / 2])
    assert LANGUAGE_MODEL.scores(logits, torch.tensor([[1, 0]])).tolist() == [0.5]
    found = evaluation([0.5, 1.5])
    assert found.standard == {"token_accuracy": 0.75}
    assert found.by_owner is not None
    assert found.by_owner.tolist() == [0.5, 1.0]
    assert Perplexity().measure(found) == pytest.approx(math.e)
    sums = compute_sums(found)
    checked = validate_sums(LANGUAGE_MODEL, 4, sums, 10)
    assert metrics_from_sums(LANGUAGE_MODEL, checked) == {"token_accuracy": 0.75}
    with pytest.raises(ValueError, match="impossible"):
        validate_sums(LANGUAGE_MODEL, 4, {**sums, "right": np.array([5])}, 10)


def test_retention_is_of_the_gain_over_a_uniform_guess() -> None:
    metric = Retention()
    metric.begin({"retain test old": evaluation([0.25, 0.75])})
    metric.update(Snapshot(1, "global", {"retain test old": evaluation([0.5, 1.5])}, torch.zeros(1)))
    found = metric.compute()
    assert found["share"] == pytest.approx((math.log(4) - 1) / (math.log(4) - 0.5))
    assert found["forgetting"] == pytest.approx(0.5)


def test_no_place_sees_later_tokens() -> None:
    torch.manual_seed(0)
    model = CharGPT((6,), 5, 5, width=8, heads=2).eval()
    x = torch.tensor([[1, 2, 3, 4, 0, 1]])
    changed = x.clone()
    changed[0, 4:] = 2
    first, second = model(x), model(changed)
    assert torch.equal(first[:, :4], second[:, :4])
    assert not torch.allclose(first[:, 4], second[:, 4])
    torch.testing.assert_close(model(x[:, :3]), first[:, :3])


def test_engines_agree_and_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    setting = values(tmp_path)
    serial = run(setting, out=tmp_path / "serial")
    first, last = serial.records[0], serial.records[-1]
    assert last["test"]["loss"] < first["test"]["loss"]
    assert last["test"]["perplexity"] == pytest.approx(math.exp(last["test"]["loss"]))
    assert last["retention"]["sets"]["old"]["loss"] == last["test"]["loss"]
    # A random start is worse than a uniform guess, of which there is no share.
    assert last["retention"]["share"] is None
    assert last["test"]["by_client"]["accuracy"]
    assert last["forgetting"]["round"] is not None
    process = run({**setting, "engine": "process"}, out=tmp_path / "process")
    assert bits(process.folder) == bits(serial.folder)
    # Adam divides by gradients that are almost zero.
    sgd = {**setting, "training": {"epochs": 1, "batch_size": 16, "lr": 0.2}}
    found = [run({**sgd, "engine": each}).weights().parameters for each in ("serial", "vectorized")]
    assert (found[0] - found[1]).abs().max() < 1e-5
    with pytest.raises(Stopped):
        run(setting, out=tmp_path / "stopped", on_round=stop_after(2))
    resume(tmp_path / "stopped")
    assert bits(tmp_path / "stopped") == bits(serial.folder)
    columns = [column.title for column in Comparison([serial.read]).columns]
    assert {"token accuracy", "perplexity"} <= {*columns}
    assert "accuracy" not in columns
    assert "Loss of the global model" in {figure.title for figure in all_figures([serial.read])}


@pytest.mark.slow
def test_ray_has_the_same_bits(tmp_path: Path) -> None:
    setting = values(tmp_path)
    serial, ray = (run({**setting, "engine": each}, out=tmp_path / each) for each in ("serial", "ray"))
    assert bits(ray.folder) == bits(serial.folder)


def test_it_says_what_it_has_learned_and_another_run_takes_its_ids(tmp_path: Path) -> None:
    training = {"epochs": 20, "batch_size": 16, "lr": 0.02, "optimizer": "adam"}
    setting = values(tmp_path, training=training, rounds=10, participation=4)
    setting["data"] = source(speeches(tmp_path / "ab.csv", ["ab"]))
    setting["retain"] = []
    done = run(setting)
    assert done.generate("ab ", 6, temperature=0) == "ab ab "
    assert done.generate("ab ", 6, seed=3) == done.generate("ab ", 6, seed=3)
    with pytest.raises(InputError, match="a prompt of at least one token"):
        done.generate("")
    with pytest.raises(InputError, match=r"use run\.generate"):
        done.predict(["ab"])
    _, about = export_model(done, tmp_path / "start.safetensors")
    tokens = json.loads(about.read_text())["encoding"]["tokens"]
    other = speeches(tmp_path / "abc.csv", ["abc"])
    data = source(other, encoding=str(about))
    assert load(**{**data, "path": other}).encoding["tokens"] == tuple(tokens)
    model = {**setting["model"], "start_from": str(tmp_path / "start.safetensors")}
    retain = [{"name": "ab", "data": {**setting["data"], "encoding": str(about)}}]
    more = run({**setting, "data": data, "model": model, "retain": retain, "rounds": 1})
    found = more.records[0]["retention"]["sets"]["ab"]
    assert found["start"] == pytest.approx(math.log(len(tokens) + 2) - done.records[-1]["test"]["loss"])
    with pytest.raises(InputError, match="has other classes"):
        run({**setting, "retain": [{"name": "other", "data": source(other)}]})
    with pytest.raises(InputError, match="there is no file"):
        load(**source(other, encoding="none.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "wsm"}, "loss 'wsm' supports classification, not language_model: use next_token"),
        ({"loss": "tce"}, "loss 'tce' supports classification, not language_model: use next_token"),
        ({"method": "fedntd"}, "method 'fedntd' supports classification, not language_model"),
        ({"model": "text_cnn"}, "use 'char_gpt', or 'hf' with head = 'causal_lm'"),
        ({"model": {"name": "char_gpt", "head": "causal_lm"}}, "a language model of transformers needs"),
        ({"partition": {"name": "dirichlet", "clients": 4, "alpha": 1.0}}, "this partition divides by class"),
        ({"data": "digits", "partition": {"clients": 5}}, "'char_gpt' needs integer token ids"),
        ({"retain": [{"name": "a", "data": "digits"}]}, "retain 'a' has another task"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        run({**values(tmp_path), "retain": [], **change})
    assert "\n" not in str(error.value)


def tiny_gpt(folder: Path) -> Path:
    """A folder with the weights of a GPT-2 of random weights, and a tokenizer of twenty words."""
    from transformers import AutoConfig, AutoModelForCausalLM

    tiny_folder(folder)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 30, "n_positions": 16}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = AutoConfig.for_model("gpt2", **sizes, **dropout, bos_token_id=2, eos_token_id=3)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def gpt_values(folder: Path, **more: Any) -> dict[str, Any]:
    gpt = str(tiny_gpt(folder / "gpt"))
    data = source(speeches(folder / "speeches.csv"), tokenizer=gpt)
    lora = {"r": 2, "targets": ["c_attn"]}
    model = {"name": "hf", "from": gpt, "head": "causal_lm", "lora": lora}
    return values(folder, data=data, model=model, retain=[{"name": "old", "data": data}], **more)


def test_only_adapters_of_a_gpt_travel_and_peft_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    setting = gpt_values(tmp_path)
    serial = run(setting, out=tmp_path / "serial")
    trained = 2 * 2 * (16 + 48)
    assert {record["bytes_up"] for record in serial.records} == {2 * 4 * trained}
    assert serial.records[-1]["test"]["loss"] < serial.records[0]["test"]["loss"]
    assert bits(run({**setting, "engine": "process"}, out=tmp_path / "process").folder) == bits(serial.folder)
    with pytest.raises(Stopped):
        run(setting, out=tmp_path / "stopped", on_round=stop_after(1))
    resume(tmp_path / "stopped")
    assert bits(tmp_path / "stopped") == bits(serial.folder)
    assert serial.generate("w1 w2", 3, temperature=0).startswith("w")

    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    export_model(serial, tmp_path / "adapters")
    model = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(tmp_path / "gpt"), str(tmp_path / "adapters")
    ).eval()
    x = torch.tensor([[4, 5, 6, 7]])
    with torch.no_grad():
        torch.testing.assert_close(model(x).logits[..., :24], serial.model()(x))
    merged, _ = export_model(serial, tmp_path / "merged", merged=True)
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(merged).eval()(x).logits[..., :24]
        torch.testing.assert_close(logits, serial.model()(x), atol=1e-5, rtol=1e-4)
    with pytest.raises(InputError, match=r"needs data with .* model.head = 'causal_lm'"):
        run({**setting, "model": {**setting["model"], "head": False}})

"""The study of what a sentence encoder forgets, on a tiny network and a few words."""

import csv
import sys
from pathlib import Path

import pytest

from tests.models.tiny_hf import WORDS, tiny_folder

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import intents


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Two tables, with three intents each and one that is out of scope."""
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    for path in paths:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["part", "intent", "text"])
            for row in range(60):
                intent = ("pay", "call", "wait", "oos")[row % 4]
                writer.writerow(
                    ["train" if row < 40 else "test", intent, f"{WORDS[row % 4]} {WORDS[row % 7]}"]
                )
    return paths


def test_sentences_are_the_first_of_each_intent(tables: list[Path], tmp_path: Path) -> None:
    texts, labels, train = intents.cut(tables[0], tmp_path / "cut.csv", train=4, test=2)
    assert labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert train.tolist() == [True] * 4 + [False] * 2 + [True] * 4 + [False] * 2 + [True] * 4 + [False] * 2
    assert texts[:2] == ["w1 w1", "w1 w5"]


def test_every_remedy_is_judged_by_both_probes(
    tables: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import BertConfig, BertModel

    encoder = tiny_folder(tmp_path / "bert")
    BertModel(BertConfig.from_pretrained(encoder)).save_pretrained(encoder)
    intents.study(*tables, str(encoder), tmp_path, [0])
    start, *lines = capsys.readouterr().out.splitlines()
    assert float(start.split()[4].rstrip(".")) > 0.5
    assert [line.split(":")[0] for line in lines] == [f"{name}, 0" for name in intents.REMEDIES]
    assert all(0 <= float(number) <= 2 for line in lines for number in line.split(": ")[1].split())

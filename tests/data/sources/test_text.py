"""Text as token ids: the vocabulary of the training part, lengths, clients, and rows that cannot be used."""

import json
import lzma

import numpy as np
import pytest

from eunoe.data import builtin
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Natural
from eunoe.data.sources.text import Vocabulary
from eunoe.errors import InputError

ROWS = """who,what,text,part
a,hi,Hello hello you,train
b,bye,"Good bye, you",train
a,hi,"Hello, stranger! it's me and you and me",test
b,bye,!?,test
"""
OPTIONS = {"label": "what", "client": "who", "part": "part"}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "text.csv"
    path.write_text(ROWS)
    return path


def test_words_are_numbered_by_the_training_part(file):
    data = load("text", path=str(file), length=4, **OPTIONS)
    # Two of hello and you, then one of each, in the order of the alphabet.
    assert data.encoding["tokens"] == ("hello", "you", "bye", "good")
    assert data.train.x.tolist() == [[2, 2, 3, 0], [5, 4, 3, 0]]
    assert data.test.x.tolist() == [[2, 1, 1, 1], [0, 0, 0, 0]]
    assert (data.vocabulary, data.class_names, data.mean) == (6, ("bye", "hi"), None)
    assert data.train.y.tolist() == [1, 0]
    assert load("text", path=str(file), vocabulary=1, **OPTIONS).vocabulary == 3
    federation = Federation.build(data, Natural())
    assert (len(federation), federation.shape) == (2, (4,))
    assert federation.preprocess(data.train.x).tolist() == data.train.x.tolist()


def test_of_characters_the_last_ones_count():
    vocabulary = Vocabulary.fit(["abba", "b"], "characters", 3, 100)
    assert vocabulary.tokens == ("b", "a")
    assert vocabulary.encode(["abba", "a", "ax", ""]).tolist() == [[2, 2, 3], [0, 0, 3], [0, 3, 1], [0, 0, 0]]
    again = Vocabulary.from_dict(json.loads(json.dumps(vocabulary.to_dict())))
    assert again == vocabulary


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (("!?", ""), {}, "column 'text' has no text in row 4"),
        (("a,hi,Hello", "a,,Hello"), {}, "column 'what' is empty in row 1"),
        (("a,hi,Hello", "a,Hello"), {}, "not a readable CSV or Parquet file: .*Expected 4 columns, got 3"),
        (("", ""), {"text": "txt"}, "has no column 'txt'; did you mean 'text'"),
        (("", ""), {"text": "what"}, "must be different columns"),
    ],
)
def test_what_cannot_be_used_is_one_line(file, change, options, says):
    file.write_text(ROWS.replace(*change) if change[0] else ROWS)
    with pytest.raises(InputError, match=says) as error:
        load("text", path=str(file), **{**OPTIONS, **options})
    assert "\n" not in str(error.value)


def put(folder, name, text):
    (folder / f"{name}.csv.xz").write_bytes(lzma.compress(text.encode()))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    return tmp_path


def test_banking77(folder):
    put(folder, "banking77", "part,intent,text\ntrain,a,one two\ntrain,b,two\ntest,a,one three\n")
    data = load("banking77", length=2)
    assert (data.name, data.classes, data.writers_train) == ("banking77", 2, None)
    assert data.test.x.tolist() == [[3, 1]]


def test_the_domains_of_clinc150_are_clients_and_what_is_out_of_scope_is_left_out(folder):
    rows = ["val,oos,oos,no", "train,oos,oos,no", "val,home,lights,no"]
    rows += ["train,home,lights,turn on", "train,work,meet,meet me", "test,work,meet,on", "test,oos,oos,no"]
    put(folder, "clinc150", "\n".join(["part,domain,intent,text", *rows]) + "\n")
    data = load("clinc150")
    assert data.class_names == ("lights", "meet")
    assert (len(data.train), len(data.test)) == (2, 1)
    assert len(Federation.build(data, Natural())) == 2
    assert "no" not in data.encoding["tokens"]


def test_shakespeare_predicts_the_next_character_of_each_speaker(folder):
    rows = ['train,KING,"abc\nab"', "train,FOOL,abab", "test,KING,abca", "test,FOOL,abz"]
    put(folder, "shakespeare", "\n".join(["part,client,text", *rows]) + "\n")
    data = load("shakespeare", length=2, stride=2)
    vocabulary = Vocabulary.from_dict(data.encoding)
    # After "ab" comes c; after "c\n" comes a; after "ab" comes a. Nothing ever has to predict z.
    assert data.class_names == ("a", "c")
    assert data.train.y.tolist() == [1, 0, 0]
    assert np.array_equal(data.train.x, vocabulary.encode(["ab", "c\n", "ab"]))
    assert data.writers_train.tolist() == [1, 1, 0]
    assert (data.test.y.tolist(), data.writers_test.tolist()) == ([1], [1])
    put(folder, "shakespeare", "part,client,text\ntrain,KING,a\n")
    with pytest.raises(InputError, match="is too short"):
        builtin.shakespeare()

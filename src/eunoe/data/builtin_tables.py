"""Built-in tables and texts: read from $EUNOE_DATA/<name>.csv, also .csv.gz and .csv.xz."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pydantic import PositiveInt

from eunoe.data.arrays import number_ids
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import LabeledRows, get_column, label_rows, read_frame, read_values
from eunoe.data.sources.hub import data_folder
from eunoe.data.sources.table import from_table
from eunoe.data.sources.text import Vocabulary, encode_rows, make_encoder, text
from eunoe.errors import InputError

_ENDINGS = (".csv", ".csv.gz", ".csv.xz")


@dataclass(frozen=True)
class TableSpec:
    """A built-in data set that is stored as a CSV file: its columns, classes and loader."""

    columns: str
    classes: int
    load: Callable[[], DataSet]


def heart_disease(*, path: Path | None = None) -> DataSet:
    """Heart disease (UCI): 920 patients of 4 hospitals, 13 features with gaps; disease present or absent.

    A fixed fifth of each hospital's patients is the test part.
    """
    file = path or table_path("heart_disease")
    frame, where = read_frame(file), str(file)
    degrees, at = read_values(frame, where, "num"), frame.column_names.index("num")
    # 1 to 4 are degrees of the disease.
    frame = frame.set_column(at, "num", [["present" if value > 0 else "absent" for value in degrees]])
    categorical = ("cp", "restecg", "slope", "thal")
    data = from_table(frame, label="num", client="hospital", categorical=categorical, name=where)
    return replace(data, name="heart_disease")


def banking77(*, path: Path | None = None, length: PositiveInt = 32, tokenizer: str | None = None) -> DataSet:
    """BANKING77: 10,003 + 3,080 questions to a bank, 77 intents."""
    file = path or table_path("banking77")
    data = text(file, label="intent", part="part", length=length, tokenizer=tokenizer)
    return replace(data, name="banking77")


def clinc150(*, path: Path | None = None, length: PositiveInt = 24, tokenizer: str | None = None) -> DataSet:
    """CLINC150: 15,000 + 4,500 requests, 150 intents in 10 domains, which are the clients.

    The validation part and requests that are out of scope are dropped.
    """
    file = path or table_path("clinc150")
    where = str(file)
    frame = read_frame(file, ("part", "domain", "intent", "text"))
    frame = frame.filter(np.array(get_column(frame, "domain", where).to_pylist()) != "oos")
    rows = label_rows(frame, where, "intent", "domain", "part", None, "classification")
    texts: list[str] = get_column(rows.frame, "text", where).to_pylist()
    encoder = make_encoder(rows, texts, tokenizer, "words", length, 20_000)
    return encode_rows(rows, texts, encoder, "clinc150")


def shakespeare(*, path: Path | None = None, length: PositiveInt = 40, stride: PositiveInt = 20) -> DataSet:
    """Shakespeare: the next character after `length` characters of a speech; speakers are the clients.

    Each speech gives a sample for every `stride` characters. Test samples with a next character that the
    training part does not have are dropped.
    """
    file = path or table_path("shakespeare")
    where = str(file)
    frame = read_frame(file, ("part", "client", "text"))
    parts, speakers, texts = (
        get_column(frame, name, where).to_pylist() for name in ("part", "client", "text")
    )
    before, after, speaker, test = [], [], [], []
    for part, client, speech in zip(parts, speakers, texts, strict=True):
        for end in range(stride, len(speech), stride):
            before.append(speech[max(0, end - length) : end])
            after.append(speech[end])
            speaker.append(client)
            test.append(part == "test")
    tested = np.array(test, bool)
    names = tuple(sorted({mark for mark, skip in zip(after, tested, strict=True) if not skip}))
    if len(names) < 2 or not tested.any():
        raise InputError(
            f"{where} has too little text: both parts need speeches of more than {stride} characters"
        )
    numbers = {mark: number for number, mark in enumerate(names)}
    known = np.array([mark in numbers for mark in after])
    y = np.array([numbers.get(mark, 0) for mark in after], np.int64)[known]
    clients = number_ids(np.array(speaker))[0][known]
    rows = LabeledRows(None, y, names, clients, tested[known])
    vocabulary = Vocabulary.fit(
        (speech for part, speech in zip(parts, texts, strict=True) if part == "train"),
        "characters",
        length,
        1000,
    )
    contexts = [context for context, keep in zip(before, known, strict=True) if keep]
    return encode_rows(rows, contexts, vocabulary, "shakespeare")


TABLES = {
    "heart_disease": TableSpec("hospital, 13 features and num", 2, heart_disease),
    "banking77": TableSpec("part, intent and text", 77, banking77),
    "clinc150": TableSpec("part, domain, intent and text", 150, clinc150),
    "shakespeare": TableSpec("part, client and text", 67, shakespeare),
}


def table_path(name: str) -> Path:
    """Return the path of a built-in table, plain or compressed."""
    paths = [data_folder() / f"{name}{ending}" for ending in _ENDINGS]
    for path in paths:
        if path.exists():
            return path
    raise InputError(
        f"there is no file {paths[0]} (nor .csv.gz, .csv.xz): put it there, with the columns "
        f"{TABLES[name].columns}, or set its path"
    )

"""Sentences with labels: a CSV or Parquet file whose text becomes token ids of one length."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Labels
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import Labeled, column_of, labeled, read_frame
from eunoe.data.sources.tokenizer import Tokenizer
from eunoe.data.sources.vocabulary import Unit, Vocabulary
from eunoe.errors import InputError

Percent = Annotated[int, Field(ge=1, lt=100)]


def text(
    path: Path,
    *,
    text: str = "text",
    label: str = "label",
    client: str | None = None,
    part: str | None = None,
    held_out: Percent | None = None,
    unit: Unit = "words",
    length: PositiveInt = 32,
    vocabulary: PositiveInt = 20_000,
    tokenizer: str | None = None,
) -> DataSet:
    """A CSV or Parquet file with a text and a label in each row, as ids of `length` words or characters.

    The ids are of the most frequent tokens of the training part, `vocabulary` at most; with a `tokenizer` of
    the transformers library (a name on the hub, or a folder) they are its own, of varying length. `client`
    names the column of client ids; `part` one that says train or test, without which `held_out` per cent (20)
    of each client's rows are tested on.
    """
    where = str(path)
    columns = [name for name in (text, label, client, part) if name]
    if len(set(columns)) < len(columns):
        raise InputError(f"{where}: text, label, client and part must be different columns")
    frame = read_frame(path, columns)
    rows = labeled(frame, where, label, client, part, held_out, "classification")
    texts = sentences(rows, text, where)
    return encoded(rows, texts, coder(rows, texts, tokenizer, unit, length, vocabulary), where)


def coder(
    rows: Labeled,
    texts: Sequence[str],
    tokenizer: str | None,
    unit: Unit,
    length: int,
    vocabulary: int,
) -> Vocabulary | Tokenizer:
    """What makes ids of texts: a named tokenizer, or the vocabulary of the training part."""
    if tokenizer is not None:
        return Tokenizer(tokenizer, length)
    chosen = [sentence for sentence, test in zip(texts, rows.test, strict=True) if not test]
    return Vocabulary.fit(chosen, unit, length, vocabulary)


def sentences(rows: Labeled, column: str, where: str) -> list[str]:
    """The texts of a column, none of which may be missing."""
    texts: list[Any] = column_of(rows.frame, column, where).to_pylist()
    for row, value in enumerate(texts, start=1):
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: column {column!r} has no text in row {row}; every row needs some")
    return texts


def encoded(rows: Labeled, texts: Sequence[str], coder: Vocabulary | Tokenizer, name: str) -> DataSet:
    """The data set of labeled texts."""
    x: Any = coder.encode(texts)
    train, test = ~rows.test, rows.test

    def owners(part: Any) -> Labels | None:
        return None if rows.clients is None else rows.clients[part]

    data = from_arrays(
        x[train],
        rows.y[train],
        x[test],
        rows.y[test],
        writer_train=owners(train),
        writer_test=owners(test),
        name=name,
        classes=len(rows.class_names),
        class_names=rows.class_names,
    )
    return replace(data, encoding=coder.to_dict(), writer_names=rows.client_names)

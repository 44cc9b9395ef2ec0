"""Labeled text: a CSV or Parquet file whose text becomes token ids."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import PositiveInt

from eunoe.data.arrays import from_rows
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import LabeledRows, Percent, get_column, label_rows, read_frame
from eunoe.data.sources.text_encoders import Tokenizer, Unit, Vocabulary
from eunoe.errors import InputError


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

    The ids are those of the `vocabulary` most frequent tokens of the training part or, with a `tokenizer` of
    the transformers library (a name on the hub, or a folder), its own, of varying length. `client` is the
    column of client ids; `part` is a column that says train or test, without which `held_out` percent (20) of
    each client's rows are the test part.
    """
    where = str(path)
    columns = [name for name in (text, label, client, part) if name]
    if len(set(columns)) < len(columns):
        raise InputError(f"{where}: text, label, client and part must be different columns")
    rows = label_rows(read_frame(path, columns), where, label, client, part, held_out, "classification")
    texts = get_column(rows.frame, text, where).to_pylist()
    for row, value in enumerate(texts, start=1):
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: column {text!r} has no text in row {row}; every row needs text")
    return encode_rows(rows, texts, make_encoder(rows, texts, tokenizer, unit, length, vocabulary), where)


def make_encoder(
    rows: LabeledRows,
    texts: Sequence[str],
    tokenizer: str | None,
    unit: Unit,
    length: int,
    vocabulary: int,
) -> Vocabulary | Tokenizer:
    """Load a tokenizer, or fit a vocabulary to the training part."""
    if tokenizer is not None:
        return Tokenizer(tokenizer, length)
    train = [text for text, test in zip(texts, rows.test, strict=True) if not test]
    return Vocabulary.fit(train, unit, length, vocabulary)


def encode_rows(
    rows: LabeledRows, texts: Sequence[str], encoder: Vocabulary | Tokenizer, name: str
) -> DataSet:
    """Build a data set of labeled texts."""
    data = from_rows(
        encoder.encode(texts),
        rows.y,
        rows.test,
        rows.clients,
        name=name,
        classes=len(rows.class_names),
        class_names=rows.class_names,
    )
    return replace(data, encoding=encoder.to_dict(), writer_names=rows.client_names)

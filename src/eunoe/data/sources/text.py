"""Text in CSV and Parquet files as token ids, of a `Vocabulary` or a transformers `Tokenizer`."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from eunoe.core.fields import Fields, Ragged
from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Array, as_tensor, check_inputs, check_lengths
from eunoe.data.samples import DataSet
from eunoe.data.sources.frames import LabeledRows, Percent, as_texts, column_values, label_rows, read_frame
from eunoe.data.sources.hub import data_folder
from eunoe.data.sources.npz import load_or_compute, pack_fields, unpack_fields
from eunoe.errors import InputError, first_line
from eunoe.system.files import parse_json, read_text
from eunoe.system.transformers_library import locate_model, quiet

Unit = Literal["words", "characters"]
PADDING, UNKNOWN, FIRST = 0, 1, 2
# Runs of letters, digits and apostrophes, in lower case.
_WORD = r"[\w']+"


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
    encoding: Path | None = None,
    task: Literal["classification", "language_model"] = "classification",
) -> DataSet:
    """A CSV or Parquet file with a text and a label in each row, as ids of `length` words or characters.

    The ids are those of the `vocabulary` most frequent tokens of the training part or, with a `tokenizer` of
    the transformers library (a name on the hub, or a folder), its own, of varying length. `client` is the
    column of client ids; `part` is a column that says train or test, without which `held_out` percent (20) of
    each client's rows are the test part. `encoding` is the JSON file of an exported model, for its ids.

    With `task` = "language_model" there are no labels: a client's texts are joined, with a line break or the
    tokenizer's end token after each, and cut into blocks of `length` tokens; the rest is left out.
    """
    where = str(path)
    models = task == "language_model"
    columns = [name for name in (text, None if models else label, client, part) if name]
    if len(set(columns)) < len(columns):
        raise InputError(f"{where}: text, label, client and part must be different columns")
    rows = label_rows(read_frame(path, columns), where, label, client, part, held_out, task)
    texts = column_values(rows.frame, text, where)
    for row, value in enumerate(texts, start=1):
        if not isinstance(value, str) or not (models or value.strip()):
            raise InputError(f"{where}: column {text!r} has no text in row {row}; every row needs text")
    texts = [f"{each}\n" for each in texts] if models else texts
    if encoding is not None:
        encoder = _read_encoder(encoding, length)
    else:
        encoder = fit_encoder(rows.training(texts), length, tokenizer, unit, vocabulary)
    if models:
        return _encode_blocks(rows, texts, encoder, length, where)
    return encode_rows(rows, texts, encoder, where, column=text)


def _read_encoder(path: Path, length: int) -> "TextEncoder":
    """Return the encoder of an exported model."""
    try:
        about = parse_json(read_text(path.expanduser()), path)["encoding"]
        encoder = TextEncoder.from_dict({**about, "length": length})
        hash(encoder)  # Tokens that are no texts have none.
    except FileNotFoundError:
        raise InputError(f"there is no file {path}: encoding is the JSON file of an exported model") from None
    except (KeyError, TypeError):
        raise InputError(f"{path} is not the description of a model of text") from None
    return encoder


def _encode_blocks(
    rows: LabeledRows, texts: Sequence[str], encoder: "TextEncoder", length: int, where: str
) -> DataSet:
    """Join the texts of each client, and cut them into blocks with their next tokens."""
    ids = [encoder.tokens_of(text) for text in texts]
    clients = np.zeros(len(ids), np.int64) if rows.clients is None else rows.clients
    parts: dict[bool, Any] = {}
    for test in (False, True):
        blocks, owners = [], []
        for client in np.unique(clients):
            chosen = np.flatnonzero((clients == client) & (rows.test == test))
            joined = np.array([token for row in chosen for token in ids[row]], np.int64)
            starts = np.arange(0, len(joined) - length, length)
            blocks.append(joined[starts[:, None] + np.arange(length + 1)].reshape(-1, length + 1))
            owners.append(np.repeat(client, len(starts)))
        parts[test] = np.concatenate(blocks), np.concatenate(owners)
        if not len(parts[test][0]):
            part = "test" if test else "training"
            raise InputError(f"{where}: no client has {length + 1} tokens in the {part} part: lower length")
    about = {**encoder.to_dict(), "task": "language_model"}
    (train, owners), (test_blocks, test_owners) = parts[False], parts[True]
    dtype = np.int16 if about["ids"] < 2**15 else np.int32
    writers = {} if rows.clients is None else {"writer_train": owners, "writer_test": test_owners}
    data = from_arrays(
        *(train[:, :-1].astype(dtype), train[:, 1:], test_blocks[:, :-1].astype(dtype), test_blocks[:, 1:]),
        name=where,
        task="language_model",
        classes=about["ids"],
        **writers,
    )
    return replace(data, encoding=about)


def fit_encoder(
    texts: Sequence[str], length: int, tokenizer: str | None, unit: Unit = "words", most: int = 20_000
) -> "TextEncoder":
    """Return a tokenizer of the transformers library or, if None, a vocabulary of these texts."""
    return Vocabulary.fit(texts, unit, length, most) if tokenizer is None else Tokenizer(tokenizer, length)


def encode_rows(
    rows: LabeledRows, texts: Sequence[str], encoder: "TextEncoder", name: str, **about: Any
) -> DataSet:
    """Build a data set of labeled texts; `about` is added to its encoding."""
    return replace(rows.dataset(encoder.encode_list(texts), name), encoding={**encoder.to_dict(), **about})


class TextEncoder(ABC):
    """Encodes texts as token ids: a `Vocabulary` or a `Tokenizer`."""

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "TextEncoder":
        """Return the encoder that `to_dict` wrote, as in the JSON file of an exported model."""
        if "tokenizer" in values:
            return Tokenizer(values["tokenizer"], values["length"])
        return Vocabulary(values["unit"], values["length"], tuple(values["tokens"]))

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that is needed to encode other texts, as JSON values."""

    @abstractmethod
    def tokens_of(self, text: str) -> list[int]:
        """Return the ids of a text of any length, without padding."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids."""

    @abstractmethod
    def encode_list(self, texts: Sequence[str]) -> Any:
        """Return the ids of texts."""

    def encode(self, texts: Any, column: str = "text", where: str = "the list of texts") -> Any:
        """Return the ids of a sequence of texts, or of this column of a DataFrame, table, dicts or file."""
        return self.encode_list(as_texts(texts, column, where))


@dataclass(frozen=True)
class Vocabulary(TextEncoder):
    """Encodes text as `length` ids: 0 is padding, 1 is a token that the training part does not have.

    Of words the first `length` are used, with padding at the end; of characters the last ones, with padding
    at the start, so that the newest character is always last.
    """

    unit: Unit
    length: int
    tokens: tuple[str, ...]

    @classmethod
    def fit(cls, texts: Iterable[str], unit: Unit, length: int, most: int) -> "Vocabulary":
        """Return a vocabulary of the most frequent tokens of these texts, at most `most`."""
        counts = Counter(token for text in texts for token in split(text, unit))
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        return cls(unit, length, tuple(ordered[:most]))

    def to_dict(self) -> dict[str, Any]:
        pattern = {"lowercase": True, "pattern": _WORD} if self.unit == "words" else {}
        ids = {"ids": len(self), "padding": PADDING, "unknown": UNKNOWN, "first": FIRST}
        about = {"kind": "text", "unit": self.unit, "length": self.length}
        return {**about, **pattern, **ids, "tokens": self.tokens}

    def __len__(self) -> int:
        """Return the number of ids, including padding and unknown."""
        return len(self.tokens) + FIRST

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens, start=FIRST)}

    def tokens_of(self, text: str) -> list[int]:
        return [self._numbers.get(token, UNKNOWN) for token in split(text, self.unit)]

    def decode(self, ids: Sequence[int]) -> str:
        tokens = [self.tokens[at - FIRST] if at >= FIRST else "\N{REPLACEMENT CHARACTER}" for at in ids]
        return (" " if self.unit == "words" else "").join(tokens)

    def encode_list(self, texts: Sequence[str]) -> NDArray[np.int16 | np.int32]:
        """Return ids [n, length] in the smallest integer type that holds them."""
        rows = np.full((len(texts), self.length), PADDING, np.int16 if len(self) < 2**15 else np.int32)
        for row, text in zip(rows, texts, strict=True):
            ids = self.tokens_of(text)
            if self.unit == "words":
                row[: len(ids)] = ids[: self.length]
            elif ids:
                row[-len(ids) :] = ids[-self.length :]
        return rows


def split(text: str, unit: Unit) -> Sequence[str]:
    """Split a text into its words, in lower case, or its characters."""
    return re.findall(_WORD, text.lower()) if unit == "words" else text


class Tokenizer(TextEncoder):
    """Encodes text as `input_ids` and `attention_mask` of at most `length` tokens."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length

    @cached_property
    def _tokenizer(self) -> Any:
        with quiet(f"the tokenizer {self.name}"):
            from transformers import AutoTokenizer

            try:
                tokenizer = AutoTokenizer.from_pretrained(locate_model(self.name))
            except Exception as error:  # The hub client and the parsers raise errors of many types.
                raise InputError(
                    f"cannot load tokenizer {self.name} ({first_line(error)[:120]}): use a hub name or folder"
                ) from None
        if not tokenizer.is_fast:
            raise InputError(f"the tokenizer {self.name} has no tokenizer.json; use one that has")
        return tokenizer

    @property
    def padding(self) -> int:
        return int(self._tokenizer.pad_token_id or 0)

    def to_dict(self) -> dict[str, Any]:
        """Return how texts were encoded, as JSON values."""
        ids = {"ids": len(self._tokenizer), "padding": self.padding}
        return {"kind": "text", "tokenizer": self.name, "length": self.length, **ids}

    def tokens_of(self, text: str) -> list[int]:
        with quiet(f"the tokenizer {self.name}"):
            # A line break is whitespace to most tokenizers: the end of a text is their own token.
            ids = self._tokenizer(text.removesuffix("\n"), add_special_tokens=False)["input_ids"]
        end = self._tokenizer.eos_token_id
        return [*ids, end] if text.endswith("\n") and end is not None else list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids))

    def encode_list(self, texts: Sequence[str]) -> Fields:
        """Return ids and masks of all texts, cached on disk."""
        digest = hashlib.sha256(self._tokenizer.backend_tokenizer.to_str().encode())
        digest.update(json.dumps([self.length, self.padding, *texts]).encode())
        path = data_folder() / "tokens" / f"{digest.hexdigest()}.npz"
        fields = unpack_fields(load_or_compute(path, lambda: self._encode(texts)), ("x",)).get("x", ())
        check_lengths(x := check_inputs(fields, str(path)), texts, str(path), "the texts")
        return cast(Fields, x)

    def _encode(self, texts: Sequence[str]) -> dict[str, Array]:
        with quiet(f"the tokenizer {self.name}"):
            ids = self._tokenizer(list(texts), truncation=True, max_length=self.length)["input_ids"]
        dtype = np.int16 if len(self._tokenizer) < 2**15 else np.int32
        offsets = as_tensor(np.cumsum([0, *(len(text) for text in ids)]))
        values = as_tensor(np.concatenate([np.array(text, dtype) for text in ids]))
        mask = Ragged(as_tensor(np.ones(len(values), bool)), offsets)
        fields = [Ragged(values, offsets, self.padding), mask]
        return pack_fields("x", Fields(fields, ["input_ids", "attention_mask"]))

"""Text as token ids by a tokenizer of the transformers library, kept on disk as integers."""

import hashlib
import json
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from eunoe.core.fields import Fields, Ragged
from eunoe.data.checks import as_tensor
from eunoe.data.field_arrays import packed, unpacked
from eunoe.data.sources.hub import data_folder
from eunoe.data.sources.npz import read_npz, write_npz
from eunoe.errors import InputError, first_line
from eunoe.system.transformers_library import place_of, quiet

logger = logging.getLogger(__name__)


class Tokenizer:
    """Turns text into `input_ids` and `attention_mask`, of `length` tokens at most."""

    def __init__(self, name: str, length: int) -> None:
        self.name, self.length = name, length

    @cached_property
    def _theirs(self) -> Any:
        with quiet(f"the tokenizer {self.name}"):
            from transformers import AutoTokenizer

            try:
                found = AutoTokenizer.from_pretrained(place_of(self.name))
            except Exception as error:  # Errors of the hub's client and of parsers are of many types.
                raise InputError(
                    f"there is no tokenizer {self.name} ({first_line(error)[:120]}): "
                    "name a model on the hub, or a folder with its tokenizer"
                ) from None
        if not found.is_fast:
            raise InputError(f"the tokenizer {self.name} has no tokenizer.json; take one that has")
        return found

    @property
    def padding(self) -> int:
        return int(self._theirs.pad_token_id or 0)

    def to_dict(self) -> dict[str, Any]:
        """How texts were encoded, in what JSON can say."""
        ids = {"ids": len(self._theirs), "padding": self.padding}
        return {"kind": "text", "tokenizer": self.name, "length": self.length, **ids}

    def encode(self, texts: Sequence[str]) -> Fields:
        """Ids and masks of all texts; those of texts that were encoded before are read from disk."""
        path = data_folder() / "tokens" / f"{self._digest(texts)}.npz"
        if path.exists():
            x: Fields = unpacked(read_npz(path), ("x",))["x"]
            return Fields([_as_tensors(value) for value in x.values], x.names)
        with quiet(f"the tokenizer {self.name}"):
            ids = self._theirs(list(texts), truncation=True, max_length=self.length)["input_ids"]
        lengths = np.array([len(one) for one in ids])
        small = np.int16 if len(self._theirs) < 2**15 else np.int32
        offsets = as_tensor(np.concatenate([[0], np.cumsum(lengths)]))
        values = as_tensor(np.concatenate([np.array(one, small) for one in ids]))
        mask = Ragged(as_tensor(np.ones(len(values), bool)), offsets)
        encoded = Fields([Ragged(values, offsets, self.padding), mask], ["input_ids", "attention_mask"])
        try:
            write_npz(path, packed("x", encoded))
        except OSError as error:
            logger.warning("token ids are not kept: %s", error)
        return encoded

    def _digest(self, texts: Sequence[str]) -> str:
        known = hashlib.sha256(self._theirs.backend_tokenizer.to_str().encode())
        known.update(json.dumps([self.length, self.padding, *texts]).encode())
        return known.hexdigest()


def _as_tensors(value: Any) -> Any:
    return value if isinstance(value, Ragged) else as_tensor(value)

"""What inputs look like as a model sees them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from eunoe.core.fields import Fields, Ragged, Stored, gather, is_ragged
from eunoe.data.preprocess import Preprocess
from eunoe.errors import InputError


class InputForm(NamedTuple):
    """The shape of an input or of each of its fields, with the largest length where it varies."""

    shapes: Mapping[str, tuple[int, ...]]
    # Whether inputs have fields; if not, their one shape has no name.
    has_fields: bool
    # Whether inputs vary in length.
    ragged: bool

    @property
    def shape(self) -> tuple[int, ...]:
        if self.has_fields:
            raise InputError(f"inputs have the fields {', '.join(self.shapes)}, each of its own shape")
        return self.shapes[""]

    @property
    def numbers(self) -> int:
        """How many numbers an input has at most."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


def form_of(stored: Stored, preprocess: Preprocess) -> InputForm:
    """The form of what preprocessing makes of stored samples."""
    has_fields = isinstance(stored, Fields)
    fields = stored if isinstance(stored, Fields) else Fields([stored], [""])
    seen = preprocess(gather(stored, torch.zeros(1, dtype=torch.int64)))
    values = seen.values if isinstance(seen, Fields) else (seen,)
    shapes = {}
    for name, field, value in zip(fields.labels, fields.values, values, strict=True):
        shape = tuple(value.shape[1:])
        shapes[name] = (field.longest, *shape[1:]) if isinstance(field, Ragged) else shape
    return InputForm(shapes, has_fields, is_ragged(stored))

"""A reply's vectors are looked at before they are copied."""

from io import BytesIO

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord

from eunoe.flower.wire import Form, decode_declared, encode_vectors

FORM = {"a": Form(3, ("float32", "float64"))}


def saved(values: np.ndarray) -> bytes:
    stream = BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_declared_arrives_as_it_was_sent(dtype: torch.dtype) -> None:
    value = torch.tensor([1.0, -2.5, 1e-30], dtype=dtype)
    found = decode_declared(encode_vectors({"a": value}), FORM)["a"]
    assert found.dtype == dtype
    assert torch.equal(found, value)


def test_an_empty_vector_and_counters_arrive_too() -> None:
    sent = {"a": torch.empty(0), "n": torch.tensor([2**40])}
    found = decode_declared(encode_vectors(sent), {"a": Form(0, ("float32",)), "n": Form(1, ("int64",))})
    assert found["a"].numel() == 0
    assert found["n"].tolist() == [2**40]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (Array("float32", (10**9,), "numpy.ndarray", b""), r"is float32 \[1000000000\], not float32 or"),
        (Array("object", (3,), "numpy.ndarray", b""), "is object"),
        (Array("float32", (3,), "numpy.ndarray", b"x" * 100_000), "has 100000 bytes, too many"),
        # The inner header asks for 8 GB, or for another type than Flower's record says.
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(3, np.float64))), "is float64"),
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(4, np.float32))), r"is float32 \[4\]"),
        (
            Array(
                "float32",
                (3,),
                "numpy.ndarray",
                saved(np.zeros(3, np.float32)).replace(b"(3,), }         ", b"(2000000000,), }"),
            ),
            r"is float32 \[2000000000\] in 12 bytes",
        ),
        (Array("float32", (3,), "numpy.ndarray", saved(np.zeros(3, np.float32))[:-1]), "in 11 bytes"),
        (Array("float32", (3,), "pickle", saved(np.zeros(3, np.float32))), "not in NumPy's format"),
        (Array("float32", (3,), "numpy.ndarray", b"nonsense"), "magic"),
    ],
)
def test_what_is_not_as_declared_is_refused(array: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_declared(ArrayRecord({"a": array}), FORM)


def test_names_are_those_that_were_declared() -> None:
    with pytest.raises(ValueError, match="it has the vectors a, b, not a"):
        decode_declared(encode_vectors({"a": torch.zeros(3), "b": torch.zeros(1)}), FORM)
    with pytest.raises(ValueError, match="it has the vectors none, not a"):
        decode_declared(ArrayRecord({}), FORM)

"""Runs on a device that is not the CPU, where none is at hand: the same runs as on the CPU, compared.

The device is made here: its tensors lie in the CPU's memory, but no operation may mix them with tensors of
the CPU, none gives its memory away, and it has no float64 (as Apple's has none). Run as
`python -m tests.engines.elsewhere FOLDER METHOD...`, since torch takes a device for the whole process.
"""

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as tree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run

NAME = "elsewhere"
# Copying goes from one device to another, and indices may be on the CPU.
MIXING = ("aten::_to_copy", "aten::copy_", "aten::index")


class There(Tensor):
    """A tensor on the device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "There":
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.inner = inner
        return made

    @property
    def data(self) -> "There":
        return There(self.inner)

    @data.setter
    def data(self, value: "There") -> None:
        Tensor.data.__set__(self, value)
        self.inner = value.inner

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return computed(function, args, kwargs or {})


def computed(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a function gives for tensors on the device."""
    given = [value for value in tree.tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    name = function._schema.name
    if name not in MIXING and any(not isinstance(value, There) and value.ndim for value in given):
        raise RuntimeError(f"{name} mixes tensors of the CPU with tensors on {NAME}")
    device = kwargs.get("device")
    stays = device is None or torch.device(device).type == NAME
    kwargs = dict(kwargs) | ({} if device is None else {"device": torch.device("cpu")})
    args, kwargs = tree.tree_map(lambda v: v.inner if isinstance(v, There) else v, (args, kwargs))
    known = {id(value.inner): value for value in given if isinstance(value, There)}

    def wrapped(value: Any) -> Any:
        if not isinstance(value, Tensor) or not stays:
            return value
        if value.dtype == torch.float64:
            raise TypeError(f"{name}: {NAME} has no float64")
        return known[id(value)] if id(value) in known else There(value)

    return tree.tree_map(wrapped, function(*args, **kwargs))


def install() -> list[torch.library.Library]:
    """Make the device known to torch, as long as what comes back is kept."""
    _setup_privateuseone_for_python_backend(NAME)
    everything, some = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    everything.fallback(lambda function, *args, **kwargs: computed(function, args, kwargs), "PrivateUse1")
    aten = torch.ops.aten

    def register(name: str, function: Any) -> None:
        some.impl(name, lambda *args, **kwargs: computed(function, args, kwargs), "PrivateUse1")

    register("empty.memory_format", aten.empty.memory_format)
    register("empty_strided", aten.empty_strided.default)
    register("_to_copy", aten._to_copy.default)
    return [everything, some]


class Said(logging.Handler):
    """Keeps the warnings that clients train one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += [record.getMessage()] if "one after the other" in record.getMessage() else []


def go(out: Path, engine: str, method: str, device: str) -> Run:
    """A round, and another one after a resume."""
    said = Said()
    logging.getLogger("eunoe").addHandler(said)
    run(
        out=out,
        engine={"name": engine, "device": device},
        method={"name": method, **({"steps": 4, "every": 2} if method == "feddf" else {})},
        rounds=1,
        participation=3,
        loss="wsm",
        partition={"name": "dirichlet", "clients": 5, "alpha": 0.3},
        public={"share": 0.05},
        training={"steps": 4, "batch_size": 16, "momentum": 0.5, "lr": 0.02},
        model={"name": "mlp", "hidden": [8]},
    )
    done = resume(out, {"rounds": 2})
    assert not said.lines
    return done


if __name__ == "__main__":
    installed = install()
    for method in sys.argv[2:]:
        for engine in ("serial", "vectorized"):
            here, there = (go(Path(sys.argv[1], engine, method, d), engine, method, d) for d in ("cpu", NAME))
            assert there.simulation.model.device.type == NAME
            weights = [done.weights().parameters for done in (here, there)]
            assert weights[1].device.type == "cpu"
            torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-6, msg=f"{method} {engine}")
            for name in ("test.loss", "loss_after", "validation.loss"):
                series = [torch.tensor(done.series(name)[1]) for done in (here, there)]
                torch.testing.assert_close(*series, rtol=1e-4, atol=1e-5, msg=f"{method} {engine} {name}")
            there.predict(there.simulation.federation.data.test.x[:3])
        print(method, "is the same on both devices")

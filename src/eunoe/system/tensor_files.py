"""Safetensors files: reading with errors of one line, and a hash of their content."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor, uint8

from eunoe.errors import Damaged, RunFailed, first_line
from eunoe.system.files import check_regular, reading


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and metadata of a file; raise FileNotFoundError if it does not exist."""
    try:
        with reading(path):
            check_regular(path)
            with safe_open(path, "pt") as file:
                tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
                return tensors, dict(file.metadata() or {})
    except RuntimeError as error:
        # The file itself may be intact: torch raises RuntimeError when it runs out of memory.
        raise RunFailed(f"cannot read {path}: {first_line(error)}; fix this and try again") from error
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise Damaged(f"{path} cannot be read ({first_line(error)})") from None


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of a text and of named tensors, independent of their order."""
    sha256 = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        sha256.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        sha256.update(value.contiguous().reshape(-1).view(uint8).numpy().data)
    return sha256.hexdigest()

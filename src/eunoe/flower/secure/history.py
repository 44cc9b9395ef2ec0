"""The sums that a client has helped to unmask, on its own disk.

A server that was killed repeats a round, and so may unmask two sums of the same vectors. If they are not over
the same clients, their difference is what only some of them sent. So a client helps with a round again only
if its own vector and the clients of the sum are the same: then the second sum is the first.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from eunoe.errors import InputError
from eunoe.system.files import read_json, write_text


def digest(vector: bytes) -> bytes:
    """What identifies a client's vector."""
    return hashlib.sha256(vector).digest()


def allow_once(folder: Path, client: int, round: int, vector: bytes, alive: Iterable[int]) -> None:
    """Note the sum of a round, given the digest of this client's vector; refuse another one of that round."""
    path = folder / f"sums-{client}.json"
    known = read_json(path)
    this = hashlib.sha256(vector + json.dumps(sorted(alive)).encode()).hexdigest()
    if known.setdefault(str(round), this) != this:
        raise InputError(
            f"it has helped to unmask another sum of round {round}; it does so again only for the same one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(known))

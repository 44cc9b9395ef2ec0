"""The sums that a client has helped to unmask, on its own disk.

A server that was killed repeats a round, and a second run of a config repeats its first round, since vectors
follow from seed, round and model. Two sums of the same vectors over different clients differ by the vectors
of some of them. So a client helps again with the same round of a run, or with the same vector in any run,
only if vector and clients are the same: then the second sum is the first.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from eunoe.errors import InputError
from eunoe.flower.secure.protocol import Session
from eunoe.system.files import read_json, write_text


def vector_digest(model: bytes, vector: bytes) -> bytes:
    """Return what identifies a client's vector, from the model it started from and the vector.

    The model is part of it: a client that learns nothing sends the same vector in every round, and must be
    able to help with all of them.
    """
    return hashlib.sha256(hashlib.sha256(model).digest() + vector).digest()


def allow_once(folder: Path, client: int, session: Session, vector: bytes, alive: Iterable[int]) -> None:
    """Record a sum, given the digest of this client's vector; refuse another one with it or of its round."""
    path = folder / f"sums-{client}.json"
    this = hashlib.sha256(vector + json.dumps(sorted(alive)).encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    # The server may ask in two runs at once.
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_json(path)
        same = {
            f"{session.run}/{session.round}": f"of round {session.round}",
            vector.hex(): "with the same vector",
        }
        for key, which in same.items():
            if known.setdefault(key, this) != this:
                raise InputError(f"it has already helped to unmask a different sum {which}")
        write_text(path, json.dumps(known))

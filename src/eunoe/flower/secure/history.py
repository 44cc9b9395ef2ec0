"""What a client has done with its secrets and vectors, on its own disk.

Flower stores a node's memory after the reply was sent, so memory may be lost or used twice. What a client
must not do twice is therefore on the disk before it replies:

- a set of secrets has one list of keys, one masked vector and one signed statement
- a run has one description of the federation's data: whether a client's own data fit it depends on them
- a round of a run has one model that is trained, one vector, and one set of clients whose vectors are summed
- a vector is in sums over one set of clients, whatever the run: two sums over different clients differ by the
  vectors of some of them

A killed server repeats a round, and a second run of a config repeats the first: same vectors, same sums.
"""

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from eunoe.config.schema import Config
from eunoe.errors import InputError
from eunoe.flower.secure.protocol import Secrets, Session
from eunoe.system.files import lock_file, make_folder, read_json, write_text

NEW_RUN = "change the config, such as its seed, for a new run"


def run_identity(config: Config) -> str:
    """Return the name of a config's run, which a server cannot choose."""
    content = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def vector_digest(model: bytes, vector: bytes) -> bytes:
    """Return what identifies a client's vector, of which one that learns nothing has the same every round."""
    return hashlib.sha256(hashlib.sha256(model).digest() + vector).digest()


class History:
    """The records of one client in its state folder."""

    def __init__(self, folder: Path, client: int) -> None:
        self.path = folder / f"sums-{client}.json"

    def share(self, secrets: Secrets) -> None:
        """Record that secrets are split into shares."""
        self._record(f"shared/{secrets.name}", token_hex(8), "it has already shared these secrets")

    def describe(self, run: str, facts: bytes) -> None:
        """Record what the server says of the federation's data."""
        self._record(f"{run}/facts", facts.hex(), f"the server describes its data differently; {NEW_RUN}")

    def train(self, session: Session, model: bytes) -> None:
        """Record the model of a round: whether training fails depends on this client's data."""
        refusal = f"it has already trained a different model in round {session.round} of this run; {NEW_RUN}"
        self._record(f"{session.run}/{session.round}/model", model.hex(), refusal)

    def mask(self, secrets: Secrets, session: Session, vector: bytes) -> None:
        """Record that a vector is masked, given its digest."""
        refusal = f"it has already sent a different vector in round {session.round} of this run; {NEW_RUN}"
        with self._records() as records:
            _set(records, f"{session.run}/{session.round}/vector", vector.hex(), refusal)
            _set(records, f"masked/{secrets.name}", token_hex(8), "it has already masked with these secrets")

    def sign(self, secrets: Secrets, statement: bytes) -> None:
        """Record a statement that is signed, or on which shares are revealed."""
        digest = hashlib.sha256(statement).hexdigest()
        self._record(f"signed/{secrets.name}", digest, "it has already signed a different statement")

    def reveal(self, session: Session, vector: bytes, alive: Collection[int], limit: int) -> None:
        """Record a sum, given the digest of this client's vector; `limit` rounds may sum the same clients."""
        clients = hashlib.sha256(json.dumps(sorted(alive)).encode()).hexdigest()
        run, refusal = f"{session.run}/", "it has already helped to unmask a different sum"
        with self._records() as records:
            of_round = f"{refusal} of round {session.round}; {NEW_RUN}"
            _set(records, f"{run}{session.round}/sum", clients, of_round)
            _set(records, f"vector/{vector.hex()}", clients, f"{refusal} with the same vector; {NEW_RUN}")
            sums = [key for key in records if key.startswith(run) and key.endswith("/sum")]
            if sum(records[key] == clients for key in sums) > limit:
                raise InputError(
                    f"it has already helped {limit} times with these clients (max_cohort_rounds)"
                )

    def _record(self, key: str, value: str, refusal: str) -> None:
        with self._records() as records:
            _set(records, key, value, refusal)

    @contextmanager
    def _records(self) -> Iterator[dict[str, str]]:
        """Yield the records, and write them to the disk unless the block fails."""
        make_folder(self.path.parent)
        # The server may ask in two processes at once.
        with lock_file(self.path.with_suffix(".lock"), wait=True):
            records = read_json(self.path)
            yield records
            write_text(self.path, json.dumps(records))


def _set(records: dict[str, str], key: str, value: str, refusal: str) -> None:
    """Set a record; raise InputError if it has another value."""
    if records.setdefault(key, value) != value:
        raise InputError(refusal)

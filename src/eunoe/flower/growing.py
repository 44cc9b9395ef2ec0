"""Data that grow on a node's disk while a federation runs.

Every message reads the node's data as they are, so a client trains on what it has now. Which samples validate
must not depend on how many there are: a sample that a model was trained on would later be used to validate
it. Here the content of a sample decides, wherever it stands in the file or folder.
"""

from dataclasses import replace
from hashlib import blake2b

import numpy as np
from torch import Tensor

from eunoe.core.fields import Fields, Ragged, Stored
from eunoe.data.federation import Federation


def split_by_content(one_client: Federation, seed: int, validation: float) -> Federation:
    """A federation of one client whose samples validate with this probability, by what they contain."""
    rows = one_client.order
    draws = np.array([_draw(sample_bytes(one_client.data.train.x, int(row)), seed) for row in rows])
    validates = draws < validation
    if validates.all():
        # A client with very few samples trains on them.
        validates[:] = False
    return replace(
        one_client,
        order=np.concatenate([rows[~validates], rows[validates]]),
        train_end=np.array([int((~validates).sum())]),
        validation_end=np.array([len(rows)]),
    )


def _draw(content: bytes, seed: int) -> float:
    """A number in [0, 1) that is the same for the same content."""
    digest = blake2b(content, digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") / 2**64


def sample_bytes(stored: Stored, row: int) -> bytes:
    """The content of one sample."""
    if isinstance(stored, Fields):
        return b"".join(sample_bytes(field, row) for field in stored.values)
    if isinstance(stored, Ragged):
        return bytes(stored.values[int(stored.offsets[row]) : int(stored.offsets[row + 1])].numpy().tobytes())
    assert isinstance(stored, Tensor)
    return bytes(stored[row].numpy().tobytes())

"""A hub made of local parquet files of the schema that the Hugging Face hub uses."""

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from eunoe.data.sources import hub
from eunoe.data.sources.hub import HubSpec, RemoteFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def png(array: Any, mode: str | None = None) -> bytes:
    """An array as an encoded picture."""
    out = io.BytesIO()
    picture = Image.fromarray(np.asarray(array, np.uint8))
    (picture.convert(mode) if mode else picture).save(out, "PNG")
    return out.getvalue()


def pictures(images: Sequence[Any]) -> pa.Array:
    """Pictures as the `datasets` library stores them: a struct of the encoded bytes and a file name."""
    cells = [{"bytes": image if isinstance(image, bytes) else png(image), "path": None} for image in images]
    return pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def parquet(columns: dict[str, Any], names: dict[str, Sequence[str]] | None = None) -> bytes:
    """A parquet file of these columns, with class names in the metadata where they are given."""
    features = {key: {"names": list(value), "_type": "ClassLabel"} for key, value in (names or {}).items()}
    table = pa.table(columns).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


@dataclass
class FakeHub:
    """Answers as the hub would for one repository, and records the requests."""

    content: dict[str, bytes]
    commit: str = COMMIT
    damaged: bool = False
    requests: list[tuple[str, str]] = field(default_factory=list)

    def files(self, repo: str, revision: str) -> tuple[str, list[RemoteFile]]:
        self.requests.append((repo, revision))
        return self.commit, [
            RemoteFile(path, len(data), hashlib.sha256(data).hexdigest())
            for path, data in self.content.items()
        ]

    def open(self, repo: str, commit: str, path: str) -> BinaryIO:
        assert commit == self.commit
        data = self.content[path]
        return io.BytesIO(data[:-1] + b"?" if self.damaged else data)

    def serving(self) -> Any:
        """A block in which data sets are downloaded from here."""
        return mock.patch.multiple(hub, list_files=self.files, open_file=self.open)


def fetch_from(client: FakeHub, spec: HubSpec, target: Path, **options: Any) -> None:
    """Fetch a data set from this hub."""
    with client.serving():
        hub.fetch(spec, target, **options)

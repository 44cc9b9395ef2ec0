"""Signing an app: nodes run only what the operator has signed, whoever controls the server.

Flower's nodes verify signatures, but its own commands get signed apps from Flower's hub only. Here the
server's proxy answers in the hub's place, with the files that are written here.
"""

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

from flwr.cli.build import build_fab_from_disk
from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign

from eunoe.config.schema import make_config
from eunoe.config.settings import read_config
from eunoe.errors import InputError
from eunoe.flower.credentials import key_name, read_signing_key
from eunoe.system.files import replacing, write_text


class Signed(NamedTuple):
    """A signed app: the name by which `flwr run` finds it, and the SHA-256 of its bundle."""

    name: str
    digest: str


def sign(folder: Path, key_path: Path) -> Signed:
    """Bundle the app in a folder and sign it; write both to its subfolder `signed`."""
    key = read_signing_key(key_path)
    name, place = _identity(read_config(folder / "pyproject.toml"))
    make_config(read_config(folder / "config.toml"))
    try:
        bundle = build_fab_from_disk(folder)
    except ValueError as error:
        raise InputError(f"{folder} is not a Flower app: {' '.join(str(error).split())}") from None
    now, digest = int(time.time()), hashlib.sha256(bundle)
    signature = base64.urlsafe_b64encode(key.sign(create_message_to_sign(digest.digest(), now)))
    proof = {"public_key_id": key_name(key.public_key()), "signature": signature.decode(), "signed_at": now}
    (folder / "signed").mkdir(exist_ok=True)
    with replacing(folder / "signed" / "app.fab") as partial:
        partial.write_bytes(bundle)
    answer = {"fab_url": f"{place}/app.fab", "verifications": [proof]}
    write_text(folder / "signed" / "app.json", json.dumps(answer) + "\n")
    return Signed(name, digest.hexdigest())


def _identity(project: dict[str, Any]) -> tuple[str, str]:
    """An app's name with its version, and where the server finds its bundle."""
    try:
        publisher, place = project["tool"]["flwr"]["app"]["publisher"], project["tool"]["eunoe"]["apps"]
        return f"@{publisher}/{project['project']['name']}=={project['project']['version']}", str(place)
    except (KeyError, TypeError) as error:
        raise InputError(
            f"pyproject.toml has no {error}; sign a folder that eunoe flower init has written"
        ) from None

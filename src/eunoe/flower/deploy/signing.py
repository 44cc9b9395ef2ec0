"""Sign an app: nodes run only apps signed by the operator, whoever controls the server.

Flower's nodes verify signatures, but its commands fetch signed apps from Flower's hub only. Here the server's
proxy answers in place of the hub, with the two files written by `sign`.
"""

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

from flwr.cli.build import build_fab_from_disk
from flwr.cli.utils import collect_files
from flwr.supercore.primitives.asymmetric_ed25519 import create_message_to_sign

from eunoe.config.schema import make_config
from eunoe.config.settings import read_config, read_stored_config
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import key_name, read_signing_key
from eunoe.system.files import check_regular, replacing, write_text


def sign(folder: Path, key_path: Path) -> tuple[str, str]:
    """Bundle and sign the app in a folder, into its subfolder `signed`.

    Returns the name to pass to `flwr run` and the SHA-256 of the bundle.
    """
    key = read_signing_key(key_path)
    name, url = _read_identity(read_config(folder / "pyproject.toml"))
    make_config(read_stored_config(folder / "config.toml"))
    try:
        for path in collect_files(folder.resolve()).values():
            if not path.is_socket():
                check_regular(path)
        bundle = build_fab_from_disk(folder)
    except ValueError as error:
        raise InputError(f"{folder} is not a Flower app: {' '.join(str(error).split())}") from None
    now, digest = int(time.time()), hashlib.sha256(bundle)
    signature = base64.urlsafe_b64encode(key.sign(create_message_to_sign(digest.digest(), now)))
    proof = {"public_key_id": key_name(key.public_key()), "signature": signature.decode(), "signed_at": now}
    (folder / "signed").mkdir(exist_ok=True)
    with replacing(folder / "signed" / "app.fab") as partial:
        partial.write_bytes(bundle)
    answer = {"fab_url": f"{url}/app.fab", "verifications": [proof]}
    write_text(folder / "signed" / "app.json", json.dumps(answer) + "\n")
    return name, digest.hexdigest()


def _read_identity(project: dict[str, Any]) -> tuple[str, str]:
    """Read an app's name with its version, and the URL of the folder with its bundle."""
    try:
        publisher, url = project["tool"]["flwr"]["app"]["publisher"], project["tool"]["eunoe"]["apps"]
        return f"@{publisher}/{project['project']['name']}=={project['project']['version']}", str(url)
    except (KeyError, TypeError) as error:
        raise InputError(f"pyproject.toml has no {error}; sign a folder of eunoe flower init") from None

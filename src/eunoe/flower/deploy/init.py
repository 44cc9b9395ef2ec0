"""Write a ready-to-run Flower app: configuration, server, client, TLS, proxy, start script, node folders."""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths, apply_settings, read_config
from eunoe.config.toml import to_toml
from eunoe.errors import InputError
from eunoe.flower.deploy.credentials import (
    LOOPBACK,
    general_names,
    make_server_certificate,
    make_signing_key,
    trusted_entities,
)

logger = logging.getLogger(__name__)

# Default port of node 0's SuperNode for the app process that it starts; node K uses this one plus K.
FIRST_APP_PORT = 9094

# The module paths must not change: every deployment folder imports them.
APP = '''\
"""The {role} app of this federation."""

from pathlib import Path

from eunoe.flower.{role} import {role}_app

app = {role}_app(Path(__file__).with_name("config.toml"))
'''

# Only under secure aggregation: nodes sign the keys that they publish and verify those of their peers.
README_PEERS = """ When all keys are there, send the folder to every node as `peers`, but not
   through the server."""
NODE_CONFIG_PEERS = ' key=\\"$PWD/node-@node@.key\\" peers=\\"$PWD/peers\\"'


def init(
    folder: Path,
    nodes: int = 3,
    hosts: Sequence[str] = LOOPBACK,
    port: int = 8443,
    config: Path | None = None,
) -> list[Path]:
    """Write the app of a federation to a new folder; return the files written.

    Nodes make their own keys, so there are none. Changes to the config that the nodes require are logged.
    """
    if nodes < 1:
        raise InputError(f"a federation needs at least 1 node, not {nodes}")
    # On one machine the nodes take the ports that follow; on several the SuperLink and the signed app do.
    highest = 65535 - max(nodes, 2)
    if not 1 <= port <= highest:
        raise InputError(f"port {port} leaves no room for {nodes} nodes; use a port up to {highest}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; name a new folder")
    general_names(hosts)
    values: dict[str, object] = {
        **{"nodes": nodes, "last": nodes - 1, "quorum": max(1, nodes - 1)},
        **{"host": hosts[0], "hosts": ", ".join(hosts), "port": port, "link": port + 1, "apps": port + 2},
    }
    text, secure = render("config.toml", values), False
    if config is not None:
        original = read_config(config)
        adapted = adapt_config(original, nodes)
        text = config.read_text("utf-8-sig") if adapted == original else to_toml(adapted)
        secure = make_config(adapted).secure_aggregation is not None
    learns = render("learns_secure.md" if secure else "learns.md", values)
    peers = README_PEERS if secure else ""
    contents = {
        "config.toml": text,
        "pyproject.toml": render("pyproject.toml", values),
        "server_app.py": APP.format(role="server"),
        "client_app.py": APP.format(role="client"),
        "start.py": render("start.py", values),
        "README.md": render("README.md", {**values, "learns": learns, "peers": peers}),
        "environment.sh": render("environment.sh", values),
        "nginx.conf": render("nginx.conf", values),
        ".gitignore": render("gitignore", values),
    }
    with _all_or_nothing(folder):
        for name, content in contents.items():
            (folder / name).write_text(content, "utf-8")
        make_server_certificate(folder / "certificates", hosts)
        trusted = trusted_entities(make_signing_key(folder / "operator" / "signing.key").public_key())
        for name in ("keys", "proxy", "signed"):
            (folder / name).mkdir(mode=0o700)
        for node in range(nodes):
            bundle = folder / "nodes" / f"node-{node}"
            bundle.mkdir(parents=True)
            shutil.copy(folder / "certificates" / "ca.crt", bundle)
            (bundle / "trusted-entities.yaml").write_text(trusted, "utf-8")
            own = {
                "signs": NODE_CONFIG_PEERS if secure else "",
                "peers": render("node_peers.md", {}) if secure else "",
                "app_port": FIRST_APP_PORT + node,
                "node": node,
            }
            (bundle / "README.md").write_text(render("node.md", values | own), "utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def render(name: str, values: Mapping[str, object]) -> str:
    """Return a template's text with `@key@` replaced by each value."""
    text = files("eunoe.flower.deploy").joinpath("templates", f"{name}.tpl").read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[None]:
    """Create a folder; empty it again if the block fails."""
    existed = folder.exists()
    # Besides keys it will hold clients' models: in the run folder and in the server's database.
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield
    except BaseException:
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not existed:
            folder.rmdir()
        raise


def adapt_config(values: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return the config adapted to the number of nodes, with absolute paths."""
    config = make_config(values)
    partition = config.partition
    has_clients = "clients" in registry.options(registry.find("partition", partition.name))
    if has_clients and partition.options.get("clients") != nodes:
        logger.info("partition.clients is set to %d, one per node; the trial data are divided anew", nodes)
        values = apply_settings(values, [f"partition.clients={nodes}"])
    if isinstance(config.participation, int) and config.participation > nodes:
        logger.info("participation is set to %d, the number of nodes", nodes)
        values = apply_settings(values, [f"participation={nodes}"])
    return absolute_paths(values)

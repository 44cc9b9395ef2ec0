"""Writes a ready-to-run Flower app: configuration, server, client, TLS, proxy, start script, node folders."""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths, apply_settings, read_config
from eunoe.config.toml import to_toml
from eunoe.errors import InputError
from eunoe.flower import parties, template
from eunoe.flower.credentials import (
    LOOPBACK,
    general_names,
    make_server_certificate,
    make_signing_key,
    trusted_entities,
)
from eunoe.flower.proxy import nginx_config

logger = logging.getLogger(__name__)

# Where a SuperNode listens for the app that it starts, unless it is told otherwise.
FIRST_APP_PORT = 9094


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
        raise InputError(f"port {port} leaves no room for {nodes} nodes; take one up to {highest}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; name a new folder")
    general_names(hosts)
    text, secure = template.CONFIG.format(nodes=nodes), False
    if config is not None:
        given = read_config(config)
        values = fitted(given, nodes)
        text = config.read_text("utf-8-sig") if values == given else to_toml(values)
        secure = make_config(values).secure_aggregation is not None
    link, apps = port + 1, port + 2
    facts = {
        **{"nodes": nodes, "last": nodes - 1, "quorum": max(1, nodes - 1)},
        **{"host": hosts[0], "hosts": ", ".join(hosts), "port": port, "link": link, "apps": apps},
    }
    files = {
        "config.toml": text,
        "pyproject.toml": template.PROJECT.format(**facts),
        "server_app.py": template.SERVER,
        "client_app.py": template.CLIENT,
        "start.py": template.START.format(**facts),
        "README.md": template.README.format(
            **facts,
            learns=template.SUMMED if secure else template.SEEN,
            peers=template.PEERS if secure else "",
        ),
        "environment.sh": parties.ENVIRONMENT.format(**facts),
        "nginx.conf": nginx_config(port, link, apps),
        ".gitignore": template.IGNORED,
    }
    with _whole(folder):
        for name, content in files.items():
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
            signs, peers = (parties.SIGNS.format(node=node), parties.PEERS) if secure else ("", "")
            text = parties.NODE.format(
                **facts, node=node, app_port=FIRST_APP_PORT + node, signs=signs, peers=peers
            )
            (bundle / "README.md").write_text(text, "utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """A new or empty folder that is emptied again if writing fails."""
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


def fitted(values: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """The config adapted to the number of nodes, with absolute paths."""
    config = make_config(values)
    partition = config.partition
    divides = "clients" in registry.options(registry.find("partition", partition.name))
    if divides and partition.options.get("clients") != nodes:
        logger.info(
            "partition.clients is %d now, one for each node: the trial data are divided among them", nodes
        )
        values = apply_settings(values, [f"partition.clients={nodes}"])
    if isinstance(config.participation, int) and config.participation > nodes:
        logger.info("participation is %d now: there are no more nodes", nodes)
        values = apply_settings(values, [f"participation={nodes}"])
    return absolute_paths(values)

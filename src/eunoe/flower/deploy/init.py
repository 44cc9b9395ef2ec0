"""Write a ready-to-run Flower app: configuration, server, client, TLS, proxy, start script, node folders."""

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths, apply_settings, read_config, to_toml
from eunoe.errors import InputError
from eunoe.flower.deploy import credentials
from eunoe.system.files import make_folder, read_text
from eunoe.text import fill_template

logger = logging.getLogger(__name__)

# Default port of node 0's SuperNode for the app process that it starts; node K uses this one plus K.
FIRST_APP_PORT = 9094


def init(
    folder: Path,
    nodes: int = 3,
    hosts: Sequence[str] = credentials.LOOPBACK,
    port: int = 8443,
    config: Path | None = None,
) -> None:
    """Write the app of a federation to a new folder, without the nodes' keys, which they make themselves.

    Changes to the config that the nodes require are logged.
    """
    if nodes < 1:
        raise InputError(f"a federation needs at least 1 node, not {nodes}")
    # On one machine the nodes take the ports that follow; on several the SuperLink and the signed app do.
    highest = 65535 - max(nodes, 2)
    if not 1 <= port <= highest:
        raise InputError(f"port {port} is too high for {nodes} nodes: use a port from 1 to {highest}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: pass a new folder")
    credentials.general_names(hosts)
    values: dict[str, object] = {
        **{"nodes": nodes, "last": nodes - 1, "quorum": max(1, nodes - 1)},
        **{"host": hosts[0], "hosts": ", ".join(hosts), "port": port, "link": port + 1, "apps": port + 2},
    }
    text, secure = render("config.toml", values), False
    if config is not None:
        original = read_config(config)
        adapted = adapt_config(original, nodes)
        text = read_text(config) if adapted == original else to_toml(adapted)
        secure = make_config(adapted).secure_aggregation is not None
    learns = render("learns_secure.md" if secure else "learns.md", values)
    # Under secure aggregation nodes sign the keys that they publish and verify those of their peers.
    peers = render("server_peers.md", {}).rstrip() if secure else ""
    same = ("pyproject.toml", "start.py", "environment.sh", "nginx.conf")
    contents = {name: render(name, values) for name in same} | {
        "config.toml": text,
        # The module paths in it must not change: every deployment folder imports them.
        **{f"{role}_app.py": render("app.py", {"role": role}) for role in ("server", "client")},
        "README.md": render("README.md", {**values, "learns": learns, "peers": peers}),
        ".gitignore": render("gitignore", values),
    }
    with _all_or_nothing(folder):
        key = credentials.make_signing_key(folder / "operator" / "signing.key")
        trusted = credentials.trusted_entities(key.public_key())
        # Besides keys it will hold clients' models: in the run folder and in the server's database.
        folder.chmod(0o700)
        for name, content in contents.items():
            (folder / name).write_text(content, "utf-8")
        credentials.make_server_certificate(folder / "certificates", hosts)
        for name in ("keys", "proxy", "signed"):
            make_folder(folder / name, 0o700)
        for node in range(nodes):
            bundle = folder / "nodes" / f"node-{node}"
            make_folder(bundle)
            shutil.copy(folder / "certificates" / "ca.crt", bundle)
            (bundle / "trusted-entities.yaml").write_text(trusted, "utf-8")
            own = {"node": node, "app_port": FIRST_APP_PORT + node, "signs": "", "peers": ""}
            if secure:
                own["signs"] = f' key=\\"$PWD/node-{node}.key\\" peers=\\"$PWD/peers\\"'
                own["peers"] = render("node_peers.md", {})
            (bundle / "README.md").write_text(render("node.md", values | own), "utf-8")


def render(name: str, values: Mapping[str, object]) -> str:
    """Return a template's text with `@key@` replaced by each value."""
    return fill_template("eunoe.flower.deploy", f"templates/{name}.tpl", values)


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[None]:
    """Restore an empty or missing folder if the block fails."""
    existed = folder.exists()
    try:
        yield
    except InputError:
        # A key exists already: another process is writing the same folder.
        raise
    except BaseException:
        for path in folder.iterdir() if folder.exists() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not existed and folder.exists():
            folder.rmdir()
        raise


def adapt_config(values: Mapping[str, Any], nodes: int) -> dict[str, Any]:
    """Return the config adapted to the number of nodes, with absolute paths."""
    config = make_config(values)
    partition = config.partition
    has_clients = "clients" in registry.options(registry.find("partition", partition.name))
    if has_clients and partition.options.get("clients") != nodes:
        logger.info("set partition.clients to %d, one per node; the trial data are partitioned again", nodes)
        values = apply_settings(values, [f"partition.clients={nodes}"])
    if isinstance(config.participation, int) and config.participation > nodes:
        logger.info("set participation to %d, the number of nodes", nodes)
        values = apply_settings(values, [f"participation={nodes}"])
    return absolute_paths(values)

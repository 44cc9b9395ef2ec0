"""The server of a federation: a Flower ServerApp that runs Eunoe's round loop with remote clients.

It selects, aggregates, evaluates and writes its run folder as in any run. Started again on the same folder it
resumes from its last checkpoint.
"""

import json
import logging
import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.superlink.grid.http_grid import HttpGrid
from pydantic import Field

from eunoe.config.options import Finite, Options
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import read_stored_config
from eunoe.data.checks import Integers
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged, EunoeError, InputError
from eunoe.flower.deploy.credentials import read_node_key
from eunoe.flower.engine import RemoteEngine, RemoteStates
from eunoe.flower.own_data import Facts, encode_facts, server_federation
from eunoe.flower.roster import SMALL_REPLY, GuardedGrid, Roster
from eunoe.flower.secure.engine import SecureRemoteEngine
from eunoe.flower.secure.history import run_identity
from eunoe.flower.wire import is_run_name
from eunoe.simulation.build import UserObjects, assemble, build_method, load_data
from eunoe.simulation.hooks import Record
from eunoe.simulation.resuming import check_config, check_data, resolved, with_loss
from eunoe.simulation.run import Run
from eunoe.simulation.running import PreparedRun, execute
from eunoe.simulation.streams import with_streams
from eunoe.store.folder import check_new
from eunoe.store.run_records import count_participants, format_main_value
from eunoe.system.files import make_folder, read_json, write_text
from eunoe.system.log_lines import log_lines
from eunoe.system.tensor_files import read_tensors
from eunoe.text import read_data

logger = logging.getLogger(__name__)


class RunOptions(Options):
    """How the federation runs, in the section [tool.flwr.app.config] of pyproject.toml."""

    folder: Path = Field(Path("run"), description="The run folder on the server.")
    data: Literal["partition", "own"] = Field(
        "partition", description="Whether clients train on parts of one data set or each on its own."
    )
    growing: bool = Field(False, description="Whether clients' data may grow in the run; needs data = 'own'.")
    clients: int = Field(ge=1, description="Number of clients.")
    keys: Path | None = Field(
        None, description="A folder on the server; only the node with the key of its node-K.pub is client K."
    )
    quorum: int = Field(1, ge=1, description="Minimum number of updates for a round.")
    timeout: Finite = Field(600.0, gt=0, description="Seconds that a round waits for replies.")
    join_timeout: Finite = Field(
        600.0, gt=0, alias="join-timeout", description="Seconds to wait for all clients before round 1."
    )
    validate_on_clients: bool = Field(
        False, alias="validate-on-clients", description="Evaluate also at the clients that agree."
    )


def server_app(config_path: Path) -> ServerApp:
    """Return the Flower ServerApp of a federation with this configuration."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            # Flower forwards the standard output.
            with log_lines(partial(print, flush=True)):
                serve(grid, make_config(read_stored_config(config_path)), run_options(context.run_config))
        except EunoeError as error:
            # Flower prints tracebacks; this message is meant to be read alone.
            raise error.with_traceback(None) from None

    return app


def run_options(values: Any) -> RunOptions:
    """Validate the options of a federation."""
    return RunOptions.read(values, "[tool.flwr.app.config]")


def serve(grid: Grid, config: Config, options: RunOptions) -> Run:
    """Run a federation to its end, resuming from its last checkpoint if there is one."""
    identity = run_identity(config)
    # Clients keep two states, so the server must checkpoint every round to stay within one of them.
    config = config.model_copy(update={"checkpoint_seconds": 0.0})
    simulation, objects, facts = check_app(config, options), UserObjects(), None
    if simulation is None:
        facts = Facts.of(load_data(config.data), options.clients, options.growing)
    # A grid without a network behind it, as in Flower's simulation, needs no guard.
    connection = GuardedGrid(grid) if isinstance(grid, HttpGrid) else grid
    keys = None
    if options.keys is not None:
        keys = {k: read_node_key(options.keys / f"node-{k}.pub") for k in range(options.clients)}
    roster = Roster(connection, options.clients, RecordDict({**encode_facts(facts)}), keys)
    logger.info("waiting for %d clients", options.clients)
    sizes = read_declared_sizes(options.folder)
    # The clients' own sizes are known once all have joined.
    roster.wait(options.join_timeout, options.clients if facts and sizes is None else options.quorum)
    if facts is not None:
        if sizes is None:
            sizes = np.array([roster.members[client].size for client in range(options.clients)])
        objects = UserObjects(federation=server_federation(config, sizes))
        facts = facts.model_copy(update={"mean_size": float(sizes.mean())})
    simulation = simulation or build_server(config, objects, options)
    if isinstance(connection, GuardedGrid):
        connection.max_bytes = max_reply_bytes(simulation)
    if (privacy := simulation.context.privacy) is not None:
        context = replace(simulation.context, privacy=replace(privacy, secret=True))
        simulation = replace(simulation, context=context)
    kind = RemoteEngine if config.secure_aggregation is None else partial(SecureRemoteEngine, identity)
    engine = kind(
        simulation,
        RemoteStates(options.folder / "states"),
        roster,
        load_run_name(options.folder),
        facts,
        timeout=options.timeout,
        quorum=options.quorum,
        validate=options.validate_on_clients and facts is not None,
    )
    prepared = PreparedRun(config, objects, simulation, options.folder)
    execute(prepared, lambda record: logger.info(format_round(record)), engine)
    return prepared.result()


def check_app(config: Config, options: RunOptions) -> Simulation | None:
    """Check what does not depend on clients' own data; return the simulation unless it depends on them."""
    # A federation writes this file first, and nothing else writes it.
    if not (options.folder / "flower.json").exists():
        check_new(options.folder)
    check_options(config, options)
    return None if options.data == "own" else build_server(config, UserObjects(), options)


def check_options(config: Config, options: RunOptions) -> None:
    """Raise InputError if a federation cannot run this config with these options."""
    own, changing = options.data == "own", config.stream or config.replay is not None
    hidden = config.secure_aggregation if own else None
    broken = {
        "attack": config.attack is not None,
        "own_test": own and config.split.test,
        "own_changes": own and changing,
        # Nodes do not know how many rounds the run has, from which a stream without rounds would follow.
        "open_stream": not own and with_streams(config) != config,
        "hidden_sizes": hidden is not None and hidden.max_samples is None,
        "hidden_mean": hidden is not None and build_method(config).needs_mean_size,
        "private_mean": config.private is not None and config.private.start == "mean",
        "growing_parts": options.growing and not own,
        "growing_hidden": options.growing and hidden is not None,
    }
    if rule := next((rule for rule, value in broken.items() if value), None):
        raise InputError(read_data("eunoe.flower", "rules.toml")[rule].format(method=config.method.name))


def build_server(config: Config, objects: UserObjects, options: RunOptions) -> Simulation:
    """Build the server's simulation, and check it against a run that the folder may hold."""
    simulation, warnings = assemble(config, objects)
    if not simulation.method.aggregates:
        raise InputError(f"method {config.method.name!r} needs no federation: use eunoe run")
    if (count := len(simulation.federation)) != (wanted := options.clients):
        raise InputError(f"the partition has {count} clients, but pyproject.toml has {wanted}")
    if (options.folder / "config.toml").exists():
        check_config(options.folder, make_config(resolved(with_loss(config, simulation), objects)))
        check_data(options.folder, simulation)
    if config.private is not None:
        warnings.append("private: the server evaluates with the initial part; see validate-on-clients")
    for warning in warnings:
        logger.warning(warning)
    return simulation


def max_reply_bytes(simulation: Simulation) -> int:
    """Return the size limit of a reply: twice its vectors as float64, and room for what is around them."""
    uploads = simulation.method.uploads(simulation.context).values()
    sizes = [vector.numel() for vector in simulation.model.weights.vectors().values()]
    masked = 0 if simulation.secure is None else simulation.secure.fixed_point.size
    return SMALL_REPLY + 2 * 8 * max(masked, sum([*sizes, *(upload.size for upload in uploads)]))


def read_declared_sizes(folder: Path) -> Integers | None:
    """Return the sizes that the clients of a run reported, if it has started."""
    path = folder / "partition.safetensors"
    declared = read_tensors(path)[0].get("declared") if path.exists() else None
    if declared is None:
        return None
    if declared.dtype != torch.int64 or declared.dim() != 1 or not bool((declared > 0).all()):
        raise Damaged(f"{path} does not have the sizes of the clients; restore it")
    return declared.numpy()


def load_run_name(folder: Path) -> str:
    """Return the unique name of a run, so that clients do not use another run's state; create it if new."""
    path = folder / "flower.json"
    if not path.exists():
        make_folder(folder)
        write_text(path, json.dumps({"run": secrets.token_hex(16)}) + "\n")
    name = read_json(path).get("run")
    if not is_run_name(name):
        raise Damaged(f"{path} has no name of the run; restore it, or name another folder")
    return str(name)


def format_round(record: Record) -> str:
    """Format a round as one line."""
    parts = [f"round {record['round']}: {count_participants(record)} clients"]
    parts += [f"{key} {format_main_value(record[key])}" for key in ("test", "validation") if key in record]
    if (lost := (record.get("forgetting") or {}).get("round")) is not None:
        parts.append(f"round forgetting {lost:.4f}")
    if (spent := (record.get("privacy") or {}).get("epsilon")) is not None:
        parts.append(f"epsilon {spent:.2f}")
    parts += [f"dropped: client {entry['client']} ({entry['reason']})" for entry in record["dropped"]]
    return ", ".join(parts)

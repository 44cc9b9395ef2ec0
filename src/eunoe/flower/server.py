"""The server of a federation: a Flower ServerApp that runs Eunoe's round loop with clients elsewhere.

It chooses, merges, measures and writes its run folder as any run does. Started again on the same folder it
goes on at its last checkpoint.
"""

import json
import logging
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid, ServerApp
from pydantic import Field, ValidationError
from safetensors.numpy import load_file

from eunoe.config.messages import explain
from eunoe.config.options import Finite, Options
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import read_config
from eunoe.data.federation import Integers
from eunoe.errors import EunoeError, InputError
from eunoe.flower.credentials import read_node_key
from eunoe.flower.engine import ClientValidation, Remote, RemoteStates, RemoteTrainer
from eunoe.flower.own_data import Facts, facts_out, server_federation
from eunoe.flower.roster import Roster
from eunoe.runs.assembly import Given, assemble, load_data, resolved
from eunoe.runs.folder import check_new
from eunoe.runs.loop import Record
from eunoe.runs.resuming import check_config, check_data
from eunoe.runs.run import Run, execute
from eunoe.system.files import write_text
from eunoe.training.simulation import Simulation

logger = logging.getLogger(__name__)


class RunOptions(Options):
    """How the federation runs, in the section [tool.flwr.app.config] of pyproject.toml."""

    folder: Path = Field(Path("run"), description="The run folder on the server.")
    data: Literal["partition", "own"] = Field(
        "partition", description="Whether clients train on parts of one data set or each on its own."
    )
    clients: int = Field(ge=1, description="Number of clients.")
    keys: Path | None = Field(
        None, description="A folder on the server; only the node with the key of its node-K.pub is client K."
    )
    quorum: int = Field(1, ge=1, description="Least number of updates that make a round.")
    timeout: Finite = Field(600.0, gt=0, description="Seconds that a round waits for answers.")
    join_timeout: Finite = Field(
        600.0, gt=0, alias="join-timeout", description="Seconds to wait for all clients before round 1."
    )
    validate_on_clients: bool = Field(
        False, alias="validate-on-clients", description="Evaluate also at the clients that agree."
    )


def server_app(config_path: Path) -> ServerApp:
    """The Flower app of the server of a federation with this configuration."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            with _shown():
                serve(grid, make_config(read_config(config_path)), run_options(context.run_config))
        except EunoeError as error:
            # Flower shows where an exception came from; this one says all by itself.
            raise error.with_traceback(None) from None

    return app


def run_options(values: Any) -> RunOptions:
    """The checked options of a federation."""
    try:
        return RunOptions.model_validate(dict(values))
    except ValidationError as error:
        raise InputError(f"[tool.flwr.app.config]: {explain(error)}") from None


def serve(grid: Grid, config: Config, options: RunOptions) -> Run:
    """Run a federation to its end, from its last checkpoint if it has one."""
    check_folder(options.folder)
    if config.attack is not None:
        raise InputError("attack belongs to simulations: leave it out of a federation's config.toml")
    # Clients keep two states, so the server must not fall behind them by more than one round.
    config = config.model_copy(update={"checkpoint_seconds": 0.0})
    if options.data == "own" and config.split.test:
        raise InputError("with data = 'own' no client is asked for its test part: set split.test to 0")
    facts = Facts.of(load_data(config.data), options.clients) if options.data == "own" else None
    # What is wrong shows now, if it can be seen before all clients have come.
    simulation = checked_simulation(config, Given(), options) if facts is None else None
    question = RecordDict({**facts_out(facts)})
    roster = Roster(grid, options.clients, question, node_keys(options))
    logger.info("waiting for %d clients", options.clients)
    sizes = declared_before(options.folder)
    # How much data clients have of their own is known once they all have said it.
    roster.wait(options.join_timeout, options.clients if facts and sizes is None else options.quorum)
    given = Given()
    if facts is not None:
        if sizes is None:
            sizes = np.array([roster.members[client].size for client in range(options.clients)])
        given = Given(federation=server_federation(config, sizes))
        facts = facts.model_copy(update={"mean_size": float(sizes.mean())})
    simulation = simulation or checked_simulation(config, given, options)
    states, run = RemoteStates(options.folder / "states"), run_name(options.folder)
    trainer = RemoteTrainer(
        simulation, states, roster, run, facts, timeout=options.timeout, quorum=options.quorum
    )
    validation = None
    if options.validate_on_clients and facts is not None:
        validation = ClientValidation(simulation.federation.classes, roster, facts, options.timeout)
    engine = Remote(simulation, states, trainer, validation)
    return execute(
        config, given, simulation, options.folder, lambda record: logger.info(line(record)), engine
    )


def assemble_for(
    options: RunOptions, config: Config, given: Given | None = None
) -> tuple[Simulation, list[str]]:
    """The simulation of a federation's server, and what it warns of."""
    simulation, warnings = assemble(config, given)
    if len(simulation.federation) != options.clients:
        raise InputError(
            f"the partition of config.toml has {len(simulation.federation)} clients and pyproject.toml says "
            f"{options.clients}: they must be the same number"
        )
    return simulation, warnings


def checked_simulation(config: Config, given: Given, options: RunOptions) -> Simulation:
    """The simulation of a federation's server, if it also fits the run that the folder may hold."""
    simulation, warnings = assemble_for(options, config, given)
    if (options.folder / "config.toml").exists():
        check_config(options.folder, make_config(resolved(config, given)))
        check_data(options.folder, simulation)
    for warning in warnings:
        logger.warning(warning)
    return simulation


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a federation's run."""
    # It is what a federation writes first, and nothing else writes it.
    if not (folder / "flower.json").exists():
        check_new(folder)


def node_keys(options: RunOptions) -> dict[int, bytes] | None:
    """The public key that each client's node must have, if the options say where they are."""
    if options.keys is None:
        return None
    return {client: read_node_key(options.keys / f"node-{client}.pub") for client in range(options.clients)}


def declared_before(folder: Path) -> Integers | None:
    """How many samples the clients of a run said that they have, if it has begun."""
    path = folder / "partition.safetensors"
    return load_file(path).get("declared") if path.exists() else None


def run_name(folder: Path) -> str:
    """A name that no other run has, so that clients do not take up another run's state."""
    path = folder / "flower.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps({"run": secrets.token_hex(16)}) + "\n")
    return str(json.loads(path.read_text())["run"])


def line(record: Record) -> str:
    """A round in a line."""
    parts = [f"round {record['round']}: {len(record['clients'])} clients"]
    for place in ("test", "validation"):
        if place in record:
            parts.append(f"{place} accuracy {record[place]['accuracy']:.3f}")
    if (lost := (record.get("forgetting") or {}).get("round")) is not None:
        parts.append(f"round forgetting {lost:.4f}")
    parts += [f"left out: client {one['client']} ({one['reason']})" for one in record["dropped"]]
    return ", ".join(parts)


@contextmanager
def _shown() -> Iterator[None]:
    """Show what the library logs, a line each, where Flower takes up what its apps print."""
    library, lines = logging.getLogger("eunoe"), logging.StreamHandler(sys.stdout)
    lines.setFormatter(_Lines())
    library.setLevel(logging.INFO)
    library.addHandler(lines)
    try:
        yield
    finally:
        library.removeHandler(lines)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return f"{level}{record.getMessage()}"

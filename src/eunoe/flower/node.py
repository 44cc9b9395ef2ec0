"""A node of a federation: its options, and the training of its client on the data and state of its machine.

Every message is handled by a fresh process, so a client keeps its state on disk: the states after the round
it started from and after the round it trained in, one of which the server names in its next message.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import RecordDict
from pydantic import Field
from torch import Tensor

from eunoe.config.options import Options
from eunoe.config.schema import Config
from eunoe.data.federation import Federation
from eunoe.engines.client import train_client
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged, InputError
from eunoe.flower.own_data import Facts, client_federation, decode_facts
from eunoe.flower.secure.history import History, run_identity
from eunoe.flower.wire import NO_STATE, Order, decode_order
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, build_simulation

logger = logging.getLogger(__name__)


class NodeOptions(Options):
    """The options of a node, set by its operator in --node-config."""

    client: int = Field(ge=0, description="The client's number, from 0, unique among the nodes.")
    state: Path = Field(description="A folder in which the client keeps its state between rounds.")
    data: Path | None = Field(None, description="The client's own data: a .npz with x and y, or a folder.")
    validates: bool = Field(False, alias="validate", description="Evaluate models on its validation part.")
    key: Path | None = Field(None, description="Its private key, to sign messages of secure aggregation.")
    peers: Path | None = Field(None, description="A folder with node-K.pub of every client, to verify these.")


# Replies to a message, from the config, the node's options, the message and the node's memory of the run.
Handler = Callable[[Config, NodeOptions, RecordDict, RecordDict], RecordDict]


def node_options(values: Any) -> NodeOptions:
    """Validate the options of a node."""
    return NodeOptions.read(values, "--node-config")


class Trained(NamedTuple):
    """A client's update, and whether it saved a state with it."""

    simulation: Simulation
    broadcast: Broadcast
    update: Update
    keeps_state: bool


def train_and_save(config: Config, node: NodeOptions, content: RecordDict) -> Trained:
    """Train as a message orders, and save the client's new state."""
    order = decode_order(content)
    client, broadcast, start = node.client, order.broadcast, load_state(node, order)
    simulation = node_simulation(config, node, content).in_round(broadcast.round)
    with private_errors(config):
        update, new = train_client(simulation, client, broadcast, start)
    states = ClientStates(node.state / order.run)
    states.save(client, broadcast.round, new)
    # A newer state belongs to a later message, whose process was faster than this one.
    states.remove_older(client, broadcast.round, order.start)
    return Trained(simulation, broadcast, update, bool(new))


def load_state(node: NodeOptions, order: Order) -> dict[str, Tensor]:
    """Return the state of the client that a message names; empty if it names none."""
    states = ClientStates(node.state / order.run)
    try:
        return {} if order.start is None else states.load(node.client, order.start)
    except (FileNotFoundError, Damaged):
        raise InputError(f"client {node.client} {NO_STATE} {order.start} in {states.folder}") from None


def node_simulation(config: Config, node: NodeOptions, content: RecordDict) -> Simulation:
    """Build the simulation of this client: on its own data, or on its part of the partition."""
    # Only the server has the reference sets.
    built = config.model_copy(update={"retain": ()})
    if (facts := decode_facts(content)) is not None:
        federation = own_federation(config, node, facts)
        with private_errors(config):
            simulation = build_simulation(built, UserObjects(federation=federation))
        data = replace(simulation.context.data, mean_size=facts.mean_size)
        return replace(simulation, context=replace(simulation.context, data=data))
    simulation = build_simulation(built, UserObjects())
    if node.client >= (count := len(simulation.federation)):
        raise InputError(f"client={node.client} is too large: the partition has {count} clients")
    return simulation


def own_federation(config: Config, node: NodeOptions, facts: Facts) -> Federation:
    """Read the client's own data, which must fit the server's facts."""
    if config.secure_aggregation is not None:
        content = facts.model_dump_json(exclude={"mean_size"}).encode()
        history = History(node.state, node.client)
        history.describe(run_identity(config), hashlib.sha256(content).digest())
    with private_errors(config):
        if node.data is None:
            raise InputError(f"client {node.client} has no data path; add data=PATH to --node-config")
        return client_federation(config, facts, node.data, node.client)


@contextmanager
def private_errors(config: Config) -> Iterator[None]:
    """Under secure aggregation, log errors instead of sending them: they may contain values of the data."""
    try:
        yield
    except Exception as error:
        if config.secure_aggregation is None:
            raise
        logger.warning("%s: %s", type(error).__name__, error)
        raise InputError("its data cannot be read or trained on; see its node's log") from None

"""The client of a federation: a Flower ClientApp that trains on the data and state of its machine.

Every message is handled by a fresh process, so a client keeps its state on disk: the states after the round
it started from and after the round it trained in, one of which the server names in its next message.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from pydantic import Field

from eunoe.config.options import Options
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import read_config
from eunoe.engines.base import chunks, evaluate_chunk, joined
from eunoe.engines.client_states import ClientStates
from eunoe.errors import InputError
from eunoe.flower.own_data import client_federation, client_simulation, facts_in
from eunoe.flower.wire import order_in, update_out, weights_in
from eunoe.metrics.base import Rows
from eunoe.runs.assembly import UserObjects, build_simulation
from eunoe.training.client import train_client
from eunoe.training.simulation import Simulation


class NodeOptions(Options):
    """The options of a node, set by its operator in --node-config."""

    client: int = Field(ge=0, description="The client's number, from 0, unique among the nodes.")
    state: Path = Field(description="A folder in which the client keeps its state between rounds.")
    data: Path | None = Field(None, description="The client's own data: a .npz with x and y, or a folder.")
    validates: bool = Field(
        False, alias="validate", description="Whether it evaluates models on its validation part."
    )


def client_app(config_path: Path) -> ClientApp:
    """The Flower ClientApp of a federation with this configuration."""
    app = ClientApp()
    answers: dict[Any, Callable[[Config, NodeOptions, RecordDict], RecordDict]] = {
        app.query: join,
        app.train: train,
        app.evaluate: evaluate,
    }
    for register, answer in answers.items():
        register()(_handler(config_path, answer))
    return app


def _handler(
    config_path: Path, answer: Callable[[Config, NodeOptions, RecordDict], RecordDict]
) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        # One thread, as everywhere: another order of summation would change the bits.
        torch.set_num_threads(1)
        config = make_config(read_config(config_path))
        return Message(answer(config, node_options(context.node_config), message.content), reply_to=message)

    return handle


def node_options(values: Any) -> NodeOptions:
    """Validate the options of a node."""
    return NodeOptions.read(values, "--node-config")


def join(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Answer with the client's number and, with its own data, how many samples it trains on."""
    size = 0
    if (facts := facts_in(content)) is not None:
        size = len(client_federation(config, facts, _own(node), node.client).rows(node.client))
    numbers = {"client": node.client, "size": size, "validates": int(node.validates)}
    return RecordDict({"numbers": MetricRecord(dict(numbers))})


def train(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Train from the server's weights and the state that it names; keep the new state."""
    order, broadcast = order_in(content)
    simulation, client = _simulation(config, node, content), node.client
    states = ClientStates(node.state / order.run)
    try:
        state = {} if order.start is None else states.load(client, order.start)
    except FileNotFoundError:
        raise InputError(
            f"client {client} has no state of round {order.start} in {states.folder}; put it back"
        ) from None
    update, new = train_client(simulation, client, broadcast, state)
    states.save(client, broadcast.round, new)
    for path in states.path(client, broadcast.round).parent.glob(f"{client}-*"):
        round = int(path.name.partition("-")[2].partition(".")[0])
        # A newer state belongs to a later message, whose process was faster than this one.
        if round < broadcast.round and round != order.start:
            # Another process may have removed it, if a message was sent twice.
            path.unlink(missing_ok=True)
    return update_out(update, bool(new))


def evaluate(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Evaluate a model on this client's validation part; only counts are sent, nothing per sample."""
    if not node.validates:
        raise InputError(f"client {node.client} does not agree to evaluate models (validate=true would)")
    simulation = _simulation(config, node, content)
    rows = simulation.federation.rows(node.client, "validation")
    if not len(rows):
        raise InputError(f"client {node.client} has no validation samples; set split.validation above 0")
    where = Rows("clients", rows, np.full(len(rows), node.client))
    weights = weights_in(content.array_records["weights"])
    predictions = joined([evaluate_chunk(simulation, weights, part) for part in chunks(simulation, where)])
    labels = simulation.federation.samples("clients").y.numpy()[rows]
    classes = simulation.federation.classes
    counts = {
        "samples": np.bincount(labels, minlength=classes).tolist(),
        "right": np.bincount(labels[predictions.classes == labels], minlength=classes).tolist(),
    }
    loss = float(predictions.losses.sum())
    return RecordDict({"counts": ConfigRecord(counts), "numbers": MetricRecord({"loss": loss})})


def _simulation(config: Config, node: NodeOptions, content: RecordDict) -> Simulation:
    """The simulation of this client: on its own data, or on its part of the partition."""
    if (facts := facts_in(content)) is not None:
        return client_simulation(config, facts, _own(node), node.client)
    simulation = build_simulation(config, UserObjects())
    if node.client >= len(simulation.federation):
        raise InputError(
            f"client={node.client}, but the partition has clients 0 to {len(simulation.federation) - 1} only"
        )
    return simulation


def _own(node: NodeOptions) -> Path:
    if node.data is None:
        raise InputError(f"client {node.client} has no data path; add data=PATH to --node-config")
    return node.data

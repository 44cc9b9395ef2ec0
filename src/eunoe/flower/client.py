"""The client of a federation: a Flower ClientApp that answers the server's messages."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from eunoe.config.schema import Config, make_config
from eunoe.config.settings import read_config
from eunoe.engines.base import chunks, evaluate_chunk, joined
from eunoe.errors import InputError
from eunoe.flower.node import NodeOptions, node_options, node_simulation, own_path, train_and_keep
from eunoe.flower.own_data import client_federation, facts_in
from eunoe.flower.secure.client import STAGES
from eunoe.flower.wire import update_out, weights_in
from eunoe.metrics.base import Evaluation, Rows
from eunoe.metrics.sums import compute_sums

# Answers a message, given the config, the node's options, the message and what the node remembers of the run.
Answer = Callable[[Config, NodeOptions, RecordDict, RecordDict], RecordDict]


def client_app(config_path: Path) -> ClientApp:
    """The Flower ClientApp of a federation with this configuration."""
    app = ClientApp()
    answers: dict[str, Answer] = {
        "query.default": lambda config, node, content, _: join(config, node, content),
        "train.default": lambda config, node, content, _: train(config, node, content),
        "evaluate.default": lambda config, node, content, _: evaluate(config, node, content),
        **STAGES,
    }
    for kind, answer in answers.items():
        category, _, action = kind.partition(".")
        getattr(app, category)(action)(_handler(config_path, answer))
    return app


def _handler(config_path: Path, answer: Answer) -> Callable[[Message, Context], Message]:
    def handle(message: Message, context: Context) -> Message:
        # One thread, as everywhere: another order of summation would change the bits.
        torch.set_num_threads(1)
        config = make_config(read_config(config_path))
        node = node_options(context.node_config)
        return Message(answer(config, node, message.content, context.state), reply_to=message)

    return handle


def join(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Answer with the client's number and, with its own data, how many samples it trains on.

    Under secure aggregation that is the most that any client has, since its own number stays its own.
    """
    size, secure = 0, config.secure_aggregation
    if (facts := facts_in(content)) is not None:
        size = len(client_federation(config, facts, own_path(node), node.client).rows(node.client))
        if secure is not None and secure.max_samples is not None:
            if size > secure.max_samples:
                raise InputError(
                    f"client {node.client} has more samples than secure_aggregation.max_samples = "
                    f"{secure.max_samples}"
                )
            size = secure.max_samples
    numbers = {"client": node.client, "size": size, "validates": int(node.validates)}
    return RecordDict({"numbers": MetricRecord(dict(numbers))})


def train(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Train from the server's weights and the state that it names; keep the new state."""
    if config.secure_aggregation is not None:
        raise InputError("under secure_aggregation a client sends its update under a mask only")
    done = train_and_keep(config, node, content)
    context = done.simulation.context_in(done.broadcast.round)
    return update_out(done.update, done.keeps, done.simulation.method.uploads(context))


def evaluate(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Evaluate a model on this client's validation part; only sums are sent, nothing per sample."""
    if not node.validates:
        raise InputError(f"client {node.client} does not agree to evaluate models (validate=true would)")
    simulation = node_simulation(config, node, content)
    rows = simulation.federation.rows(node.client, "validation")
    if not len(rows):
        raise InputError(f"client {node.client} has no validation samples; set split.validation above 0")
    where = Rows("clients", rows, np.full(len(rows), node.client))
    weights = weights_in(content.array_records["weights"])
    predictions = joined([evaluate_chunk(simulation, weights, part) for part in chunks(simulation, where)])
    federation = simulation.federation
    labels = federation.samples("clients").y.numpy()[rows]
    place = Evaluation(predictions, labels, federation.classes, task=federation.task)
    counts = {name: values.tolist() for name, values in compute_sums(place).items()}
    loss = float(predictions.losses.sum())
    return RecordDict({"counts": ConfigRecord(counts), "numbers": MetricRecord({"loss": loss})})

"""The client of a federation: a Flower ClientApp that replies to the server's messages."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from eunoe.config.schema import Config, make_config
from eunoe.config.settings import read_stored_config
from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.errors import InputError
from eunoe.flower.node import (
    Handler,
    NodeOptions,
    load_state,
    node_options,
    node_simulation,
    own_federation,
    train_and_save,
)
from eunoe.flower.own_data import decode_facts
from eunoe.flower.secure.client import STAGES, node_credentials
from eunoe.flower.wire import decode_order, decode_vectors, encode_update
from eunoe.metrics.base import Evaluation, Rows
from eunoe.metrics.sums import compute_sums


def client_app(config_path: Path) -> ClientApp:
    """Return the Flower ClientApp of a federation with this configuration."""
    app = ClientApp()
    handlers: dict[str, Handler] = {
        "query.default": lambda config, node, content, _: join(config, node, content),
        "train.default": lambda config, node, content, _: train(config, node, content),
        "evaluate.default": lambda config, node, content, _: evaluate(config, node, content),
        **STAGES,
    }
    for kind, handler in handlers.items():
        category, _, action = kind.partition(".")
        getattr(app, category)(action)(_reply_with(handler, config_path))
    return app


def _reply_with(handler: Handler, config_path: Path) -> Callable[[Message, Context], Message]:
    def reply(message: Message, context: Context) -> Message:
        # One thread, as everywhere: another order of summation would change the bits.
        torch.set_num_threads(1)
        config = make_config(read_stored_config(config_path))
        node = node_options(context.node_config)
        return Message(handler(config, node, message.content, context.state), reply_to=message)

    return reply


def join(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Reply with the client's number and, with its own data, its samples or, if secret, max_samples."""
    size, secure = 0, config.secure_aggregation
    if secure is not None:
        node_credentials(node)
    if (facts := decode_facts(content)) is not None:
        size = len(own_federation(config, node, facts).rows(node.client))
        if secure is not None and secure.max_samples is not None:
            if size > secure.max_samples:
                # Without the number, which the server must not see.
                raise InputError(f"secure_aggregation.max_samples is too small for client {node.client}")
            size = secure.max_samples
    numbers = {"client": node.client, "size": size, "validates": int(node.validates)}
    return RecordDict({"numbers": MetricRecord(dict(numbers))})


def train(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Train from the server's weights and the state that it names; save the new state."""
    if config.secure_aggregation is not None:
        raise InputError("under secure_aggregation a client sends masked updates only")
    done = train_and_save(config, node, content)
    uploads = done.simulation.method.uploads(done.simulation.context)
    return encode_update(done.update, done.keeps_state, uploads, done.simulation.private)


def evaluate(config: Config, node: NodeOptions, content: RecordDict) -> RecordDict:
    """Evaluate a model on this client's validation part; reply with sums only, nothing per sample."""
    if not node.validates:
        raise InputError(f"client {node.client} does not evaluate models: set validate=true in --node-config")
    simulation = node_simulation(config, node, content)
    federation = simulation.federation
    rows = federation.rows(node.client, "validation")
    if not len(rows):
        raise InputError(f"client {node.client} has no validation samples; set split.validation above 0")
    where = Rows("clients", rows, np.full(len(rows), node.client))
    weights = Weights.from_vectors(decode_vectors(content.array_records["weights"]))
    if simulation.private is not None:
        weights = simulation.private.put(weights, load_state(node, decode_order(content)))
    (predictions,) = Engine(simulation, ClientStates(node.state)).evaluate([weights], where)
    labels = federation.samples("clients").y.numpy()[rows]
    evaluation = Evaluation(predictions, labels, federation.classes, task=federation.task)
    counts = {name: values.tolist() for name, values in compute_sums(evaluation).items()}
    loss = float(predictions.losses.sum())
    return RecordDict({"counts": ConfigRecord(counts), "numbers": MetricRecord({"loss": loss})})

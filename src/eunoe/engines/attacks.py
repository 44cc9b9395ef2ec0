"""Attacks: what the bad clients of a simulation do, the same on every engine.

Which clients are bad follows from the seed. label_flip changes their training labels before anything else
sees them; all other attacks change what a client sends, after it has trained and before the server checks it.
"""

from dataclasses import replace

import numpy as np
import torch

from eunoe.config.options import Attack
from eunoe.core.rng import generator, torch_generator
from eunoe.data.federation import Federation
from eunoe.data.samples import Samples
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.server.updates import Broadcast, Update


def bad_clients(attack: Attack, clients: int, seed: int) -> list[int]:
    """Return the bad clients, at least one."""
    count = round(attack.share * clients)
    if not count:
        raise InputError(
            f"attack.share = {attack.share:g} of {clients} clients is none: "
            f"set it to {1 / clients:.3g} or more"
        )
    return sorted(int(client) for client in generator(seed, "attack").choice(clients, count, replace=False))


def flip_labels(federation: Federation, attack: Attack, seed: int) -> Federation:
    """Turn the training labels of bad clients from c to C - 1 - c."""
    labels = federation.data.train.y.clone()
    for client in bad_clients(attack, len(federation), seed):
        rows = torch.from_numpy(federation.rows(client, "train"))
        labels[rows] = federation.classes - 1 - labels[rows]
    return replace(federation, data=replace(federation.data, train=Samples(federation.data.train.x, labels)))


def attack_update(simulation: Simulation, update: Update, broadcast: Broadcast) -> Update:
    """Return an update as the server receives it: the client's own, or what a bad client sends instead."""
    attack, seed = simulation.attack, simulation.context.seed
    if attack is None or attack.name == "label_flip" or update.skipped is not None:
        return update
    if update.client not in bad_clients(attack, simulation.context.data.clients, seed):
        return update
    scale, weights, start = attack.strength, update.weights, broadcast.weights.to("cpu")
    if attack.name == "size_lie":
        return replace(update, size=int(update.size * scale))
    if attack.name == "upload_lie":
        return replace(update, uploads={name: value * scale for name, value in update.uploads.items()})
    change = weights.parameters - start.parameters
    if attack.name == "nan":
        sent = torch.full_like(change, torch.nan)
    elif attack.name == "noise":
        rng = torch_generator(seed, "attack", broadcast.round, update.client)
        noise = torch.randn(change.shape, generator=rng, dtype=change.dtype)
        sent = noise * (scale * torch.linalg.vector_norm(change) / np.sqrt(change.numel()))
    else:
        sent = change * (scale if attack.name == "scaled" else -scale)
    return replace(update, weights=replace(weights, parameters=start.parameters + sent))

"""What a server learns of its clients, and what it costs that it learns less.

    python benchmarks/trust.py labels      whose classes a curious server reads, with and without masks
    python benchmarks/trust.py secure      seconds and bytes of secure aggregation, without a network
    python benchmarks/trust.py federation  seconds of a round in a federation of five nodes on this machine

They print the tables of docs/privacy.md.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from eunoe.config.schema import make_config
from eunoe.core.flat_model import FlatModel
from eunoe.engines.client import Broadcast
from eunoe.engines.client_states import ClientStates
from eunoe.engines.secure_sum import encoded
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.flower.secure.protocol import Participant, Secrets, Session, as_words, unmasked
from eunoe.simulation.build import assemble
from eunoe.simulation.loop import one_round, select_clients
from eunoe.store.state import start_state

torch.set_num_threads(1)

READ = {
    **{loss: {"loss": loss} for loss in ("ce", "tce", "wsm", "fedlc")},
    "ce, labelwise": {"loss": "ce", "method": "labelwise"},
    "wsm, scaffold": {"loss": "wsm", "method": "scaffold"},
}
# Bytes of two public keys and a signature.
KEYS = 32 + 32 + 104
# Numbers that are this much smaller than the largest are what rounding leaves of 0.
ROUNDING = 1e-4


class Seen(NamedTuple):
    """What the server sees of a client, as long as the model: its change, or what a mask makes of it."""

    change: Tensor
    classes: frozenset[int]


class Reading(NamedTuple):
    """How well a server reads: the share of clients whose classes it gets exactly, and the AUC by class."""

    exact: float
    auc: float


def row_scores(model: FlatModel, change: Tensor) -> Tensor:
    """How far each class's row of the classifier has moved."""
    owners = [name.rpartition(".")[0] for name in model.names]
    parts = [part for owner, part in zip(owners, model.views(change), strict=True) if owner == owners[-1]]
    return torch.stack([part.reshape(len(part), -1).abs().amax(1) for part in parts]).amax(0)


def bias_scores(model: FlatModel, change: Tensor) -> Tensor:
    """How far each class's bias has risen, which cross-entropy does to the classes that there are."""
    return model.views(change)[-1].clamp(min=0)


def reading(
    model: FlatModel, seen: Iterable[Seen], scores: Callable[[FlatModel, Tensor], Tensor] = row_scores
) -> Reading:
    """Read each client's classes from what is seen of it."""
    exact, found, true = [], [], []
    for client in seen:
        each = scores(model, client.change)
        read = set(torch.nonzero(each > ROUNDING * each.max()).flatten().tolist())
        exact.append(read == client.classes)
        # Under tce and wsm nothing moves at a client with one class only.
        found.append(each / each.max().clamp(min=1e-30))
        true.append(torch.tensor([label in client.classes for label in range(len(each))]))
    there, numbers = torch.cat(true), torch.cat(found)
    # The chance that a class which is there scores above one which is not.
    above = (numbers[there][:, None] > numbers[~there]).double() + 0.5 * (
        numbers[there][:, None] == numbers[~there]
    )
    return Reading(sum(exact) / len(exact), float(above.mean()))


def classes_of(simulation: Simulation, client: int) -> frozenset[int]:
    return frozenset(torch.nonzero(simulation.federation.counts(client)).flatten().tolist())


def plain_and_masked(values: Mapping[str, Any], rounds: int = 3) -> tuple[Simulation, list[Seen], list[Seen]]:
    """What a server sees of the clients of the last round without secure aggregation, and with it.

    Under scaffold it adds up the changes of a client's control variate instead, since a client moves by those
    of others too.
    """
    simulation, _ = assemble(make_config({**values, "probes": [], "secure_aggregation": {}}))
    state, start = start_state(simulation), torch.zeros(0)
    controls: dict[int, Tensor] = {}
    plain, masked = [], []
    with tempfile.TemporaryDirectory() as folder:
        engine = Serial(simulation, ClientStates(Path(folder)))
        for round in range(1, rounds + 1):
            clients, context = select_clients(simulation, round), simulation.context_in(round)
            broadcast = Broadcast(round, state.weights, simulation.method.broadcast(state.server, context))
            start = state.weights.parameters
            updates = list(engine.train(clients, broadcast))
            for update in updates:
                control = update.uploads.get("control_change")
                if control is not None:
                    controls[update.client] = controls.get(update.client, 0.0) + control
            if round == rounds:
                session = Session("benchmark", round, len(clients) // 2 + 1)
                secrets = {client: Secrets.new() for client in clients}
                keys = {client: one.public for client, one in secrets.items()}
                for update in updates:
                    change = controls.get(update.client, update.weights.parameters - start)
                    classes = classes_of(simulation, update.client)
                    plain.append(Seen(change, classes))
                    words = as_words(encoded(simulation, update, broadcast).numpy())
                    hidden = Participant(session, update.client, secrets[update.client], keys).masked(words)
                    numbers = torch.from_numpy(hidden.view(np.int64)[: len(start)].astype(np.float64))
                    masked.append(Seen(numbers / 2.0**63, classes))
            one_round(simulation, engine, state)
    return simulation, plain, masked


def labels(seeds: Iterable[int]) -> None:
    """The table of what a curious server reads."""
    base = {
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.3},
        "participation": 1.0,
    }
    print("| loss, method | exact | AUC | masked: exact | AUC |\n|---|---|---|---|---|")
    for name, more in READ.items():
        rows = []
        for seed in seeds:
            simulation, plain, masked = plain_and_masked({**base, **more, "seed": seed})
            scores = bias_scores if name == "ce" else row_scores
            rows.append(
                [*reading(simulation.model, plain, scores), *reading(simulation.model, masked, scores)]
            )
        means, stds = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)
        cells = [f"{mean:.3f} ± {std:.3f}" for mean, std in zip(means, stds, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def secure(sizes: Iterable[int], counts: Iterable[int]) -> None:
    """The table of what the protocol costs, for vectors of these sizes and rounds of these many clients."""
    print(
        "| numbers | clients | share | mask | unmask | 20% lost | bytes of the vector | of keys and shares |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for size in sizes:
        for count in counts:
            seconds, extra = protocol_costs(size, count)
            cells = [f"{value:.3f} s" for value in seconds]
            print(f"| {size:,} | {count} | {' | '.join(cells)} | {8 * size:,} | {extra:,} |", flush=True)


def protocol_costs(size: int, count: int) -> tuple[list[float], int]:
    """Seconds of a client to share and to mask and of the server to unmask, and a client's further bytes."""
    clients, session = range(count), Session("benchmark", 1, -(-6 * count // 10))
    secrets = {client: Secrets.new() for client in clients}
    keys = {client: one.public for client, one in secrets.items()}
    here = {client: Participant(session, client, secrets[client], keys) for client in clients}
    words = np.zeros(size, np.uint64)
    seconds = [_timed(here[0].shares), _timed(lambda: here[0].masked(words))]
    sealed = {client: here[client].shares() for client in clients}
    for lost in (0, count // 5):
        alive = list(clients)[lost:]
        revealed = {
            client: here[client].revealed({c: sealed[c][client] for c in clients}, alive)
            for client in alive[: session.threshold]
        }
        seconds.append(_timed(partial(unmasked, session, words, keys, alive, revealed)))
    # Its own keys and all others', what it sends to each, receives from each and reveals of each.
    one_share = len(next(iter(revealed[alive[0]].values())))
    return seconds, KEYS * (1 + count) + 2 * sum(map(len, sealed[0].values())) + one_share * count


def _timed(work: Callable[[], Any]) -> float:
    """The least of three times, in seconds of the processor, since machines are shared."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def federation(rounds: int) -> None:
    """Seconds of a round in a federation of five nodes over TLS, with and without secure aggregation."""
    from eunoe.flower.init import init

    from eunoe.config.toml import to_toml
    from eunoe.flower.loopback import Loopback
    from eunoe.simulation.run import Run

    values = {
        "rounds": rounds,
        "participation": 1.0,
        "partition": {"name": "dirichlet", "clients": 5, "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [16]},
        "engine": {"name": "serial"},
        "probes": [],
    }
    for port, (name, more) in enumerate({"plain": {}, "secure": {"secure_aggregation": {}}}.items()):
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder) / "app"
            init(app, 5, port=8600 + 20 * port)
            (app / "config.toml").write_text(to_toml({**values, **more}))
            Loopback(app, 5, 8600 + 20 * port).run()
            seconds = Run(app / "run").read.status["seconds"]
            print(f"{name}: {seconds / rounds:.1f} s a round", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["labels", "secure", "federation"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000, 11_000_000])
    parser.add_argument("--clients", type=int, nargs="+", default=[5, 20, 50])
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    if chosen.what == "labels":
        labels(chosen.seeds)
    elif chosen.what == "secure":
        secure(chosen.sizes, chosen.clients)
    else:
        federation(chosen.rounds)


if __name__ == "__main__":
    main()

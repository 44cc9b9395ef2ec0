"""What a server learns of its clients, and what secure aggregation, privacy and compression cost.

    python -m benchmarks.privacy [section ...] [--seeds 0 1 2] [--rounds 40]

labels: clients' classes read by a curious server, with masks and without; differences: a client's update as
the difference of two rounds' sums; secure: seconds and bytes of the protocol; check: those of its consistency
check; federation: seconds of a round of five nodes on this machine; clients and writers: accuracy and
forgetting under differential privacy; bytes_digits and bytes_writers: the same with smaller updates;
seconds: a round of each kind. They print the tables of docs/privacy.md.

Accuracy is the mean of the last 5 rounds; forgetting is FedNTD's score, a class's best earlier accuracy minus
its last, as the mean over classes and of the worst class. No option was chosen by the test set.
"""

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.harness import low, rounds_of, run_sections, time_in_turn
from flwr.app import RecordDict
from flwr.common.serde import recorddict_to_proto
from torch import Tensor

from eunoe.analysis.statistics import mean_std
from eunoe.config.options import Privacy, SecureAggregation
from eunoe.config.schema import make_config
from eunoe.core.flat_model import FlatModel
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.flower.deploy.credentials import is_signed, make_node_key, sign_message
from eunoe.flower.secure.messages import encode_bytes, encode_clients, encode_session
from eunoe.flower.secure.protocol import Participant, Secrets, Session, unmask
from eunoe.server.privacy import Accountant
from eunoe.server.secure_sum import encode_update
from eunoe.server.updates import Broadcast
from eunoe.simulation.build import assemble
from eunoe.simulation.loop import run_round, select_clients
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.store.checkpoints import start_state

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
    """What the server sees of a client: its change, plain or masked, and the classes that it has."""

    change: Tensor
    classes: frozenset[int]


class Reading(NamedTuple):
    """Success of a curious server: the share of clients read exactly, and the AUC over classes."""

    exact: float
    auc: float


def row_scores(model: FlatModel, change: Tensor) -> Tensor:
    """Return the largest change in each class's row of the classifier."""
    owners = [name.rpartition(".")[0] for name in model.names]
    parts = [part for owner, part in zip(owners, model.views(change), strict=True) if owner == owners[-1]]
    return torch.stack([part.reshape(len(part), -1).abs().amax(1) for part in parts]).amax(0)


def bias_scores(model: FlatModel, change: Tensor) -> Tensor:
    """Return the rise of each class's bias: cross-entropy raises those of classes that a client has."""
    return model.views(change)[-1].clamp(min=0)


def read_classes(
    model: FlatModel, seen: Iterable[Seen], scores: Callable[[FlatModel, Tensor], Tensor] = row_scores
) -> Reading:
    """Guess each client's classes from what the server sees of it."""
    exact, guesses, truths = [], [], []
    for client in seen:
        score = scores(model, client.change)
        guess = set(torch.nonzero(score > ROUNDING * score.max()).flatten().tolist())
        exact.append(guess == client.classes)
        # Under tce and wsm nothing moves at a client with one class only.
        guesses.append(score / score.max().clamp(min=1e-30))
        truths.append(torch.tensor([label in client.classes for label in range(len(score))]))
    truth, score = torch.cat(truths), torch.cat(guesses)
    # The chance that a class that a client has scores above one that it does not have.
    present, absent = score[truth][:, None], score[~truth]
    above = (present > absent).double() + 0.5 * (present == absent)
    return Reading(sum(exact) / len(exact), float(above.mean()))


def plain_and_masked(values: Mapping[str, Any], rounds: int = 3) -> tuple[Simulation, list[Seen], list[Seen]]:
    """Return what a server sees of the clients of the last round, without secure aggregation and with it.

    Under SCAFFOLD the server adds up the changes of a client's control variate instead, since a client also
    moves by those of others.
    """
    simulation, _ = assemble(make_config({**values, "probes": [], "secure_aggregation": {}}))
    state, start = start_state(simulation), torch.zeros(0)
    controls: dict[int, Tensor] = {}
    plain, masked = [], []
    with tempfile.TemporaryDirectory() as folder:
        engine = Serial(simulation, ClientStates(Path(folder)))
        for round in range(1, rounds + 1):
            now = simulation.in_round(round)
            clients, shared = select_clients(now), now.method.broadcast(state.server, now.context)
            broadcast = Broadcast(round, state.weights, shared)
            start = state.weights.parameters
            updates = list(engine.train(now, clients, broadcast))
            for update in updates:
                control = update.uploads.get("control_change")
                if control is not None:
                    controls[update.client] = controls.get(update.client, 0.0) + control
            if round == rounds:
                session = Session("benchmark", round, len(clients) // 2 + 1)
                secrets = {client: Secrets.new() for client in clients}
                keys = {client: secret.public for client, secret in secrets.items()}
                for update in updates:
                    change = controls.get(update.client, update.weights.parameters - start)
                    counts = simulation.federation.counts(update.client)
                    classes = frozenset(torch.nonzero(counts).flatten().tolist())
                    plain.append(Seen(change, classes))
                    assert now.secure is not None
                    vector = encode_update(now.secure.fixed_point, now.aggregator(broadcast), update)
                    words = vector.numpy().view(np.uint64)
                    hidden = Participant(session, update.client, secrets[update.client], keys).mask(words)
                    numbers = torch.from_numpy(hidden.view(np.int64)[: len(start)].astype(np.float64))
                    masked.append(Seen(numbers / 2.0**63, classes))
            run_round(simulation, engine, state)
    return simulation, plain, masked


def labels(seeds: Sequence[int]) -> None:
    """Clients' classes, as a curious server reads them."""
    base = {
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.3},
        "participation": 1.0,
    }
    print_row("loss, method", "exact", "AUC", "masked: exact", "AUC", head=True)
    for name, more in READ.items():
        rows = []
        for seed in seeds:
            simulation, plain, masked = plain_and_masked({**base, **more, "seed": seed})
            scores = bias_scores if name == "ce" else row_scores
            rows.append(
                [
                    *read_classes(simulation.model, plain, scores),
                    *read_classes(simulation.model, masked, scores),
                ]
            )
        print_row(name, *(mean_std(column, 3) for column in zip(*rows, strict=True)))


def differences(seeds: Sequence[int]) -> None:
    """A client's update as the difference of two sums from the same model, with and without it."""
    values = {
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 10, "alpha": 0.3},
        "participation": 1.0,
        "loss": "wsm",
    }
    print_row("epochs", "batch", "error relative to the update", head=True)
    # Batch 0: all samples of a client.
    for epochs, batch in ((1, 64), (5, 64), (1, 0)):
        errors = []
        for seed in seeds:
            training = {"epochs": epochs, "batch_size": batch}
            more = {"seed": seed, "training": training, "probes": []}
            simulation, _ = assemble(make_config({**values, **more}))
            with tempfile.TemporaryDirectory() as folder:
                engine = Serial(simulation, ClientStates(Path(folder)))
                changes, weights = [], simulation.model.weights.copy()
                for round in (1, 2):
                    broadcast = Broadcast(round, weights, {})
                    updates = engine.train(simulation.in_round(round), list(range(10)), broadcast)
                    start = broadcast.weights.parameters
                    changes.append(torch.stack([u.size * (u.weights.parameters - start) for u in updates]))
            first, second = changes
            for client in range(10):
                others = [one for one in range(10) if one != client]
                seen = first.sum(0) - second[others].sum(0)
                errors.append(float((seen - first[client]).norm() / first[client].norm()))
        print_row(str(epochs), str(batch), mean_std(errors, 2 if batch else 7))


def print_row(*cells: str, head: bool = False) -> None:
    """Print a row of a table in Markdown."""
    print(f"| {' | '.join(cells)} |" + ("\n|" + "---|" * len(cells) if head else ""), flush=True)


def secure() -> None:
    """Seconds and bytes of the protocol, by the size of the vector and the clients in a round."""
    times = "share", "mask", "unmask", "20% lost"
    print_row("numbers", "clients", *times, "bytes of the vector", "of keys and shares", head=True)
    for size in (100_000, 1_000_000, 11_000_000):
        for count in (5, 20, 50):
            seconds, extra = protocol_costs(size, count)
            cells = [f"{value:.3f} s" for value in seconds]
            print_row(f"{size:,}", str(count), *cells, f"{8 * size:,}", f"{extra:,}")


def protocol_costs(size: int, count: int) -> tuple[list[float], int]:
    """Return a client's seconds to share and mask, the server's to unmask, and a client's further bytes."""
    clients, session = range(count), Session("benchmark", 1, SecureAggregation().least(count))
    secrets = {client: Secrets.new() for client in clients}
    keys = {client: secret.public for client, secret in secrets.items()}
    participants = {client: Participant(session, client, secrets[client], keys) for client in clients}
    words = np.zeros(size, np.uint64)
    work: dict[str, Callable[[], object]] = {
        "share": participants[0].shares,
        "mask": lambda: participants[0].mask(words),
    }
    sealed = {client: participants[client].shares() for client in clients}
    for lost in (0, count // 5):
        alive = list(clients)[lost:]
        revealed = {
            client: participants[client].reveal({c: sealed[c][client] for c in clients}, alive)
            for client in alive[: session.threshold]
        }
        work[f"unmask, {lost} lost"] = partial(unmask, session, words, keys, alive, revealed)
    seconds = time_in_turn(work, 3, time.process_time)
    # Its own keys and all others', what it sends to each, receives from each and reveals of each.
    share = len(next(iter(revealed[alive[0]].values())))
    extra = KEYS * (1 + count) + 2 * sum(map(len, sealed[0].values())) + share * count
    return [min(values) for values in seconds.values()], extra


def check() -> None:
    """Messages, bytes and processor seconds of the consistency check, for each client."""
    print_row("clients", "messages", "bytes", "sign", "verify", head=True)
    with tempfile.TemporaryDirectory() as folder:
        make_node_key(Path(folder), "node-0")
        key, public, statement = Path(folder) / "node-0.key", Path(folder) / "node-0.pub", bytes(128)
        signature = sign_message(key, statement)
        for count in (5, 20, 50):
            least = SecureAggregation().least(count)
            alive = encode_clients(range(count))
            messages = [
                RecordDict({"session": encode_session(Session("0" * 64, 1, least)), "alive": alive}),
                RecordDict({"signature": encode_bytes({0: signature})}),
                RecordDict({"signatures": encode_bytes(dict.fromkeys(range(least), signature))}),
            ]
            size = sum(len(recorddict_to_proto(message).SerializeToString()) for message in messages)
            work = {
                "sign": partial(sign_message, key, statement),
                "verify": partial(is_signed, public, statement, signature),
            }
            times = {name: min(values) for name, values in time_in_turn(work, 9, time.process_time).items()}
            cells = [f"{1e3 * times['sign']:.1f} ms", f"{1e3 * least * times['verify']:.1f} ms"]
            print_row(str(count), "2", f"{size:,}", *cells)


def federation(repeats: int = 3) -> None:
    """Seconds of a round in a federation of five nodes over TLS, with and without secure aggregation."""
    from eunoe.config.settings import to_toml
    from eunoe.flower.deploy.init import init
    from eunoe.flower.loopback import Loopback

    values = {
        "rounds": repeats,
        "participation": 1.0,
        "partition": {"name": "dirichlet", "clients": 5, "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [16]},
        "engine": {"name": "serial"},
        "probes": [],
    }
    for name, more, port in (("plain", {}, 8600), ("secure", {"secure_aggregation": {}}, 8620)):
        with tempfile.TemporaryDirectory() as folder:
            app = Path(folder) / "app"
            init(app, 5, port=port)
            (app / "config.toml").write_text(to_toml({**values, **more}))
            Loopback(app, 5, port).run()
            seconds = Run(app / "run").read.status["seconds"]
            print(f"{name}: {seconds / repeats:.1f} s a round", flush=True)


HEADINGS = ("accuracy", "worst class", "forgetting", "forgetting, worst class", "lost per round")
MNIST = {
    "probes": [],
    "split": {"validation": 0.0},
    "evaluation": {"every": 1, "last": 5, "validation": False},
    "engine": "vectorized",
    "method": {"name": "fedavg", "weighting": "uniform"},
    "data": "mnist",
    "model": "logistic",
}
WRITERS = {
    **MNIST,
    "partition": {"name": "natural"},
    "participation": 100,
    "training": {"epochs": 1, "batch_size": 32, "lr": 0.1},
}
CLIP = 0.5


def print_table(title: str, rows: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]) -> None:
    """Run the config of each row over the seeds, and print the table."""
    # The warnings are about what the docs say.
    logging.disable(logging.WARNING)
    print(f"{title}, mean ± standard deviation over seeds {', '.join(map(str, seeds))}\n")
    print_row("setting", *HEADINGS, "epsilon", "kB up a round", head=True)
    for label, values in rows.items():
        numbers = []
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                done = run({**values, "seed": seed}, out=Path(folder) / "run", progress=False)
            history = done.read.per_class
            lost, last = history[:-1].max(0) - history[-1], history[-5:].mean(0)
            numbers.append([last.mean(), last.min(), lost.mean(), lost.max(), done.forgetting])
        record = done.records[-1]
        epsilon = (record.get("privacy") or {}).get("epsilon")
        spent = "–" if epsilon is None else f"{epsilon:.1f}"
        cells = [mean_std(column, 3) for column in zip(*numbers, strict=True)]
        print_row(label, *cells, spent, f"{record['bytes_up'] / 1e3:,.0f}")


def find_noise(epsilon: float, delta: float, clients: int, participants: int, rounds: int) -> float:
    """Return the smallest noise, in hundredths, with which these rounds spend at most epsilon."""
    low, high = 0, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        privacy = Privacy(clip=1.0, noise=middle / 100, delta=delta)
        enough = Accountant(privacy, clients, participants).epsilon(rounds) <= epsilon
        low, high = (low, middle) if enough else (middle, high)
    return high / 100


def clients(seeds: Sequence[int], rounds: int) -> None:
    """Epsilon 2 to 16 with 10,000 clients."""
    base, delta = (
        {
            **MNIST,
            "partition": {"name": "shards", "clients": 10_000, "shards": 2},
            "participation": 500,
            "training": {"epochs": 3, "batch_size": 10, "lr": 0.1},
            "rounds": rounds,
        },
        1e-5,
    )
    rows: dict[str, dict[str, Any]] = {
        "plain": base,
        "clip 0.5": {**base, "privacy": {"clip": CLIP, "noise": 0.0, "delta": delta}},
    }
    for epsilon in (16.0, 8.0, 4.0, 2.0):
        noise = find_noise(epsilon, delta, 10_000, 500, rounds)
        privacy = {"clip": CLIP, "noise": noise, "delta": delta, "epsilon": epsilon}
        rows[f"clip 0.5, noise {noise:g}"] = {**base, "privacy": privacy}
    title = f"10,000 clients of 6 MNIST samples in two classes, 500 a round, {rounds} rounds, logistic "
    print_table(f"{title}regression, delta 1e-5", rows, seeds)


def writers(seeds: Sequence[int], rounds: int) -> None:
    """The 539 writers of MNIST, each a client."""
    base = {**WRITERS, "rounds": rounds}
    rows: dict[str, dict[str, Any]] = {"plain": base}
    for noise in (0.0, 1.0, 2.0, 4.0):
        label = f"clip 0.5, noise {noise:g}" if noise else "clip 0.5"
        rows[label] = {**base, "privacy": {"clip": CLIP, "noise": noise, "delta": 1e-3}}
    title = f"MNIST's 539 writers, 100 a round, {rounds} rounds, logistic regression, delta 1e-3"
    print_table(title, rows, seeds)


def topk(share: float, feedback: bool = True) -> dict[str, Any]:
    return {"compress": {"name": "topk", "share": share, "feedback": feedback}}


TOPK = {"plain": {}, **{f"topk {share:.0%}": topk(share) for share in (0.1, 0.03, 0.01)}}


def bytes_digits(seeds: Sequence[int], rounds: int) -> None:
    """Top-k with and without feedback, and quantization, on digits."""
    base = {
        **{name: value for name, value in MNIST.items() if name not in ("data", "model")},
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
        "participation": 10,
        "training": {"epochs": 3, "batch_size": 32, "lr": 0.1},
        "rounds": rounds,
    }
    kinds = dict(TOPK)
    kinds |= {f"topk {share:.0%}, no feedback": topk(share, False) for share in (0.1, 0.01)}
    kinds |= {f"quantize {bits} bits": {"compress": {"name": "quantize", "bits": bits}} for bits in (8, 2)}
    title = f"digits, 20 clients of few classes (alpha 0.3), 10 a round, the MLP, {rounds} rounds"
    print_table(title, {label: base | more for label, more in kinds.items()}, seeds)


def bytes_writers(seeds: Sequence[int], rounds: int) -> None:
    """Top-k with feedback on the writers of MNIST."""
    base = {**WRITERS, "participation": 50, "rounds": rounds}
    title = f"MNIST's 539 writers, 50 a round, logistic regression, {rounds} rounds"
    print_table(title, {label: base | more for label, more in TOPK.items()}, seeds)


def seconds(repeats: int = 10) -> None:
    """Processor seconds of a round of each kind, with LeNet and 20 of MNIST's writers."""
    private: dict[str, Any] = {
        "method": {"name": "fedavg", "weighting": "uniform"},
        "privacy": {"clip": CLIP, "noise": 1.0, "delta": 1e-3},
    }
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "privacy": private,
        "privacy, noise from the system": private,
        "topk 10%": topk(0.1),
        "quantize 8 bits": {"compress": {"name": "quantize", "bits": 8}},
        "secure aggregation, without masks": {"secure_aggregation": {}},
    }
    base = {**MNIST, "model": "lenet", "partition": {"name": "natural"}, "participation": 20}
    base |= {"training": {"epochs": 1, "batch_size": 32}, "engine": "serial", "method": "fedavg"}
    with ExitStack() as stack:
        work = {}
        for label, more in kinds.items():
            simulation, _ = assemble(make_config({**base, **more}))
            context = simulation.context
            if context.privacy is not None:
                privacy = replace(context.privacy, secret=label.endswith("system"))
                simulation = replace(simulation, context=replace(context, privacy=privacy))
            work[label] = stack.enter_context(rounds_of(simulation))
        times = time_in_turn(work, repeats, time.process_time)
    print_row("round", "seconds", "ratio", head=True)
    for label, values in times.items():
        print_row(label, f"{low(values):.2f}", f"{low(values) / low(times['plain']):.2f}")


if __name__ == "__main__":
    run_sections(
        __doc__,
        [
            labels,
            differences,
            secure,
            check,
            federation,
            clients,
            writers,
            bytes_digits,
            bytes_writers,
            seconds,
        ],
        seeds=(0, 1, 2),
        rounds=40,
    )

"""Shared by the benchmarks: timing, simulations on random data, tables for the docs, the command line.

Programs are measured in turn, again and again, and compared by the 20th percentile of their times: other work
on a shared machine makes a program slower, never faster.
"""

import argparse
import inspect
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from eunoe.config.options import Split
from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.without_labels import Iid
from eunoe.data.samples import DataSet
from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import start_state
from eunoe.system.machine import cores, processor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Ratios on an idle machine by processor and programs, and how much larger one may be before it is named.
STORED = ROOT / "benchmarks" / "ratios.json"
SLOWER = 1.05
measured: dict[str, float] = {}


def time_in_turn(
    work: Mapping[str, Callable[[], object]], times: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Run each piece of work in turn, `times` times; return the seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(times):
        for name, do in work.items():
            start = clock()
            do()
            seconds[name].append(clock() - start)
    return seconds


def low(seconds: Sequence[float]) -> float:
    """Return the 20th percentile."""
    return float(np.percentile(seconds, 20))


def print_ratio(title: str, seconds: Mapping[str, Sequence[float]], limit: float) -> None:
    """Print the times of two programs and the first divided by the second, against the stored ratio."""
    (name, first), (other, second) = ((name, low(values)) for name, values in seconds.items())
    key = f"{title}: {name} / {other}"
    ratio = measured[key] = first / second
    stored = _stored_ratios().get(processor(), {}).get(key, ratio)
    slower = f"; SLOWER by {ratio / stored - 1:.0%}: stored {stored:.2f}" if ratio > SLOWER * stored else ""
    times = f"{name} {first:.4f} s, {other} {second:.4f} s"
    print(f"{title}: {times}, ratio {ratio:.2f} (at most {limit:.3g}){slower}", flush=True)


def store() -> None:
    """Store the ratios that were measured before this section, for later runs to compare with."""
    ratios = _stored_ratios()
    ratios.setdefault(processor(), {}).update({key: round(ratio, 3) for key, ratio in measured.items()})
    STORED.write_text(json.dumps(ratios, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def _stored_ratios() -> dict[str, dict[str, float]]:
    stored: dict[str, dict[str, float]] = json.loads(STORED.read_text("utf-8"))
    return stored


def random_federation(
    clients: int, size: int, shape: tuple[int, ...] = (64,), values: str | None = None
) -> Federation:
    """Build a federation of clients with `size` random samples each: floats, bytes or tokens.

    Without `values`, vectors are floats and everything else is bytes.
    """
    rng, count = np.random.default_rng(0), clients * size
    values = values or ("floats" if len(shape) == 1 else "bytes")
    x: Any = rng.integers(0, 256, (count, *shape), dtype=np.int64 if values == "tokens" else np.uint8)
    if values == "floats":
        x = rng.normal(size=(count, *shape)).astype(np.float32)
    y = np.arange(count) % 10
    data = from_arrays(x, y, x[:10], y[:10], classes=10)
    return Federation.build(data, Iid(clients=clients), split=Split(validation=0.0))


@lru_cache
def few_images(data_set: str = "mnist", images: int = 20_000, test_images: int = 5_000) -> DataSet:
    """Return the first images of a data set, as `data` of a config."""
    data = load(data_set)
    parts = [
        (part.tensor[:size].numpy(), part.y[:size].numpy())
        for part, size in ((data.train, images), (data.test, test_images))
    ]
    return from_arrays(*parts[0], *parts[1], classes=data.classes, mean=data.mean, std=data.std)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def logistic() -> nn.Module:
    return nn.Linear(64, 10)


def build(
    federation: Federation, net: nn.Module, participation: int, stream: Any = (), **training: Any
) -> Simulation:
    """Build the simulation of FedAvg on a federation."""
    base = {"data": "given", "partition": "given", "model": "given", "probes": [], "stream": stream}
    config = make_config({**base, "participation": participation, "training": training})
    return assemble(config, UserObjects(federation=federation, model=net))[0]


@contextmanager
def rounds_of(
    simulation: Simulation, kind: Callable[..., Engine] = Serial, **options: Any
) -> Iterator[Callable[[], object]]:
    """Start an engine; yield a function that runs the next round on it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        kind(simulation, ClientStates(Path(folder)), **options) as engine,
    ):
        state = start_state(simulation)
        yield lambda: run_round(simulation, engine, state)


def replace_in_page(page: str, mark: str, text: str) -> None:
    """Print a table, and put it between its marks on a docs page, with the date and the machine."""
    print(text, flush=True)
    path = DOCS / page
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, _, rest = path.read_text("utf-8").partition(begin)
    after = rest.partition(end)[2]
    machine = f"{processor()}, {cores()} cores, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}"
    day = time.strftime("%d %B %Y").lstrip("0")
    path.write_text(f"{before}{begin}\n\n{text}\n\n*{day}, {machine}.*\n\n{end}{after}", "utf-8")


def write_measured(name: str, values: Mapping[str, Any]) -> None:
    """Write docs/measured/NAME.json, from which the docs make a table."""
    path = DOCS / "measured" / f"{name}.json"
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"written to {path}")


def run_sections(
    doc: str | None,
    sections: Sequence[Callable[..., None]],
    named: Sequence[Callable[..., None]] = (),
    **defaults: Any,
) -> None:
    """Run the sections named on the command line, all but the `named` ones without a name.

    `defaults` are the options of the command, passed to the sections that take a parameter of this name.
    """
    by_name = {section.__name__: section for section in (*sections, *named)}
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(by_name))
    for name, default in defaults.items():
        several = isinstance(default, tuple)
        kind = type(default[0] if several else default)
        parser.add_argument(f"--{name}", type=kind, default=default, nargs="+" if several else None)
    options = vars(parser.parse_args())
    names = options.pop("sections") or [section.__name__ for section in sections]
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"unknown section {unknown[0]!r}: use {', '.join(by_name)}")
    torch.set_num_threads(1)
    for name in names:
        parameters = inspect.signature(by_name[name]).parameters
        by_name[name](**{key: value for key, value in options.items() if key in parameters})

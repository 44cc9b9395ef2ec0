"""`eunoe doctor`: describe this machine and recommend an engine and options."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from eunoe.errors import InputError, first_line, install_command
from eunoe.system.machine import WITHOUT_AMX, Machine, inspect_machine
from eunoe.text import read_data

if TYPE_CHECKING:
    from eunoe.data.federation import Federation

_TEXTS = read_data("eunoe.cli", "doctor.toml")
_GB = 2**30

# What `--benchmark` trains: an MLP on 20 clients of 16 samples, 10 steps of 8 samples each.
_CLIENTS, _SAMPLES, _EPOCHS, _BATCH = 20, 16, 5, 8
_BARE = "bare loop"
# The first half is not measured: the first rounds are slower, whatever the engine.
_ROUNDS = 60


def doctor(
    benchmark: Annotated[
        bool,
        typer.Option("--benchmark", help="Measure engines and devices against a bare loop on a small MLP."),
    ] = False,
) -> None:
    """Describe this machine and recommend an engine and options."""
    from eunoe.cli.tables import show

    machine = inspect_machine()
    show(["item", "value"], describe(machine))
    for line in advice(machine):
        typer.echo(line)
    if benchmark:
        devices = ["cpu", *(accelerator.device for accelerator in machine.accelerators)]
        show(["program", "device", "samples a second", "against a bare loop"], measure(devices))


def measure(devices: list[str], rounds: int = _ROUNDS) -> list[list[str]]:
    """Return a row for each engine and device: its speed, and that divided by a bare loop's on the device."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    rows = []
    for device in devices:
        bare = float("nan")
        for name in (_BARE, "serial", "process", "vectorized"):
            # A process for each: one that uses a GPU must not fork, and a device may end its process.
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                try:
                    speed = pool.submit(samples_per_second, name, device, rounds).result()
                    bare = speed if name == _BARE else bare
                    rows.append([name, device, f"{speed:,.0f}", f"{speed / bare:.2f}"])
                except Exception as error:  # Whatever an untested device raises.
                    rows.append([name, device, f"failed: {first_line(error)}", ""])
    return rows


def samples_per_second(name: str, device: str, rounds: int) -> float:
    """Return how many samples a second an engine, or a bare loop, trains on a device."""
    import torch

    from eunoe.data.federation import Federation
    from eunoe.simulation.running import run

    torch.set_num_threads(1)
    samples = _CLIENTS * _SAMPLES
    x, y = torch.randn(samples, 64).numpy(), torch.arange(samples).numpy() % 10
    federation = Federation.from_arrays(x, y, x[:10], y[:10], partition="iid", clients=_CLIENTS, validation=0)
    if name == _BARE:
        seconds = train_bare(federation, device, rounds)
    else:
        options = {"devices" if name == "process" else "device": device} if device != "cpu" else {}
        done = run(
            federation=federation,
            model="mlp",
            probes=[],
            participation=_CLIENTS,
            rounds=rounds,
            training={"epochs": _EPOCHS, "batch_size": _BATCH, "lr": 0.01},
            engine={"name": name, **options},
            progress=False,
        )
        seconds = [float(timing["train"]) for timing in done.read.timings]
    measured = seconds[rounds // 2 :]
    return len(measured) * samples * _EPOCHS / sum(measured)


def train_bare(federation: "Federation", device: str, rounds: int) -> list[float]:
    """Return the seconds of each round of a training loop as it is usually written."""
    import torch

    from eunoe.models.mlp import MLP

    net = MLP((64,), 10).to(device)
    train, seconds = federation.data.train, []
    rows = [torch.from_numpy(federation.rows(client)) for client in range(_CLIENTS)]
    clients = [(train.tensor[own].to(device), train.y[own].to(device)) for own in rows]
    for _ in range(rounds):
        began = time.perf_counter()
        start = {name: value.clone() for name, value in net.state_dict().items()}
        for x, y in clients:
            net.load_state_dict(start)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for _ in range(_EPOCHS):
                for batch in torch.split(torch.randperm(len(y)), _BATCH):
                    optimizer.zero_grad()
                    loss = torch.nn.functional.cross_entropy(net(x[batch]), y[batch])
                    torch.autograd.backward(loss)
                    optimizer.step()
        # The copy waits for the device.
        next(net.parameters()).detach().cpu()
        seconds.append(time.perf_counter() - began)
    return seconds


def advice(machine: Machine) -> list[str]:
    """Return sentences on the engines and options that fit a machine."""
    first = machine.accelerators[0] if machine.accelerators else None
    has_cuda = first is not None and first.device.startswith("cuda")
    keys = ["cuda"] if has_cuda else ["accelerator"] if first else []
    keys += [*["process"] * (machine.cores > 1), "vectorized"]
    if machine.bf16_crashes:
        keys.append("bf16_crashes")
    elif not machine.bf16 and not has_cuda:
        keys.append("bf16_slow")
    about = {"device": first.device, "memory": first.memory / _GB} if first else {}
    values = {"cores": machine.cores, "setting": WITHOUT_AMX, **about}
    return "\n".join(_TEXTS["advice"][key] for key in keys).format(**values).splitlines()


def describe(machine: Machine) -> list[list[str]]:
    """Return the hardware, the software and the data of a machine, a row for each item."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from eunoe import __version__
    from eunoe.data.builtin import SPECS, TABLES, path_of, table_path
    from eunoe.data.sources.hub import data_folder

    rows = [
        ["processor", f"{machine.processor}, {machine.cores} cores for this process"],
        ["bfloat16 units", "yes" if machine.bf16 else "no"],
        ["memory", f"{machine.free / _GB:.1f} of {machine.memory / _GB:.1f} GB free"],
    ]
    for accelerator in machine.accelerators:
        size = f", {accelerator.memory / _GB:.0f} GB" if accelerator.memory else ""
        rows.append([accelerator.device, f"{accelerator.name}{size}"])
    if not machine.accelerators:
        rows.append(["accelerators", "none available to torch"])
    rows += [["eunoe", __version__], ["python", platform.python_version()], ["torch", version("torch")]]
    for extra, (package, use) in _TEXTS["extras"].items():
        try:
            rows.append([f"extra {extra}", f"{package} {version(package)}: {use}"])
        except PackageNotFoundError:
            rows.append([f"extra {extra}", f"not installed; {install_command(extra)} for {use}"])
    there = [name for name in SPECS if path_of(name).exists()]
    for name in TABLES:
        with suppress(InputError):
            table_path(name)
            there.append(name)
    return [*rows, ["data folder", str(data_folder())], ["data sets in it", ", ".join(there) or "none"]]

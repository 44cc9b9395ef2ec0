"""`eunoe doctor`: describe this machine and recommend an engine and options."""

from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from eunoe.system.machine import WITHOUT_AMX

if TYPE_CHECKING:
    from eunoe.system.machine import Machine

# Extras: a package of each, and its purpose.
_EXTRAS = {
    "ray": ("ray", "engine 'ray': a cluster"),
    "flower": ("flwr", "a real federation"),
    "tune": ("optuna", "eunoe tune"),
    "hf": ("transformers", "pretrained models and adapters"),
    "privacy": ("dp-accounting", "differential privacy"),
    "track": ("tensorboard", "TensorBoard, Weights & Biases, MLflow"),
}
_GB = 2**30


def doctor() -> None:
    """Describe this machine and recommend an engine and options."""
    from eunoe.cli.tables import show
    from eunoe.system.machine import inspect_machine

    machine = inspect_machine()
    show(["item", "value"], [*_hardware(machine), *_software(), *_data()])
    for line in advice(machine):
        typer.echo(line)


def advice(machine: "Machine") -> list[str]:
    """Return sentences on the engines and options that fit a machine."""
    cuda = [gpu for gpu in machine.accelerators if gpu.device.startswith("cuda")]
    lines = []
    if cuda:
        lines.append(
            'engine = { name = "process", devices = "cuda:*", per_device = 2 }: several clients on each GPU; '
            f"raise per_device as long as models and data fit {cuda[0].memory / _GB:.0f} GB."
        )
        lines.append('engine = { name = "vectorized", device = "cuda:0" }: small models, clients in batches.')
    elif machine.accelerators:
        device = machine.accelerators[0].device
        lines.append(f'engine = {{ name = "serial", device = "{device}" }}: networks as large as a ResNet.')
    if machine.cores > 1:
        lines.append(f'engine = "process" (default): {machine.cores} clients at a time, LeNet and larger.')
    lines.append('engine = "vectorized": small models (logistic, mlp, heads), many times faster.')
    if machine.bf16_crashes:
        lines.append(
            f'training.precision = "bf16" needs {WITHOUT_AMX} in the environment: this processor announces '
            "AMX units but does not run them."
        )
    elif not machine.bf16 and not cuda:
        lines.append('training.precision = "bf16" works but is no faster: there are no bfloat16 units.')
    return lines


def _hardware(machine: "Machine") -> list[list[str]]:
    rows = [
        ["processor", f"{machine.processor}, {machine.cores} cores for this process"],
        ["bfloat16 units", "yes" if machine.bf16 else "no"],
        ["memory", f"{machine.free / _GB:.1f} of {machine.memory / _GB:.1f} GB free"],
    ]
    for accelerator in machine.accelerators:
        size = f", {accelerator.memory / _GB:.0f} GB" if accelerator.memory else ""
        rows.append([accelerator.device, f"{accelerator.name}{size}"])
    return rows if machine.accelerators else [*rows, ["accelerators", "none available to torch"]]


def _software() -> list[list[str]]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from eunoe import __version__

    rows = [["eunoe", __version__], ["python", platform.python_version()], ["torch", version("torch")]]
    for extra, (package, use) in _EXTRAS.items():
        try:
            rows.append([f"extra {extra}", f"{package} {version(package)}: {use}"])
        except PackageNotFoundError:
            rows.append([f"extra {extra}", f"not installed; pip install '.[{extra}]' for {use}"])
    return rows


def _data() -> list[list[str]]:
    from eunoe.data.builtin import path_of, table_path
    from eunoe.data.sources.hub import data_folder
    from eunoe.data.specs import SPECS, TABLES
    from eunoe.errors import InputError

    there = [name for name in SPECS if path_of(name).exists()]
    for name in TABLES:
        with suppress(InputError):
            table_path(name)
            there.append(name)
    return [["data folder", str(data_folder())], ["data sets in it", ", ".join(there) or "none"]]

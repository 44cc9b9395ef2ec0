"""What this machine has: processor, memory, accelerators."""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Flags of Linux for units that multiply bfloat16 numbers.
_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}
# Some virtual machines announce these units and end a process that uses them.
_DOUBTFUL = {"amx_bf16"}
_TRY_BF16 = "import torch; torch.nn.functional.linear(*torch.ones(2, 32, 32, dtype=torch.bfloat16))"
WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"


class Accelerator(NamedTuple):
    """A device other than the processor, by its name in torch."""

    device: str
    name: str
    memory: int


class Machine(NamedTuple):
    """A machine as a run finds it; memory in bytes, of which some may be in use."""

    processor: str
    cores: int
    bf16: bool
    bf16_crashes: bool
    memory: int
    free: int
    accelerators: tuple[Accelerator, ...]


def look() -> Machine:
    """What this process may use."""
    units = bool(_BF16 & _flags())
    return Machine(processor(), cores(), units, bf16_crashes(), *memory(), _accelerators())


def cores() -> int:
    """How many cores this process may use; outside Linux, how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> tuple[int, int]:
    """All memory and what is available, a limit of the control group included; 0 where unknown."""
    found: dict[str, int] = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, amount = line.partition(":")
            found[name] = int(amount.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return 0, 0
    total, free = found.get("MemTotal", 0), found.get("MemAvailable", 0)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return total, free
    return min(total, limit), min(free, max(limit - used, 0))


def processor() -> str:
    """The name of the processor."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


@cache
def bf16_crashes() -> bool:
    """Whether a product of bfloat16 numbers ends the process, tried in another one where that is in doubt."""
    if not _DOUBTFUL & _flags():
        return False
    return subprocess.run([sys.executable, "-c", _TRY_BF16], capture_output=True).returncode < 0


def _flags() -> set[str]:
    return set((_cpuinfo("flags") or _cpuinfo("Features")).split())


def _cpuinfo(key: str) -> str:
    """A line of the system's description of the first core; empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def _accelerators() -> tuple[Accelerator, ...]:
    import torch

    found = [
        Accelerator(f"cuda:{index}", properties.name, properties.total_memory)
        for index in range(torch.cuda.device_count())
        for properties in (torch.cuda.get_device_properties(index),)
    ]
    if torch.backends.mps.is_available():
        found.append(Accelerator("mps", "Apple GPU", 0))
    return tuple(found)

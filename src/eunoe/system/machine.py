"""The hardware of this machine, errors of one line for failed allocations, and reuse of freed memory."""

import ctypes
import multiprocessing
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from eunoe.errors import EunoeError, InputError, first_line

# Linux flags of CPUs with bfloat16 multiplication. Some virtual machines announce the unreliable one but kill
# a process that uses it.
_UNRELIABLE = "amx_bf16"
_BF16 = {"avx512_bf16", "bf16", _UNRELIABLE}
_TRY_BF16 = "import torch; torch.nn.functional.linear(*torch.ones(2, 32, 32, dtype=torch.bfloat16))"
WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"


class Accelerator(NamedTuple):
    """A device other than the CPU, by its name in torch."""

    device: str
    name: str
    memory: int


class Machine(NamedTuple):
    """The hardware of a machine; memory in bytes."""

    processor: str
    cores: int
    bf16: bool
    bf16_crashes: bool
    memory: int
    free: int
    accelerators: tuple[Accelerator, ...]


def inspect_machine() -> Machine:
    """Return the hardware that this process may use."""
    has_bf16 = bool(_BF16 & _flags())
    return Machine(processor(), cores(), has_bf16, bf16_crashes(), *memory(), _accelerators())


def cores() -> int:
    """Return the number of cores that this process may use; outside Linux, of all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Return whether this system can fork processes, which worker processes need."""
    return "fork" in multiprocessing.get_all_start_methods()


def memory() -> tuple[int, int]:
    """Return total and available memory, within the control group's limit."""
    import psutil

    memory = psutil.virtual_memory()
    total, free = int(memory.total), int(memory.available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return total, free
    return min(total, limit), min(free, max(limit - used, 0))


def processor() -> str:
    """Return the name of the processor."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


@cache
def bf16_crashes() -> bool:
    """Return whether bfloat16 multiplication kills a process, tested in another one."""
    command = [sys.executable, "-c", _TRY_BF16]
    return _UNRELIABLE in _flags() and subprocess.run(command, capture_output=True).returncode < 0


def _flags() -> set[str]:
    return set((_cpuinfo("flags") or _cpuinfo("Features")).split())


def _cpuinfo(key: str) -> str:
    """Return a line of /proc/cpuinfo for the first core; empty if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def _accelerators() -> tuple[Accelerator, ...]:
    import torch

    accelerators = [
        Accelerator(f"cuda:{index}", properties.name, properties.total_memory)
        for index in range(torch.cuda.device_count())
        for properties in (torch.cuda.get_device_properties(index),)
    ]
    if torch.backends.mps.is_available():
        accelerators.append(Accelerator("mps", "Apple GPU", 0))
    return tuple(accelerators)


# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Earlier versions refuse a threshold above 32 MB.
_ALL, _MOST = 1 << 30, 1 << 25
# Compressed data beyond this size may expand to this many times its bytes.
_LARGE, _EXPANSION = 1 << 29, 100


def keep_freed_memory() -> None:
    """Keep freed memory for the next allocation instead of returning it to the system.

    Every local step allocates the same memory as the one before. Returning it in between costs thousands of
    page faults per client, a tenth of LeNet's training time. This affects the whole process and cannot be
    undone, so only worker processes use it. It has no effect with C libraries other than glibc.
    """
    with suppress(AttributeError, OSError):
        choose = ctypes.CDLL(None).mallopt
        _ = choose(_MMAP_THRESHOLD, _ALL) or choose(_MMAP_THRESHOLD, _MOST)
        choose(_TRIM_THRESHOLD, _ALL)


def check_free(bytes: int, what: str) -> None:
    """Raise InputError if the free memory, where it is known, does not hold so many bytes."""
    _, free = memory()
    if free and bytes > free:
        raise InputError(f"{what} need {bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free")


def check_expansion(bytes: int, stored: int, what: str) -> None:
    """Raise InputError if `stored` compressed bytes expand to so many that they are made to fill memory."""
    if bytes > max(_LARGE, _EXPANSION * stored):
        raise InputError(f"{what} expands to {_EXPANSION} times its size or more: store it uncompressed")


@contextmanager
def within_memory(what: str, kind: type[EunoeError] = InputError) -> Iterator[None]:
    """Convert a failed allocation of Python, NumPy or torch to an error of one line with the amount."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        torch_failed = re.search(r"allocate memory|not enough memory|out of memory|alloc_cpu", text)
        if not (torch_failed or isinstance(error, MemoryError)):
            raise
        wanted = re.search(r"tried to allocate ([\d.]+ ?\w+)", text, re.IGNORECASE)
        amount = f"{wanted[1]} requested" if wanted else first_line(error)
        # Python's own MemoryError has no text.
        raise kind(f"{what} needs more memory than available" + (f" ({amount})" if text else "")) from error

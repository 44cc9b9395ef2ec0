"""`eunoe doctor`: facts of this machine, and what fits others."""

import os

import pytest
import torch
from typer.testing import CliRunner

from eunoe.cli.app import app
from eunoe.cli.doctor import advice, measure, samples_per_second
from eunoe.system.machine import Accelerator, Machine, cores, inspect_machine

GB = 2**30


def test_it_shows_what_this_machine_has() -> None:
    result = CliRunner().invoke(app, ["doctor"], terminal_width=200)
    assert result.exit_code == 0, result.output
    assert f"{cores()} cores for this process" in result.output
    assert torch.__version__ in result.output
    assert 'engine = "vectorized"' in result.output


def test_a_process_may_use_the_cores_it_is_bound_to() -> None:
    machine = inspect_machine()
    assert machine.cores == len(os.sched_getaffinity(0))
    assert 0 < machine.free <= machine.memory


def test_several_gpus_get_several_workers_each() -> None:
    gpus = tuple(Accelerator(f"cuda:{index}", "a GPU", 24 * GB) for index in range(2))
    lines = advice(Machine("a processor", 8, True, False, 64 * GB, 32 * GB, gpus))
    assert 'devices = "cuda:*"' in lines[0]
    assert "24 GB" in lines[0]
    assert not any("no bfloat16 units" in line for line in lines)


def test_one_core_without_bf16_is_not_told_to_use_either() -> None:
    lines = advice(Machine("a processor", 1, False, False, 4 * GB, 2 * GB, ()))
    assert not any('engine = "process"' in line for line in lines)
    assert "no bfloat16 units" in lines[-1]


def test_units_that_crash_are_named() -> None:
    lines = advice(Machine("a processor", 2, True, True, 4 * GB, 2 * GB, ()))
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16" in lines[-1]


@pytest.mark.parametrize("name", ["bare loop", "serial", "vectorized"])
def test_a_program_trains_samples(name: str) -> None:
    assert samples_per_second(name, "cpu", 2) > 0


@pytest.mark.slow
def test_every_engine_is_measured_and_a_failing_device_named() -> None:
    rows = measure(["cpu", "cuda:99"], 2)
    assert [row[0] for row in rows] == ["bare loop", "serial", "process", "vectorized"] * 2
    assert all(float(row[3]) > 0 for row in rows[:4])
    assert all(row[2].startswith("failed: ") for row in rows[4:])

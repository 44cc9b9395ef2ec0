"""The README's code and commands do what it says, in the environment that is installed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.startswith("eunoe ")]


def called(arguments: list[str], folder: Path) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_prints_what_the_readme_says(tmp_path):
    (code,), (expected,) = blocks("python"), blocks("text")
    assert len(code.strip().splitlines()) <= 20
    printed = called(["-c", code], tmp_path)
    numbers = [float(number) for number in re.findall(r"\d\.\d+", printed)]
    # Other processors give other last bits, which training amplifies.
    assert numbers == pytest.approx([float(number) for number in re.findall(r"\d\.\d+", expected)], abs=0.02)
    assert re.sub(r"\d\.\d+", "N", printed) == re.sub(r"\d\.\d+", "N", expected)


def test_the_commands_work_one_after_the_other(tmp_path):
    assert len(commands()) > 5
    for command in commands():
        called(["-m", "eunoe", *shlex.split(command)[1:]], tmp_path)
    assert (tmp_path / "runs/page.html").stat().st_size > 100_000
    assert (tmp_path / "runs/wsm/best.safetensors").exists()


def test_the_config_file_is_one(tmp_path):
    from eunoe.config import make_config, read_config

    (text,) = blocks("toml")
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert make_config(read_config(path)).method.options == {"mu": 0.01}

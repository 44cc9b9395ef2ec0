"""The list of runs that are still missing names experiments, arms and options that exist."""

import shlex
import tomllib
from pathlib import Path

import pytest
from tools.job_queue import Job
from typer.testing import CliRunner

from eunoe.cli.app import app
from eunoe_papers.experiment import Scale
from eunoe_papers.loader import find_experiment

JOBS = Path(__file__).parent.parent.parent / "results" / "jobs.toml"
LISTED = [Job(**job) for job in tomllib.loads(JOBS.read_text("utf-8"))["job"]]


@pytest.mark.parametrize("job", LISTED, ids=[job.name for job in LISTED])
def test_a_listed_run_can_be_planned(job: Job) -> None:
    words = shlex.split(str(job.command))
    assert words[:2] == ["eunoe", "reproduce"]
    given = dict(zip(words[3::2], words[4::2], strict=False))
    scales: dict[str, Scale] = {"full": "full", "medium": "medium", "small": "small"}
    scale, seeds = scales[given.get("--scale", "small")], [int(seed) for seed in given["--seeds"].split(",")]
    planned = find_experiment(words[2]).plan(scale, seeds, only=given.get("--only", ""))
    assert {run.seed for run in planned} == set(seeds)


def test_the_options_of_a_listed_run_are_those_of_the_command() -> None:
    shown = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "200"}).output
    options = {word for job in LISTED for word in shlex.split(str(job.command)) if word.startswith("--")}
    assert all(option in shown for option in options)

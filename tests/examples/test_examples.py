"""Every example runs and prints what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "flower_project.py": r"(?s)FedAvg: .*20 rounds.*numbers of the averaged model.*Local training loses",
    "own_model.py": "Net: accuracy ",
    "ray_cluster.py": "the same bits as on one core: True",
}
# Most of their time is Ray's start.
ON_RAY = {"flower_project.py", "ray_cluster.py"}
# tests/report/test_observer.py, test_bounded_updates.py, test_intents.py and test_shakespeare.py run these.
ELSEWHERE = {"bare_loop.py", "bounded_updates.py", "intents.py", "shakespeare.py"}


def printed(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=folder, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_tested_and_short():
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {*PRINTED, "own_data.py", *ELSEWHERE}
    assert all(len((EXAMPLES / name).read_text().splitlines()) < 100 for name in scripts)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ON_RAY)) for name in PRINTED]
)
def test_it_prints_what_it_promises(tmp_path, name):
    assert re.search(PRINTED[name], found := printed(name, tmp_path)), found


def test_on_own_data_wsm_forgets_less_than_ce(tmp_path):
    numbers = re.findall(r"round forgetting (\S+)", printed("own_data.py", tmp_path))
    ce, wsm = map(float, numbers)
    assert wsm < ce

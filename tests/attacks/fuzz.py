"""Fuzzing: many damaged or senseless inputs, each the same for the same seed and number.

python -m tests.attacks.fuzz configs 10000
python -m tests.attacks.fuzz folders 1000
python -m tests.attacks.fuzz records 1000
python -m tests.attacks.fuzz data 1000
python -m tests.attacks.fuzz tables 1000

Cases run in this process, one after the other. Their outcomes are lines of a file (--out), and a command that
is given again goes on where it stopped; what ended badly is tried again. At the end the outcomes are counted
by what was damaged. Outcomes:

    ran       it worked, and gave what it gives undamaged (folders and .npz files) or may give (configs)
    said      it worked otherwise and said so: a warning
    refused   an error of one line, without control characters
    slow      stopped at the time limit while it trained
    other     it worked and gave something else, in a format without checksums, or anything (records, tables)
    silent    it gave something else without a word           <- must not happen
    unclear   an error of several lines, or with control characters   <- must not happen
    traceback an error that is none of Eunoe's                <- must not happen
"""

import argparse
import json
import logging
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import numpy as np

from eunoe.errors import EunoeError
from eunoe.report.html import write_report
from eunoe.simulation.running import run
from eunoe.text import unprintable
from tests.attacks.fuzz_configs import BASE

BAD = ("silent", "unclear", "traceback")
MEMORY = 8 << 30


class Outcome(NamedTuple):
    """How a case ended: its kind of damage, the outcome, and what was said."""

    kind: str
    outcome: str
    said: str = ""


# A case: from its random numbers and an empty folder, the kind of damage and what is then tried; the action
# gives "ran", "said", "other" or "silent".
Case = Callable[[np.random.Generator, Path], tuple[str, Callable[[], str]]]


class TooSlow(BaseException):
    """Ends a case at its time limit."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    # Of the process's own time, since a busy machine is no reason to stop.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def warnings_of_the_library() -> Iterator[list[str]]:
    """The warnings that are logged inside, and nowhere else."""
    library, heard = logging.getLogger("eunoe"), list[str]()
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    propagates, library.propagate = library.propagate, False
    library.addHandler(handler)
    try:
        yield heard
    finally:
        library.removeHandler(handler)
        library.propagate = propagates


def attempt(case: Case, number: int, seed: int = 0, seconds: float = 3.0) -> Outcome:
    """Carry out one case."""
    home = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    kind = "unknown"
    try:
        kind, action = case(np.random.default_rng([seed, number]), home)
        with limited(seconds), warnings_of_the_library() as heard:
            outcome = action()
            if outcome == "silent" and heard:
                outcome = "said"
            return Outcome(kind, outcome, "; ".join(heard))
    except TooSlow:
        return Outcome(kind, "slow")
    except EunoeError as error:
        text = str(error)
        clear = bool(text) and not unprintable(text)
        return Outcome(kind, "refused" if clear else "unclear", text)
    except Exception:
        return Outcome(kind, "traceback", traceback.format_exc())
    finally:
        shutil.rmtree(home, ignore_errors=True)


def cases(name: str) -> Case:
    """The cases of a name."""
    # Whatever torch imports on first use must not be interrupted.
    run({**BASE, "method": "scaffold"}, progress=False)
    if name == "configs":
        from tests.attacks.fuzz_configs import config_case

        return config_case
    if name in ("folders", "records"):
        from tests.attacks import fuzz_folders

        fuzz_folders.templates()
        return fuzz_folders.folder_case if name == "folders" else fuzz_folders.record_case
    if name == "tables":
        from tests.attacks.fuzz_tables import table_case

        return table_case
    from tests.attacks import fuzz_data

    fuzz_data.templates()
    return fuzz_data.data_case


def table(outcomes: list[Outcome]) -> str:
    """Counts by what was damaged and outcome."""
    counts = Counter((one.kind.partition(": ")[0], one.outcome) for one in outcomes)
    names = sorted({outcome for _, outcome in counts})
    lines = [f"| what | cases | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for kind in [*sorted({kind for kind, _ in counts}), None]:
        cells = [sum(n for (k, o), n in counts.items() if kind in (k, None) and o == name) for name in names]
        lines.append(f"| {kind or 'all'} | {sum(cells)} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Try many damaged or senseless inputs.")
    parser.add_argument("name", choices=["configs", "folders", "records", "data", "tables"])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3.0, help="time limit of a case")
    parser.add_argument("--out", type=Path, help="file of outcomes; by default fuzz-NAME-SEED.jsonl")
    given = parser.parse_args()
    out = given.out or Path(f"fuzz-{given.name}-{given.seed}.jsonl")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    outcomes = [Outcome(*json.loads(line)) for line in out.read_text().splitlines()] if out.exists() else []
    case = cases(given.name)
    # So does what a first report needs.
    notebook = run({**BASE, "rounds": 2}, progress=False)
    write_report([notebook.read], notebook.folder / "report.html")
    # A case that ended badly is tried again.
    for number, one in enumerate(outcomes):
        if one.outcome in BAD:
            outcomes[number] = attempt(case, number, given.seed, given.seconds)
    out.write_text("".join(json.dumps(one) + "\n" for one in outcomes))
    with out.open("a") as file:
        for number in range(len(outcomes), given.count):
            outcomes.append(attempt(case, number, given.seed, given.seconds))
            file.write(json.dumps(outcomes[-1]) + "\n")
            file.flush()
    bad = [(number, one) for number, one in enumerate(outcomes) if one.outcome in BAD]
    for number, one in bad[:20]:
        print(f"case {number}: {one.kind}: {one.outcome}\n{one.said}", file=sys.stderr)
    print(table(outcomes))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

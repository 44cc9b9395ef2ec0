"""One sitting of a run that meets faults: from its start or last checkpoint to its end or the next fault.

Run as `python -m tests.chaos.sitting FOLDER PLAN` where it must not be forked.
"""

import json
import logging
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from eunoe.errors import RunFailed
from eunoe.simulation.build import UserObjects
from eunoe.simulation.running import resume, run
from tests.faults import Faulty
from tests.helpers import Net, blobs
from tests.waiting import until

CLIENTS, PARTICIPANTS = 8, 6
INTERRUPTED, FAILED = 130, 3


def things(plan: dict[str, Any]) -> UserObjects:
    """The federation, model and method of a plan."""
    torch.manual_seed(0)
    method = Faulty(faults=plan["faults"], marks=plan.get("marks", ""), pause=plan.get("pause", 0.0))
    return UserObjects(federation=blobs(clients=CLIENTS), model=Net(), method=method)


def sit(folder: Path, plan: dict[str, Any]) -> int:
    """Begin or go on; give the exit code."""

    def on_round(record: dict[str, Any]) -> None:
        progress(folder).write_text(str(record["round"]))
        if last_round(folder).exists():
            until(lambda: record["round"] <= int(last_round(folder).read_text() or 0))
        if "full" in plan and record["round"] >= plan["full"]["after"]:
            # Either the next line of the metrics is cut short, or no file can be written at all.
            size = (folder / "metrics.jsonl").stat().st_size + 50 if plan["full"]["torn"] else 100
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    said(folder).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(said(folder))
    logging.getLogger("eunoe").addHandler(handler)
    given = things(plan)
    handed: dict[str, Any] = {
        "federation": given.federation,
        "model": given.model,
        "method": given.method,
        "on_round": on_round,
    }
    try:
        if (folder / "config.toml").exists():
            resume(folder, **handed)
        else:
            run(
                {
                    "rounds": plan["rounds"],
                    "participation": PARTICIPANTS,
                    "engine": plan["engine"],
                    "checkpoint_seconds": plan.get("checkpoint_seconds", 0.0),
                },
                out=folder,
                **handed,
            )
    except KeyboardInterrupt:
        return INTERRUPTED
    except RunFailed:
        return FAILED
    finally:
        logging.getLogger("eunoe").removeHandler(handler)
        handler.close()
    return 0


def sit_and_leave(folder: Path, plan: dict[str, Any]) -> None:
    sys.exit(sit(folder, plan))


def progress(folder: Path) -> Path:
    """The file that holds the last round of the current sitting."""
    return folder.with_name("progress")


def last_round(folder: Path) -> Path:
    """The file that holds the round after which sittings wait."""
    return folder.with_name("last_round")


def said(folder: Path) -> Path:
    """The file that holds what the run said."""
    return folder.with_name("said")


if __name__ == "__main__":
    sit_and_leave(Path(sys.argv[1]), json.loads(sys.argv[2]))

"""A run that meets a given number of random faults, the same ones for the same seed."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.config.schema import make_config
from eunoe.simulation.build import assemble
from eunoe.simulation.run import Run
from eunoe.store.checkpoints import list_checkpoints
from tests.chaos.sitting import (
    FAILED,
    INTERRUPTED,
    PARTICIPANTS,
    last_round,
    progress,
    said,
    sit,
    sit_and_leave,
    things,
)
from tests.faults import EXCLUDING, children
from tests.helpers import select
from tests.waiting import until

# Faults inside a client, faults that a run survives, and faults that end a sitting.
IN_CLIENTS = {"nan": "nan", "inf": "inf", "wrong size": "wrong size", "slow client": "slow"}
ENDING = ("ctrl-c", "kill -9", "truncated checkpoint", "full disk")


class Sitting:
    """A process that runs a plan; forked where that is safe, since a start of Python takes seconds."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self._forked: Any = None
        progress(folder).unlink(missing_ok=True)
        if plan["engine"]["name"] == "ray":
            command = [sys.executable, "-m", "tests.chaos.sitting", str(folder), json.dumps(plan)]
            path = os.pathsep.join(["src", "."])
            self._started = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
            self.pid = self._started.pid
        else:
            fork = multiprocessing.get_context("fork")
            self._forked = fork.Process(target=sit_and_leave, args=(folder, plan))
            self._forked.start()
            self.pid = self._forked.pid

    def code(self) -> int | None:
        """How it ended; None while it runs."""
        code: int | None = self._forked.exitcode if self._forked else self._started.poll()
        return code

    def end(self) -> int | None:
        """Wait for its end."""
        until(lambda: self.code() is not None)
        return self.code()


class Scenario:
    """A plan of faults, how it is carried out, and what has happened."""

    def __init__(
        self,
        seed: int,
        engine: dict[str, Any],
        home: Path,
        *,
        in_clients: int,
        outside: int,
        lose_node: Callable[[], None] | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.home, self.folder, self.lose_node = home, home / "run", lose_node
        self.happened: Counter[str] = Counter()
        self.rounds = 2 * outside + 4
        by_client, by_others = dict(IN_CLIENTS), list(ENDING)
        if engine["name"] in ("process", "ray"):
            by_client["worker kill"] = "kill"
        if engine["name"] == "process":
            by_others.append("worker kill")
        if lose_node:
            by_others += ["node kill", "node kill"]
        self.names = {kind: name for name, kind in by_client.items()}
        self.plan: dict[str, Any] = {
            "rounds": self.rounds,
            "engine": engine,
            "marks": str(home),
            "pause": 0.01,
            "checkpoint_seconds": float(self.rng.choice([0.0, 0.2])),
            "faults": self._places(list(self.names), in_clients),
        }
        after = 1 + self.rng.permutation(self.rounds - 3)[:outside]
        self.outside = sorted((int(r), by_others[i % len(by_others)]) for i, r in enumerate(after))

    def calm(self) -> Run:
        """The same run with none but the faults that exclude a client."""
        faults = {place: kind for place, kind in self.plan["faults"].items() if kind in EXCLUDING}
        # The vectorized engine's bits are its own.
        name = "vectorized" if self.plan["engine"]["name"] == "vectorized" else "serial"
        plan = {"rounds": self.rounds, "engine": {"name": name}, "faults": faults}
        assert sit(self.home / "calm" / "run", plan) == 0
        return Run(self.home / "calm" / "run", **vars(things(plan)))

    def carry_out(self) -> Run:
        """Run through all faults to the end."""
        disturbances: list[tuple[int, str]] = []
        for after, kind in [*self.outside, (self.rounds, "")]:
            if kind in ("worker kill", "node kill"):
                disturbances.append((after, kind))
            else:
                self._sit(kind, after, disturbances)
                disturbances = []
        done = Run(self.folder, **vars(things(self.plan)))
        dropped = {f"{r['round']}/{d['client']}" for r in done.records for d in r["dropped"]}
        for place, kind in self.plan["faults"].items():
            marked = (self.home / place.replace("/", "-")).exists()
            assert place in dropped if kind in EXCLUDING else marked, f"{kind} did not happen at {place}"
            self.happened[self.names[kind]] += 1
        words = said(self.folder).read_text() if said(self.folder).exists() else ""
        assert not self.happened["truncated checkpoint"] or "cannot be read" in words
        assert "one after the other" not in words
        return done

    def _sit(self, kind: str, after: int, disturbances: list[tuple[int, str]]) -> None:
        """One sitting, from where the last ended up to a fault that ends it (or none)."""
        plan = dict(self.plan)
        if kind == "full disk":
            plan["full"] = {"after": after, "torn": bool(self.rng.random() < 0.5)}
        moments = [when for when, _ in disturbances] + [after] * (kind not in ("", "full disk"))
        # However late this process looks, the sitting does not go far beyond the moment of the next fault.
        ends = iter([*(moment + 1 for moment in moments), self.rounds])
        self._allow(next(ends))
        sitting = Sitting(self.folder, plan)
        for when, disturbance in disturbances:
            self._wait(sitting, when)
            self._disturb(disturbance, sitting)
            self._allow(next(ends))
        if kind in ("", "full disk"):
            code = sitting.end()
            assert code == (FAILED if kind else 0), f"a sitting ended with {code} instead of {kind or 'well'}"
        else:
            self._wait(sitting, after)
            os.kill(sitting.pid, signal.SIGINT if kind == "ctrl-c" else signal.SIGKILL)
            self._allow(next(ends))
            assert sitting.end() == (INTERRUPTED if kind == "ctrl-c" else -signal.SIGKILL)
        if kind == "truncated checkpoint":
            *before, newest = list_checkpoints(self.folder)
            if not before:
                # With its only checkpoint a run is lost: what is cut short is a later one.
                newest = Path(shutil.copy(newest, newest.with_name("99999999.safetensors")))
            os.truncate(newest, int(self.rng.integers(newest.stat().st_size)))
        if kind:
            self.happened[kind] += 1

    def _wait(self, sitting: Sitting, after: int) -> None:
        """Let a sitting come to some moment after a round."""
        path = progress(self.folder)
        until(lambda: sitting.code() is not None or (path.exists() and int(path.read_text() or 0) >= after))
        time.sleep(self.rng.uniform(0, 0.05))
        assert sitting.code() is None, f"a sitting ended with {sitting.code()} before round {after}"

    def _allow(self, round: int) -> None:
        """Let sittings go on until after this round."""
        last_round(self.folder).write_text(str(round))

    def _disturb(self, kind: str, sitting: Sitting) -> None:
        if kind == "node kill":
            assert self.lose_node is not None
            self.lose_node()
        else:
            workers = children(sitting.pid)
            os.kill(workers[int(self.rng.integers(len(workers)))], signal.SIGKILL)
        self.happened[kind] += 1

    def _places(self, kinds: list[str], count: int) -> dict[str, str]:
        """What happens to which client in which round; no round loses all its clients."""
        given = ("data", "partition", "model", "method")
        config = make_config({"participation": PARTICIPANTS, **dict.fromkeys(given, "given")})
        simulation, _ = assemble(config, things({"faults": {}}))
        places = [f"{r}/{c}" for r in range(1, self.rounds + 1) for c in select(simulation, r)[:-1]]
        chosen = self.rng.permutation(len(places))[:count]
        assert len(chosen) == count, "there are not enough clients for so many faults"
        return {places[place]: kinds[i % len(kinds)] for i, place in enumerate(chosen)}

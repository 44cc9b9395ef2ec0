"""The leaderboard: methods against forgetting, each tuned with the same budget.

In every setting of a suite, each entry tries its points on one search seed; the point with the highest
validation score runs on fresh seeds. A run is given by its best checkpoint on validation data; its test
accuracy is read once. Entries are ranked by the gain over FedAvg, which is tuned in the
same way (analysis/leaderboard.py).
"""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.analysis.diagnosis import clients_of, per_round
from eunoe.analysis.leaderboard import Leaderboard, Row
from eunoe.analysis.tables import Table
from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths
from eunoe.errors import InputError, nearest
from eunoe.search.halving import Callbacks, Trial, show_progress
from eunoe.search.suite import BASELINE, Entry, Setting, Suite, load_entries, load_suite, method_entry
from eunoe.search.sweep import folder_name
from eunoe.search.verdict import read_outcome
from eunoe.simulation.build import assemble
from eunoe.simulation.many import Planned, execute
from eunoe.simulation.user_objects import apply_preset
from eunoe.store.line_file import LineFile
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords
from eunoe.store.schema import ReasonRecord, ResultRecord, validate
from eunoe.system.files import make_folder, read_lines
from eunoe.system.machine import cores

STORED = files("eunoe.search") / "leaderboard.json.gz"


def bench(
    suite: str = "quick",
    *,
    entries: Sequence[Path | str] = (),
    methods: Sequence[str] = (),
    all_entries: bool = False,
    only: str = "",
    out: Path | str = "runs/bench",
    jobs: int | None = None,
    progress: bool | None = None,
) -> Leaderboard:
    """Rank entries by their gain over FedAvg on a suite, each tuned with four trials, on fresh seeds.

    Entries are TOML files with a name, a config and points to try; methods are names such as
    `package.module:Name`. Built-in entries have stored results; with `all_entries` they run too. Only the
    settings with `only` in their name count.

    Example::

        board = eunoe.bench("quick", methods=["my_package:Mine"])
        board.describe("mine")  # "mine is 3rd of 22; +4.2 points [3.1, 5.3] over FedAvg; ..."
    """
    loaded = load_suite(suite, only)
    chosen = [*(loaded.entries if all_entries else ()), *own_entries(entries, methods)]
    stored = [] if all_entries else read_stored()
    with show_progress(progress) as callbacks:
        return run_bench(loaded, chosen, Path(out), jobs or cores(), stored, callbacks)


def own_entries(entries: Sequence[Path | str], methods: Sequence[str]) -> list[Entry]:
    """Return the entries of TOML files and of methods by name."""
    own = [entry for path in entries for entry in load_entries(Path(path))]
    return [*own, *(method_entry(name) for name in methods)]


def run_bench(
    suite: Suite,
    entries: Sequence[Entry],
    out: Path,
    jobs: int = 1,
    stored: Sequence[Row] = (),
    callbacks: Callbacks | None = None,
) -> Leaderboard:
    """Run what is neither stored nor in the folder, and return the leaderboard of the suite.

    FedAvg and the stored entries are part of it. If only some settings have stored rows, the others are left
    out. The same call continues a bench that was cut off.
    """
    rows = [row for row in stored if row["suite"] == suite.name]
    settings = stored_settings(suite, rows) or suite.setting
    new = {entry.name for entry in entries}
    rows = [row for row in rows if row["entry"] not in new]
    bench = Bench(suite, out, jobs, callbacks or Callbacks())
    for setting in settings:
        known = {row["entry"] for row in rows if row["setting"] == setting.name}
        baseline = [entry for entry in suite.entries if entry.name == BASELINE]
        bench.run_setting(setting, [*(() if BASELINE in known | new else baseline), *entries])
    return Leaderboard(suite.title, [*rows, *bench.rows()], [setting.name for setting in settings])


def stored_settings(suite: Suite, rows: Sequence[Row]) -> list[Setting]:
    """Return the settings of a suite that have rows of FedAvg."""
    known = {row["setting"] for row in rows if row["entry"] == BASELINE}
    return [setting for setting in suite.setting if setting.name in known]


def stored_board(suite: Suite) -> Leaderboard:
    """Return the stored leaderboard of a suite."""
    rows = [row for row in read_stored() if row["suite"] == suite.name]
    if not rows:
        raise InputError(f"there are no stored results of suite {suite.name!r}: run it with --all")
    return Leaderboard(suite.title, rows, [setting.name for setting in stored_settings(suite, rows)])


def repeat(suite: Suite, entry: str, out: Path, jobs: int, callbacks: Callbacks) -> Table:
    """Run the stored configs of an entry again; return its stored and its new test accuracy by setting."""
    rows = [row for row in read_stored() if row["suite"] == suite.name and "config" in row]
    if entry not in (names := {row["entry"] for row in rows}):
        raise InputError(f"suite {suite.name!r} has no stored entry {entry!r}: {nearest(entry, names)}")
    chosen = {row["setting"]: row for row in rows if row["entry"] == entry}
    settings = [setting.name for setting in suite.setting if setting.name in chosen]
    runs = [
        Planned(entry, json.loads(chosen[name]["config"]), out / "repeated" / suite.name / folder_name(name))
        for name in settings
    ]
    callbacks.on_stage(f"{entry}, stored configs", sum(planned.rounds for planned in runs))
    repeated = [measure(run.read) for run in execute(runs, jobs, callbacks.on_round)]
    cells = [
        [name, str(chosen[name]["seed"]), f"{chosen[name]['accuracy']:.3f}", f"{new['accuracy']:.3f}"]
        for name, new in zip(settings, repeated, strict=True)
    ]
    return Table(["setting", "seed", "stored", "repeated"], cells)


@dataclass(frozen=True)
class Bench:
    """The runs of a bench in a folder: results.jsonl has a row for each entry, setting and seed."""

    suite: Suite
    out: Path
    jobs: int
    callbacks: Callbacks

    @property
    def results(self) -> Path:
        return self.out / "results.jsonl"

    def rows(self) -> list[Row]:
        """Return the rows of this suite."""
        rows = [
            validate(row, ResultRecord if "accuracy" in row else ReasonRecord, self.results)
            for row in read_lines(self.results)
        ]
        return [row for row in rows if row["suite"] == self.suite.name]

    def run_setting(self, setting: Setting, entries: Iterable[Entry]) -> None:
        """Tune the entries that have no rows yet, run them on the fresh seeds, and add their rows."""
        done = {row["entry"] for row in self.rows() if row["setting"] == setting.name}
        values = self.suite.values(setting)
        trials: dict[str, list[Trial]] = {}
        for entry in entries:
            if entry.name in done:
                continue
            try:
                trials[entry.name] = self._trials(entry, setting, values)
            except InputError as error:
                self._add({"setting": setting.name, "entry": entry.name, "reason": str(error)})
        if not trials:
            return
        seed = self.suite.search_seed
        searched = [self._plan(setting, trial, seed) for group in trials.values() for trial in group]
        self._execute(f"{setting.name}: {len(searched)} trials", searched)

        def score(trial: Trial) -> float:
            run = read_run(self._plan(setting, trial, seed).folder, begun=False)
            return read_outcome(run).score["validation"]

        scores = {name: [score(trial) for trial in group] for name, group in trials.items()}
        best = {name: group[int(np.argmax(scores[name]))] for name, group in trials.items()}
        seeds = self.suite.seeds[: setting.seeds]
        fresh = [self._plan(setting, trial, seed) for trial in best.values() for seed in seeds]
        self._execute(f"{setting.name}: {len(best)} entries on {len(seeds)} seeds", fresh)
        for name, trial in best.items():
            for seed in seeds:
                planned = self._plan(setting, trial, seed)
                run = read_run(planned.folder, begun=False)
                row = {"setting": setting.name, "half": setting.half, "entry": name, "seed": seed}
                row |= {"point": trial.number, **measure(run)}
                if seed == seeds[0]:
                    config = json.dumps(absolute_paths(planned.values))
                    row |= {"config": config, "trials": scores[name], "clients": clients_of(run)}
                self._add(row)

    def _trials(self, entry: Entry, setting: Setting, values: Mapping[str, Any]) -> list[Trial]:
        trials = []
        for number, point in enumerate(entry.points[: setting.trials]):
            changed = apply_preset(entry.apply(values, point))
            # Raises an InputError if the entry needs what the setting lacks.
            assemble(make_config(changed))
            trials.append(Trial(number, f"{entry.name}, point {number}", changed))
        return trials

    def _plan(self, setting: Setting, trial: Trial, seed: int) -> Planned:
        rounds = make_config(trial.values).rounds
        folder = self.out / "runs" / self.suite.name / folder_name(setting.name)
        return trial.plan_run(folder, seed, rounds)

    def _execute(self, title: str, runs: Sequence[Planned]) -> None:
        self.callbacks.on_stage(title, sum(planned.rounds for planned in runs))
        execute(runs, self.jobs, self.callbacks.on_round)

    def _add(self, row: Mapping[str, Any]) -> None:
        make_folder(self.out)
        LineFile(self.results).append([{"suite": self.suite.name, **row}])


def measure(run: RunRecords) -> dict[str, Any]:
    """Return the numbers of a run for its row."""
    best, last = read_outcome(run), read_outcome(run, "last")
    rounds, scores = run.series("score.validation")
    return {
        "accuracy": best.score["test"],
        "last": last.score["test"],
        "validation": last.score["validation"],
        "balanced": best.balanced["test"],
        "worst_client": best.worst_client["judging"],
        "forgetting": run.round_forgetting,
        "sent_forgetting": per_round(run),
        "bytes": sum(record.get("bytes_up", 0) + record.get("bytes_down", 0) for record in run.metrics),
        "samples": sum(record.get("forwards", 0) + 2 * record.get("backwards", 0) for record in run.metrics),
        "curve": [rounds.tolist(), [round(float(score), 4) for score in scores]],
        "diverged": run.status["state"] == "diverged",
    }


def read_stored() -> list[Row]:
    """Return the stored rows of all suites."""
    return [json.loads(line) for line in gzip.decompress(STORED.read_bytes()).decode().splitlines()]

"""Suites and entries of the leaderboard, read from TOML."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from eunoe.analysis.remedies import Remedy
from eunoe.config.options import Options
from eunoe.config.schema import make_config
from eunoe.config.settings import merge, read_config
from eunoe.errors import InputError, nearest
from eunoe.text import read_data

# All entries have the same number of trials.
MOST_POINTS = 4
BASELINE = "fedavg"
Half = Literal["design", "judging"]


class Setting(Options):
    """A setting of a suite: data, partition, participation, model and rounds."""

    name: str
    half: Half
    config: dict[str, Any]
    trials: int = Field(MOST_POINTS, ge=1, le=MOST_POINTS, description="Points tried of each entry.")
    seeds: int | None = Field(None, ge=2, description="Number of seeds, if fewer than the suite's.")


class Point(Options):
    """A point of an entry's search space: a factor on the learning rate, and further changes."""

    lr: float = Field(1.0, gt=0, allow_inf_nan=False)
    config: dict[str, Any] = Field(default_factory=dict)


class Entry(Options):
    """An entry of the leaderboard: a config, and up to four points to try."""

    name: str
    config: dict[str, Any] = Field(default_factory=dict)
    points: tuple[Point, ...] = Field((Point(),), min_length=1, max_length=MOST_POINTS)

    def apply(self, values: Mapping[str, Any], point: Point) -> dict[str, Any]:
        """Return the values of a setting with the changes of a point."""
        config = make_config(values)
        changes = merge(self.config, point.config)
        changed = Remedy(self.name, changes, lr=point.lr).apply(values, config)
        assert changed is not None
        return changed


class Suite(Options):
    """Settings, the protocol (the seed of the search, and the fresh seeds), and entries if not the usual."""

    name: str
    title: str
    search_seed: int
    seeds: tuple[int, ...]
    config: dict[str, Any] = Field(default_factory=dict)
    setting: tuple[Setting, ...]
    entry: tuple[Entry, ...] = ()

    @property
    def entries(self) -> Sequence[Entry]:
        """The built-in entries of the suite."""
        return self.entry or load_entries()

    def values(self, setting: Setting) -> dict[str, Any]:
        """Return the config values of a setting; only models that are the best so far are tested."""
        values = merge(self.config, setting.config)
        evaluation = {"judging": True, "last": 10, "every": max(1, make_config(values).rounds // 20)}
        return merge(values, {"evaluation": evaluation, "probes": [], "checkpoint_seconds": 3600})


def load_suite(name: str, only: str = "") -> Suite:
    """Return a suite by its name or from a TOML file, with the settings that have `only` in their name."""
    known = suite_names()
    if name in known:
        values = read_data("eunoe.search", f"suites/{name}.toml")
    elif name.endswith(".toml"):
        values = read_config(Path(name))
    else:
        raise InputError(f"there is no suite {name!r}: {nearest(name, known)}")
    suite = Suite.read({"name": Path(name).stem, **values}, name)
    chosen = tuple(setting for setting in suite.setting if only in setting.name)
    if not chosen:
        raise InputError(f"suite {name!r} has no setting with {only!r} in its name")
    return suite.model_copy(update={"setting": chosen})


def suite_names() -> list[str]:
    """Return the names of the suites."""
    paths = [Path(file.name) for file in (files("eunoe.search") / "suites").iterdir()]
    return sorted(path.stem for path in paths if path.suffix == ".toml" and path.stem != "entries")


def load_entries(path: Path | None = None) -> list[Entry]:
    """Return the entries of the leaderboard, or those of a TOML file."""
    values = read_data("eunoe.search", "suites/entries.toml") if path is None else read_config(path)
    entries = values["entry"] if path is None or "entry" in values else [{"name": path.stem, **values}]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{path}: entry is not a list of sections: write each as [[entry]]")
    return [Entry.read(entry, str(path or "entries.toml")) for entry in entries]


def method_entry(method: str) -> Entry:
    """Return the entry of a method: its defaults at four learning rates."""
    points = tuple(Point(lr=lr) for lr in (0.33, 1.0, 3.0, 10.0))
    return Entry(name=method.rpartition(":")[2].lower(), config={"method": {"name": method}}, points=points)

"""Exhibits: the runs behind a table or figure, what is measured on them, the claims they test."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.papers.claims import Claim
from eunoe.papers.keys import Key
from eunoe.papers.library import Cell, Source, library
from eunoe.papers.measures import Measure
from eunoe.search.sweep import Planned
from eunoe.simulation.run import Run

Config = dict[str, Any]
Scale = Literal["full", "medium", "small"]
SCALES: tuple[Scale, ...] = ("full", "medium", "small")
# What each scale is called in tables and figures; full scale needs no mark.
MARKS: dict[Scale, str] = {
    "full": "",
    "medium": "MEDIUM SCALE, the paper's algorithm on smaller networks and images",
    "small": "SMALL SCALE, not the paper's setting",
}
SHRUNK_SEEDS = (0, 1, 2)

PART = "eunoe.papers.part:part"


@dataclass(frozen=True)
class Variant:
    """One line of a table or figure: its key, and the options it changes."""

    key: Key
    changes: Config

    @property
    def label(self) -> str:
        """Its name in the paper's data file."""
        return self.key.label


@dataclass(frozen=True)
class PlannedRun(Planned):
    """One planned run of an exhibit: its line and seed; `stand_in` says which data stand in for which.

    The label, like the name in the config, marks small scale and stand-in data.
    """

    key: Key
    scale: Scale
    stand_in: str = ""

    @property
    def line(self) -> str:
        """The line of the table or figure that it belongs to."""
        return self.key.label

    @property
    def seed(self) -> int:
        return int(self.values["seed"])


@dataclass(frozen=True)
class StandIn:
    """A replacement for data that are not available; what it changes where each writer is a client."""

    data: str
    by_writer: Config = field(default_factory=dict)


STAND_INS = {
    "femnist": StandIn("omniglot", {"partition": {"min_size": 10}, "public": {"groups": 12, "min_size": 10}}),
    "cinic10": StandIn("cifar10"),
}


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of a paper, and the runs that repeat it.

    `measures` are computed from each run, by the column they fill ("" where a run fills one cell).
    `small` shrinks every run, `small_variants` are the lines that a small scale keeps (all if empty).
    `medium` and `medium_variants` do the same for runs of up to 25 minutes on one core, where there are any.
    `needs_training` is false where the claims are about data or arithmetic, not about what a model learned,
    and where a low accuracy on all classes is what is asked about.
    `own` is true of what no paper has, so that its claims are questions of our own.
    `seeds` is how many the paper's setting is run with. `source_name` names the paper's table or figure where
    it is not the exhibit's own name, `also` a second table that labels may belong to. `shares` names the
    exhibit whose runs these are, so that they run only once. `derive` computes further cells from the mean
    values, as text; `after` measures further quantities on a run that has ended. `differs` states where
    the runs depart from the table or figure, or what they assume. `draws` names the figure of
    the report that shows the runs ("settings": accuracy over what is varied), and `draws_at` the fraction of
    the run at which a figure of one round is drawn.
    """

    name: str
    common: Config
    variants: tuple[Variant, ...]
    measures: Mapping[str, Measure]
    claims: tuple[Claim, ...]
    small: Config
    small_variants: tuple[Key, ...] = ()
    medium: Config | None = None
    medium_variants: tuple[Key, ...] = ()
    needs_training: bool = True
    own: bool = False
    seeds: int = 3
    source_name: str = ""
    differs: str = ""
    also: str = ""
    shares: str = ""
    draws: str = "accuracy"
    draws_at: float = 1.0
    derive: Callable[[Mapping[Key, float]], dict[str, str]] | None = field(default=None, repr=False)
    after: Callable[[Run], dict[str, float]] | None = field(default=None, repr=False)

    @property
    def source(self) -> Source:
        """The table or figure in the paper."""
        return library().source(self.source_name or self.name)

    @property
    def owner(self) -> str:
        """The name of the exhibit that owns the runs."""
        return self.shares or self.name

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that it can be run at."""
        return tuple(scale for scale in SCALES if scale != "medium" or self.medium is not None)

    @property
    def measured(self) -> str:
        """What its numbers are: those of the table, or what is measured in place of a drawn figure."""
        return self.source.measure if self.source.kind != "figure" else self.read_off

    @property
    def read_off(self) -> str:
        """What is measured on each run, at any scale."""
        return "; ".join(
            f"{column}: {measure.says}" if column else measure.says
            for column, measure in self.measures.items()
        )

    def target(self, cell: Key) -> Cell | None:
        """The paper's cell that one of ours should be compared with.

        A limit on the steps of a server that stops by itself before it changes nothing in what is compared.
        """
        tables = [self.source, *([library().source(self.also)] if self.also else [])]
        labels = (cell.label, cell.but(steps="").label)
        return next((found for table in tables for label in labels if (found := table.target(label))), None)

    def plan(
        self,
        scale: Scale = "full",
        seeds: Sequence[int] | None = None,
        stand_in: bool = False,
        only: str = "",
        out: Path = Path(),
    ) -> list[PlannedRun]:
        """All runs, one for each variant and seed; `only` keeps that label, or those that have its words."""
        if scale not in self.scales:
            raise InputError(f"{self.name} has no {scale} scale; it has {', '.join(self.scales)}")
        kept = [v for v in self.variants if v.key in (self._shrunk(scale)[1] or (v.key,))]
        words = set(only.split())
        chosen = [v for v in kept if v.label == only] or [v for v in kept if words <= set(v.label.split())]
        if not chosen:
            labels = ", ".join(variant.label for variant in kept)
            raise InputError(f"{self.name} has no variant for {only!r} at {scale} scale: {labels}")
        if seeds is None:
            seeds = tuple(range(self.seeds)) if scale == "full" else SHRUNK_SEEDS
        return [self._plan(variant, seed, scale, stand_in, out) for variant in chosen for seed in seeds]

    def _plan(self, variant: Variant, seed: int, scale: Scale, stand_in: bool, out: Path) -> PlannedRun:
        config = merge(self.common, variant.changes, self._shrunk(scale)[0])
        data, stands = config["data"]["name"], ""
        if stand_in and data in STAND_INS:
            stand_in_for = STAND_INS[data]
            by_writer = config["partition"]["name"] == "natural"
            changes = stand_in_for.by_writer if by_writer else {}
            config = merge(config, changes, {"data": {"name": stand_in_for.data, **limits(config["data"])}})
            stands = f"{stand_in_for.data} for {data}"
        config["data"] = part_of(config["data"])
        marks = ", ".join(mark for mark in (stands, scale * (scale != "full")) if mark)
        label = f"{variant.label} ({marks})" if marks else variant.label
        values = {"name": label, "seed": seed, **config}
        name = re.sub(r"[^a-z0-9.=+]+", "-", f"{variant.label} {stands}".lower()).strip("-")
        folder = out / self.owner / scale / name / f"seed-{seed}"
        return PlannedRun(label, values, folder, variant.key, scale, stands)

    def _shrunk(self, scale: Scale) -> tuple[Config, tuple[Key, ...]]:
        """What a scale changes, and the lines that it keeps, all if empty."""
        return {
            "full": ({}, ()),
            "medium": (self.medium or {}, self.medium_variants),
            "small": (self.small, self.small_variants),
        }[scale]


def limits(data: Mapping[str, Any]) -> Config:
    """The options that shrink a data set."""
    return {key: data[key] for key in ("limit", "test_limit", "pool") if key in data}


def part_of(data: Mapping[str, Any]) -> Config:
    """The data section of a config: the whole data set, or a part of it where limits are given."""
    given = limits(data)
    return {"name": PART, "of": data["name"], **given} if given else dict(data)


def data_sets(runs: Iterable[Planned]) -> list[str]:
    """The data sets that runs need."""
    return sorted({run.values["data"].get("of", run.values["data"]["name"]) for run in runs})

"""Experiments: a table or figure of a paper, the arms that repeat it, what is measured, the claims."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.simulation.many import Planned
from eunoe_papers import read_table
from eunoe_papers.claims import Claim, Label
from eunoe_papers.measures import Measure

Config = dict[str, Any]
Scale = Literal["full", "medium", "small"]
SCALES: tuple[Scale, ...] = ("full", "medium", "small")
MARKS: dict[Scale, str] = read_table("common")["marks"]
SHRUNK_SEEDS = (0, 1, 2)
PART = "eunoe_papers.part:part"
ABSENT: dict[str, str] = read_table("common")["absent"]


class Record(BaseModel):
    """A frozen part of the TOML files; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Record):
    """One entry of a paper's table: a value, with its deviation if given, a list, or why there is none."""

    text: str
    values: tuple[float, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a cell from its text."""
        if text in ABSENT:
            return cls(text=ABSENT[text])
        return cls(text=text, values=tuple(float(part) for part in text.partition(" ± ")[0].split(",")))

    @property
    def value(self) -> float | None:
        """The number in this cell, if there is exactly one."""
        return self.values[0] if len(self.values) == 1 else None


class Source(Record):
    """A table, a figure or a sentence of a paper: where it is, its setting, what it shows, its cells."""

    paper: str
    where: str
    kind: Literal["table", "figure", "text", "expectation", "question"]
    # The quantity; of a figure, what is measured says it.
    reports: str
    setting: str
    shows: str
    # A table of another setting whose numbers are shown where this one has none.
    orientation: str = ""
    columns: tuple[str, ...] = ()
    cells: dict[str, Cell] = {}
    # Cells that are no targets.
    doubtful: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """What is expected or asked, and whether the paper states it."""
        if self.kind == "question":
            return f"Asked: {self.shows}"
        return f"{'Expected' if self.kind == 'expectation' else 'The paper'}: {self.shows}"

    def target(self, text: str) -> Cell | None:
        """Return the cell that an arm's value of this label should be compared with."""
        return None if text in self.doubtful else self.cells.get(text)


class Arm(Record):
    """One line of a table or figure: its label, and the options that it changes."""

    label: Label
    changes: Config


class Shrunk(Record):
    """A smaller scale: the options that it changes, and the arms that it keeps (all if `keep` is empty)."""

    config: Config = {}
    keep: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class PlannedRun(Planned):
    """One planned run: its arm, scale and seed; `stand_in` says which data stand in for which."""

    arm: Label
    scale: Scale
    stand_in: str = ""

    @property
    def line(self) -> str:
        """The arm's name in stored results."""
        return str(self.arm)

    @property
    def seed(self) -> int:
        return int(self.values["seed"])

    @property
    def is_fedavg(self) -> bool:
        """Whether it runs FedAvg without another loss, server or other addition."""
        values = self.values
        server = values.get("server_optimizer", {"name": "sgd"})["name"]
        plain = (values["method"]["name"], values["loss"]["name"], server) == ("fedavg", "ce", "sgd")
        # The name of an arm such as `fedavg+fine-tuning` says that it is more than FedAvg.
        return plain and "compress" not in values and "+" not in str(self.arm.get("method"))


STAND_INS: Mapping[str, Config] = read_table("common")["stand_ins"]


class Experiment(Record):
    """A table or figure of a paper, and the runs that repeat it.

    `of` names the experiment whose table or figure it repeats in another setting, `also` one whose table some
    arms belong to, `shares` the experiment whose runs these are. `measures` are computed from each run, by
    the column that they fill ("" where a run fills one cell). `needs_training` is false where claims are
    about data or arithmetic. `differs` states where the runs depart from the paper. `seeds` is how many full
    scale has. `draws` names the figure of the report ("settings": accuracy over what is varied). `after`
    names what is measured on a run that has ended; `tolerance` adds rows with the best learning rates and
    those near them.
    """

    name: str
    source: Source
    config: Config
    arms: tuple[Arm, ...]
    measures: dict[str, Measure]
    claims: tuple[Claim, ...]
    small: Shrunk
    medium: Shrunk | None = None
    of: str = ""
    also: Source | None = None
    shares: str = ""
    needs_training: bool = True
    seeds: int = 3
    differs: str = ""
    draws: str = "accuracy"
    after: str = ""
    tolerance: bool = False

    @property
    def owner(self) -> str:
        """The name of the experiment that owns the runs."""
        return self.shares or self.name

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales that it can be run at."""
        return tuple(scale for scale in SCALES if scale != "medium" or self.medium is not None)

    @property
    def reported(self) -> str:
        """What its numbers are: those of the table, or what is measured in place of a drawn figure."""
        return self.source.reports if self.source.kind != "figure" else self.measured

    @property
    def measured(self) -> str:
        """What is measured on each run, at any scale."""
        return "; ".join(
            f"{column}: {measure.description}" if column else measure.description
            for column, measure in self.measures.items()
        )

    def target(self, cell: Label) -> Cell | None:
        """Return the paper's cell that one of ours should be compared with."""
        # A limit on the steps of a server that stops by itself earlier does not matter.
        texts = (str(cell), str(cell.replace(steps="")))
        targets = (table.target(text) for table in (self.source, self.also) if table for text in texts)
        return next((target for target in targets if target), None)

    def plan(
        self,
        scale: Scale = "full",
        seeds: Sequence[int] | None = None,
        stand_in: bool = False,
        only: str = "",
        out: Path = Path(),
    ) -> list[PlannedRun]:
        """Return a run for each arm and seed; `only` keeps the arm of that name, or those with its words."""
        if scale not in self.scales:
            raise InputError(f"{self.name} has no {scale} scale; it has {', '.join(self.scales)}")
        keep = self._shrunk(scale).keep
        arms = [arm for arm in self.arms if not keep or any(arm.label.matches(parts) for parts in keep)]
        words = set(only.split())
        chosen = [arm for arm in arms if str(arm.label) == only]
        chosen = chosen or [arm for arm in arms if words <= set(str(arm.label).split())]
        if not chosen:
            names = ", ".join(str(arm.label) for arm in arms)
            raise InputError(f"{self.name} has no arm {only!r} at {scale} scale; its arms are: {names}")
        if seeds is None:
            seeds = tuple(range(self.seeds)) if scale == "full" else SHRUNK_SEEDS
        return [self._plan(arm, seed, scale, stand_in, out) for arm in chosen for seed in seeds]

    def _plan(self, arm: Arm, seed: int, scale: Scale, stand_in: bool, out: Path) -> PlannedRun:
        config = merge(self.config, arm.changes, self._shrunk(scale).config)
        data, replaced = config["data"]["name"], ""
        if stand_in and data in STAND_INS:
            other = STAND_INS[data]
            changes = other["by_writer"] if config["partition"]["name"] == "natural" else {}
            config = merge(config, changes, {"data": {"name": other["data"], **limits(config["data"])}})
            replaced = f"{other['data']} for {data}"
        if shrunk := limits(config["data"]):
            config["data"] = {"name": PART, "of": config["data"]["name"], **shrunk}
        marks = ", ".join(mark for mark in (replaced, scale * (scale != "full")) if mark)
        text = f"{arm.label} ({marks})" if marks else str(arm.label)
        values = {"name": text, "seed": seed, **config}
        name = re.sub(r"[^a-z0-9.=+]+", "-", f"{arm.label} {replaced}".lower()).strip("-")
        folder = out / self.owner / scale / name / f"seed-{seed}"
        return PlannedRun(text, values, folder, arm.label, scale, replaced)

    def _shrunk(self, scale: Scale) -> Shrunk:
        return {"full": Shrunk(), "medium": self.medium or Shrunk(), "small": self.small}[scale]


def limits(data: Mapping[str, Any]) -> Config:
    """Return the options that shrink a data set."""
    return {key: data[key] for key in ("limit", "test_limit", "pool") if key in data}


def data_sets(runs: Iterable[Planned]) -> list[str]:
    """Return the names of the data sets that runs need."""
    return sorted({run.values["data"].get("of", run.values["data"]["name"]) for run in runs})

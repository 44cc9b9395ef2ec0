"""What a recipe is: the runs behind a table or figure, what is read off them, the claims they test."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from eunoe.config.merging import merge
from eunoe.errors import InputError
from eunoe.papers.claims import Claim
from eunoe.papers.measures import Measure
from eunoe.papers.papers import Cell, Exhibit, library

if TYPE_CHECKING:
    from eunoe.runs.run import Run as FinishedRun

Config = dict[str, Any]
Scale = Literal["full", "small"]
SMALL_SEEDS = (0, 1, 2)

PART = "eunoe.papers.part:part"


@dataclass(frozen=True)
class Variant:
    """One line of a table or figure: its name in the paper's data file, and what it changes."""

    label: str
    changes: Config


@dataclass(frozen=True)
class Run:
    """One training run of a recipe; `stand_in_for` names the data set that other data stand in for."""

    label: str
    seed: int
    config: Config
    stand_in_for: str | None = None


@dataclass(frozen=True)
class StandIn:
    """What runs in the place of data that are absent."""

    data: str
    changes: Config


STAND_INS = {
    "femnist": StandIn(
        "omniglot",
        {
            "data": {"name": "omniglot"},
            "partition": {"name": "natural", "clients": 0, "min_size": 10},
            "public": {"groups": 12, "min_size": 10},
        },
    ),
    "cinic10": StandIn("cifar10", {"data": {"name": "cifar10"}}),
}


@dataclass(frozen=True)
class Recipe:
    """The runs of one table or figure.

    `measures` are what is read off each run, by the column they fill ("" where a run fills one cell).
    `small` shrinks every run, `small_variants` are the lines that a small scale keeps (all if empty).
    `seeds` is how many the paper's setting is run with. `also` names a second table that labels may belong
    to. `shares` names the recipe whose runs these are, so that they are made once. `derive` computes further
    cells from the mean values, as text; `after` measures further quantities on a run that has ended.
    `differs` says where the recipe leaves the setting of the table or figure, or what it takes for granted.
    `draws` names the figure of the report that shows the runs ("settings": accuracy over what is varied), and
    `draws_at` the fraction of the run at which a figure of one round is drawn.
    """

    name: str
    common: Config
    variants: tuple[Variant, ...]
    measures: Mapping[str, Measure]
    claims: tuple[Claim, ...]
    small: Config
    small_variants: tuple[str, ...] = ()
    seeds: int = 3
    exhibit_name: str = ""
    differs: str = ""
    also: str = ""
    shares: str = ""
    draws: str = "accuracy"
    draws_at: float = 1.0
    derive: Callable[[Mapping[str, float]], dict[str, str]] | None = field(default=None, repr=False)
    after: Callable[["FinishedRun"], dict[str, float]] | None = field(default=None, repr=False)

    @property
    def exhibit(self) -> Exhibit:
        """The table or figure that this recipe repeats."""
        return library().exhibit(self.exhibit_name or self.name)

    @property
    def measured(self) -> str:
        """What its numbers are: those of the table, or what is read off in place of a figure's drawing."""
        return self.exhibit.measure if self.exhibit.kind != "figure" else self.read_off

    @property
    def read_off(self) -> str:
        """What is read off each run, at any scale."""
        return "; ".join(
            f"{column}: {measure.says}" if column else measure.says
            for column, measure in self.measures.items()
        )

    def target(self, label: str) -> Cell | None:
        """The paper's cell that a label should be compared with."""
        found = self.exhibit.target(label)
        return found or (library().exhibit(self.also).target(label) if self.also else None)

    def runs(
        self,
        scale: Scale = "full",
        seeds: Sequence[int] | None = None,
        stand_in: bool = False,
        only: str = "",
    ) -> list[Run]:
        """All runs, one for each variant and seed; `only` keeps the labels that have all its words."""
        chosen = [
            variant
            for variant in self.variants
            if (scale == "full" or not self.small_variants or variant.label in self.small_variants)
            and set(only.split()) <= set(variant.label.split())
        ]
        if not chosen:
            raise InputError(
                f"{self.name} has no variant for {only!r} at {scale} scale: {self._labels(scale)}"
            )
        if seeds is None:
            seeds = SMALL_SEEDS if scale == "small" else tuple(range(self.seeds))
        return [self._run(variant, seed, scale, stand_in) for variant in chosen for seed in seeds]

    def _run(self, variant: Variant, seed: int, scale: Scale, stand_in: bool) -> Run:
        config = merge(self.common, variant.changes)
        if scale == "small":
            config = merge(config, self.small)
        data = config["data"]["name"]
        replaced = data if stand_in and data in STAND_INS else None
        if replaced:
            changes = STAND_INS[replaced].changes
            kept = {key: value for key, value in changes.items() if key in config}
            config = merge(config, kept, {"data": limits(config["data"])})
        config["data"] = part_of(config["data"])
        return Run(variant.label, seed, {"seed": seed, **config}, replaced)

    def _labels(self, scale: Scale) -> str:
        kept = self.small_variants if scale == "small" else ()
        return ", ".join(kept or (variant.label for variant in self.variants))


def limits(data: Mapping[str, Any]) -> Config:
    """The options that shrink a data set."""
    return {key: data[key] for key in ("limit", "test_limit") if key in data}


def part_of(data: Mapping[str, Any]) -> Config:
    """The data section of a config: the whole data set, or a part of it where limits are given."""
    given = limits(data)
    return {"name": PART, "of": data["name"], **given} if given else dict(data)


def data_sets(runs: Iterable[Run]) -> list[str]:
    """The data sets that runs need."""
    return sorted({run.config["data"].get("of", run.config["data"]["name"]) for run in runs})

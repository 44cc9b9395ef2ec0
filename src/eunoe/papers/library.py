"""The papers' own numbers, read from papers.toml: tables and figures, their cells, contradictions."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from eunoe.errors import InputError, nearest

State = Literal["given", "not converged", "not reached", "lost", "not given"]
_STATES: dict[str, State] = {
    "NC": "not converged",
    "-": "not reached",
    "lost": "lost",
    "not given": "not given",
}


class Record(BaseModel):
    """A frozen part of the data file; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cell(Record):
    """One entry of a table: a value, with its deviation if given, a list, or why there is none."""

    text: str
    values: tuple[float, ...] = ()
    std: float | None = None
    state: State = "given"

    @classmethod
    def parse(cls, text: str) -> Self:
        """A cell from its text in the data file."""
        if text in _STATES:
            return cls(text=_STATES[text], state=_STATES[text])
        value, _, deviation = text.partition(" ± ")
        return cls(
            text=text,
            values=tuple(float(part) for part in value.split(",")),
            std=float(deviation) if deviation else None,
        )

    @property
    def value(self) -> float | None:
        """The number in this cell, if there is exactly one."""
        return self.values[0] if len(self.values) == 1 else None


class Paper(Record):
    """A paper: its title, the settings shared by its experiments, and those it leaves open."""

    title: str
    settings: tuple[str, ...]
    chosen: tuple[str, ...]


class Source(Record):
    """A table, a figure or a claim in the text: its location, setting, statement and cells.

    `orientation` names a table of another setting whose numbers are shown where this one has none.
    """

    paper: str
    where: str
    kind: Literal["table", "figure", "text", "identity", "bound", "question"]
    measure: str
    setting: str
    shows: str
    orientation: str = ""
    columns: tuple[str, ...] = ()
    cells: dict[str, Cell] = {}
    doubtful: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _name_cells(cls, given: dict[str, object]) -> dict[str, object]:
        rows = given.get("cells", {})
        columns = given.get("columns", [])
        assert isinstance(rows, dict)
        assert isinstance(columns, list)
        cells = {
            f"{row} {column}": Cell.parse(text)
            for row, texts in rows.items()
            for column, text in zip(columns, texts, strict=True)
        }
        return {**given, "cells": cells}

    @model_validator(mode="after")
    def _doubt_what_exists(self) -> Self:
        if unknown := set(self.doubtful) - set(self.cells):
            raise ValueError(f"no such cells: {sorted(unknown)}")
        return self

    @property
    def sentence(self) -> str:
        """What is expected or asked, and whether the paper states it."""
        if self.kind == "question":
            return f"Asked: {self.shows}"
        return f"{'Expected' if self.kind in ('identity', 'bound') else 'The paper'}: {self.shows}"

    def target(self, label: str) -> Cell | None:
        """The cell that a run of this label should be compared with."""
        return None if label in self.doubtful else self.cells.get(label)


class Contradiction(Record):
    """Where papers disagree, and which reading is used here."""

    papers: tuple[str, ...]
    about: str
    says: str
    resolved: str
    exhibits: tuple[str, ...]


class Library(Record):
    """The contents of papers.toml."""

    papers: dict[str, Paper]
    sources: dict[str, Source]
    contradictions: tuple[Contradiction, ...]

    def source(self, name: str) -> Source:
        """The table or figure of this name."""
        if name not in self.sources:
            raise InputError(f"no table or figure is called {name!r}; {nearest(name, self.sources)}")
        return self.sources[name]

    def notes(self, name: str) -> list[Contradiction]:
        """The contradictions that concern an exhibit."""
        return [entry for entry in self.contradictions if name in entry.exhibits]


@cache
def library() -> Library:
    """The papers' numbers, read once."""
    return Library.model_validate(
        tomllib.loads(files("eunoe.papers").joinpath("papers.toml").read_text("utf-8"))
    )

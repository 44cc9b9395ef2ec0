"""Experiments and papers, read from the TOML files in experiments/.

A file per paper has its title and settings, and its experiments. `common.toml` has what papers share.

    [configs]    named parts of a config; a config is a list of such names and of tables, merged in order
    [levels]     what a part of an arm's label changes: levels.data.cifar100 = {...}; the level of
                 "fedavg+wsm batch" is that of "fedavg", "+wsm" and "batch" where it has none of its own
    [paths]      the option that a number in a label sets: lr = "training.lr"
    arms         blocks of parts, each with one value or several; their product makes the arms. A block's
                 `base` is merged before the levels, its `config` after them
    shares       the experiment whose runs are used, which also gives all that INHERITED lists
    like         the same without using its runs
    keep         selects arms, of an experiment or at a smaller scale
    {data}       in the sentence of a claim makes a claim for each data set of its arms
"""

import re
from functools import cache
from itertools import product
from typing import Any

from eunoe.config.settings import merge
from eunoe.errors import InputError, nearest
from eunoe_papers import read_table
from eunoe_papers.claims import Part, label
from eunoe_papers.experiment import Arm, Cell, Config, Experiment, Record, Shrunk, Source

FILES = ("tce", "thesis", "wsm", "fedcurv", "flashback", "streams")
# What an experiment takes from the one whose runs it uses.
INHERITED = Experiment.model_fields.keys() - {"name", "source", "claims", "of", "also", "shares", "tolerance"}


class Paper(Record):
    """A paper: its title, the settings shared by its experiments, and those it leaves open."""

    title: str
    settings: tuple[str, ...]
    chosen: tuple[str, ...]


class Disagreement(Record):
    """Where papers disagree or a text is unclear, and which reading is used here."""

    about: str
    says: str
    resolved: str
    experiments: tuple[str, ...]


@cache
def papers() -> dict[str, Paper]:
    """Return the papers by name."""
    return {name: Paper(**{key: read_table(name)[key] for key in Paper.model_fields}) for name in FILES}


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    return {name: _build(name) for name in _tables()}


def find_experiment(name: str) -> Experiment:
    """Return the experiment of this name."""
    if name not in experiments():
        raise InputError(f"unknown experiment {name!r}; {nearest(name, experiments())}")
    return experiments()[name]


@cache
def disagreements(name: str) -> list[Disagreement]:
    """Return the disagreements that concern an experiment."""
    tables = read_table("disagreements")["disagreement"]
    entries = [Disagreement(about=about, **fields) for about, fields in tables.items()]
    experiment = find_experiment(name)
    return [entry for entry in entries if (experiment.of or name) in entry.experiments]


@cache
def _tables() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the file and the table of each experiment."""
    return {name: (file, table) for file in FILES for name, table in read_table(file)["experiment"].items()}


@cache
def _build(name: str) -> Experiment:
    """Build an experiment, after those that it refers to."""
    file, table = _tables()[name]
    fields = {"name": name, **table}
    source = {key: fields.pop(key) for key in Source.model_fields if key in fields}
    parent = fields.pop("like", None) or fields.get("shares")
    keep, levels = fields.pop("keep", []), fields.pop("levels", {})
    if not parent:
        shared = read_table(file)
        fields = {key: shared[key] for key in ("config", "seeds") if key in shared} | fields
    if "config" in fields:
        fields["config"] = build_config(fields["config"], file)
    if "arms" in fields:
        fields["arms"] = [arm for block in fields["arms"] for arm in _expand(block, file, levels)]
    inherited = _build(parent) if parent else None
    for scale in ("small", "medium"):
        if scale in fields:
            # Arms are selected anew where the options are inherited.
            config = build_config(fields[scale]["config"], file) if "config" in fields[scale] else {}
            if inherited and "config" not in fields[scale]:
                config = getattr(inherited, scale).config
            fields[scale] = Shrunk(config=config, keep=fields[scale].get("keep", []))
    if inherited:
        fields = {key: getattr(inherited, key) for key in INHERITED} | fields
        if "shares" in fields:
            fields["shares"] = inherited.owner
    if keep:
        fields["arms"] = [arm for arm in fields["arms"] if any(arm.label.matches(parts) for parts in keep)]
    fields["source"] = _build(fields["of"]).source if "of" in fields else _read_source(source, file)
    if "also" in fields:
        fields["also"] = _build(fields["also"]).source
    fields["claims"] = [each for claim in fields["claims"] for each in _by_data_set(claim, fields["arms"])]
    measures = fields.get("measures", {"": "last_rounds"})
    fields["measures"] = {column: _read_measure(measure) for column, measure in measures.items()}
    return Experiment(**fields)


def _by_data_set(claim: dict[str, Any], arms: list[Arm]) -> list[dict[str, Any]]:
    """Return a claim for each data set if its sentence has a place for the name, else the claim itself."""
    if "{data}" not in claim["sentence"]:
        return [claim]
    where = claim.get("where", {})
    names = dict.fromkeys(str(arm.label.get("data")) for arm in arms if arm.label.matches(where))
    # As papers write them: CIFAR-10.
    titles = {name: re.sub(r"(?<=[A-Z])(?=\d)", "-", name.upper()) for name in names}
    return [
        {**claim, "where": {**where, "data": name}, "sentence": claim["sentence"].format(data=title)}
        for name, title in titles.items()
    ]


def _read_source(fields: dict[str, Any], file: str) -> Source:
    """Read where a paper has the table or figure; a `*` in the name of a column stands for the row."""
    kind = "table" if fields["where"].startswith("Table") else "figure"
    columns = fields.get("columns", [])
    cells = {
        column.replace("*", row) if "*" in column else f"{row} {column}": Cell.parse(text)
        for row, texts in fields.get("cells", {}).items()
        for column, text in zip(columns, texts, strict=True)
    }
    return Source(**{"paper": file, "kind": kind, "reports": "test accuracy", **fields, "cells": cells})


def build_config(items: Any, file: str) -> Config:
    """Merge a list of tables and of names of configs, in order."""
    configs, merged = read_table("common")["configs"] | read_table(file).get("configs", {}), Config()
    for item in items if isinstance(items, list) else [items]:
        merged = merge(merged, build_config(configs[item], file) if isinstance(item, str) else item)
    return merged


def _read_measure(measure: Any) -> Any:
    """Read a measure: a table, or a text such as "height validation"."""
    if not isinstance(measure, str):
        return measure
    kind, *rest = measure.split()
    of, number = (*rest, *("accuracy", "1.0")[len(rest) :])
    return {"kind": kind, "of": of, "target" if kind == "rounds_to" else "at": float(number)}


def _expand(block: dict[str, Any], file: str, levels: dict[str, Any]) -> list[Arm]:
    """Return the arms of a block: the product of the values of its parts."""
    parts = {name: value if isinstance(value, list) else [value] for name, value in block.items()}
    base, config = (build_config(parts.pop(key, []), file) for key in ("base", "config"))
    arms = []
    for values in product(*parts.values()):
        named = dict(zip(parts, values, strict=True))
        changes = [_find_level(name, value, file, levels) for name, value in named.items()]
        arms.append(Arm(label=label(**named), changes=merge(base, *changes, config)))
    return arms


def _find_level(name: str, value: Part, file: str, levels: dict[str, Any]) -> Config:
    """Return what a part of an arm's label changes in the config."""
    common = read_table("common")
    every = levels, read_table(file).get("levels", {}), common["levels"]
    tables = [each.get(name, {}) for each in every]

    def find(text: str) -> Config | None:
        return next((build_config(table[text], file) for table in tables if text in table), None)

    if value == "":
        return {}
    if (exact := find(str(value))) is not None:
        return exact
    if isinstance(value, str):
        words = [find(word) for word in re.findall(r"\+?[^ +]+", value)]
        if any(word is None for word in words):
            raise InputError(f"{file}.toml: unknown level {value!r} of {name}")
        return merge({}, *(word for word in words if word is not None))
    changes: Any = value
    for key in reversed(common["paths"][name].split(".")):
        changes = {key: changes}
    return dict(changes)

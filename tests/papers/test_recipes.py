"""Recipes and the papers' data file cover one another; small runs shrink but never change the algorithm."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.core.rng import generator
from eunoe.errors import InputError
from eunoe.papers import find_recipe, recipes
from eunoe.papers.base import PART, Recipe, Run, Scale
from eunoe.papers.claims import NotReached
from eunoe.papers.cost import core_seconds, samples
from eunoe.papers.papers import library
from eunoe.report.figures import KINDS

# What a small run may change: its length, its data, its width and what is watched, never the algorithm.
MAY_SHRINK = {
    "rounds",
    "data.limit",
    "data.test_limit",
    "model.width",
    "evaluation.every",
    "evaluation.last",
    "probes",
}
SCALES: tuple[Scale, ...] = ("full", "small")
ALL = list(recipes().values())
each = pytest.mark.parametrize("recipe", ALL, ids=[recipe.name for recipe in ALL])


def test_every_exhibit_has_a_recipe_of_its_name_and_every_recipe_an_exhibit() -> None:
    assert set(library().exhibits) <= set(recipes())
    for recipe in ALL:
        exhibit = recipe.exhibit_name or recipe.name
        assert exhibit in library().exhibits
        assert recipe.name == exhibit or recipe.name.startswith(f"{exhibit}-")


@each
def test_every_cell_of_a_table_has_a_run(recipe: Recipe) -> None:
    filled = {f"{v.label} {column}".strip() for v in recipe.variants for column in recipe.measures}
    if recipe.derive:
        filled |= set(recipe.derive(dict.fromkeys(filled, 0.5)))
    if recipe.name == recipe.exhibit_name or not recipe.exhibit_name:
        assert set(recipe.exhibit.cells) <= filled
    assert set(recipe.small_variants) <= {variant.label for variant in recipe.variants}
    assert len({variant.label for variant in recipe.variants}) == len(recipe.variants)


def leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The config as a flat table: "training.lr" -> 0.05."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def flat(run: Run) -> dict[str, Any]:
    """A run's config as a flat table, a part of a data set named by the whole."""
    values = leaves(run.config)
    if values["data.name"] == PART:
        values["data.name"] = values.pop("data.of")
    return values


@each
def test_small_shrinks_and_never_changes_the_algorithm(recipe: Recipe) -> None:
    full = {run.label: flat(run) for run in recipe.runs("full", [0])}
    for run in recipe.runs("small", [0]):
        before, after = full[run.label], flat(run)
        for key in before.keys() | after.keys():
            assert before.get(key) == after.get(key) or key in MAY_SHRINK, key
        assert after["rounds"] <= before["rounds"]
        assert after.get("model.width", 0) <= before.get("model.width", 64)
        assert samples(run.config) <= samples(recipe.runs("full", [0], only=run.label)[0].config)


@each
def test_figures_exist(recipe: Recipe) -> None:
    assert recipe.draws in {"settings", *(kind.name for kind in KINDS)}
    assert (
        recipe.exhibit.kind != "figure" or recipe.draws != "accuracy" or "accuracy" in recipe.exhibit.measure
    )


@each
def test_configs_are_valid(recipe: Recipe) -> None:
    for scale in SCALES:
        for run in recipe.runs(scale, [0], stand_in=True):
            make_config(run.config)


@each
def test_named_things_exist_and_take_their_options(recipe: Recipe) -> None:
    for run in recipe.runs("full", [0], stand_in=True):
        for kind in ("method", "loss", "partition", "model", "server_optimizer"):
            section = dict(run.config.get(kind, {"name": "sgd"}))
            known = registry.options(registry.find(kind, section.pop("name")))
            # A head is an option of every model, added by the library.
            assert set(section) <= {*known, "head"}


@each
def test_claims_can_be_tested_and_can_fail_at_small_scale(recipe: Recipe) -> None:
    labels = [f"{run.label} {c}".strip() for run in recipe.runs("small", [0]) for c in recipe.measures]
    random = generator(0, "values of runs")
    for claim in recipe.claims:
        drawn = []
        for scale in (0.001, 1.0, 10.0):
            drawn += [
                claim.statistic(dict(zip(labels, random.uniform(-scale, scale, len(labels)), strict=True)))
                for _ in range(200)
            ]
        assert claim.sentence
        assert min(drawn) < 0 < max(drawn)


def own_numbers(recipe: Recipe) -> dict[str, float]:
    """What the paper prints where it can be a target, as the values of one seed."""
    values = {}
    for label, cell in recipe.exhibit.cells.items():
        if cell.value is not None and label not in recipe.exhibit.doubtful:
            values[label] = cell.value
        elif cell.state in ("not converged", "not reached"):
            values[label] = math.nan if cell.state == "not converged" else NotReached(math.inf)
    return values


# What is derived from the cells of another table cannot be where that has lost some.
TABLES = [recipe for recipe in ALL if own_numbers(recipe) and not recipe.derive]


@pytest.mark.parametrize("recipe", TABLES, ids=[recipe.name for recipe in TABLES])
def test_the_papers_own_numbers_bear_their_claims_out(recipe: Recipe) -> None:
    values, found = own_numbers(recipe), []
    for claim in recipe.claims:
        with suppress(KeyError):  # of what the paper does not print
            found.append(claim.statistic(values))
            assert found[-1] > 0, claim.sentence
    assert found or recipe.name == "fedcurv-weight"


@each
def test_shared_runs_are_the_same_runs(recipe: Recipe) -> None:
    if not recipe.shares:
        return
    for scale in SCALES:
        owner = {run.label: run.config for run in recipes()[recipe.shares].runs(scale, [0])}
        for run in recipe.runs(scale, [0]):
            # At small scale a recipe may choose variants that the owner leaves out.
            if scale == "full" or run.label in owner:
                assert owner[run.label] == run.config


@each
def test_stand_ins_replace_absent_data_only(recipe: Recipe) -> None:
    for plain, other in zip(recipe.runs("full", [0]), recipe.runs("full", [0], stand_in=True), strict=True):
        name = plain.config["data"]["name"]
        if name in ("femnist", "cinic10"):
            assert other.stand_in_for == name
            assert other.config["data"]["name"] in ("omniglot", "cifar10")
            assert other.config["method"] == plain.config["method"]
        else:
            assert other == plain


def test_settings_of_the_papers() -> None:
    run = find_recipe("wsm-table3").runs("full", [4], only="cifar100 lr=0.01 fedavg")[0]
    assert run.config["seed"] == 4
    assert run.config["participation"] == 0.02
    assert run.config["rounds"] == 4000
    assert run.config["model"] == {"name": "lenet"}
    assert run.config["training"] == {
        "epochs": 3,
        "batch_size": 64,
        "lr": 0.01,
        "momentum": 0.0,
        "weight_decay": 1e-4,
    }
    tce = {r.label: r.config for r in find_recipe("tce-table1").runs("full", [0])}
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["participation"] == 0.02
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["model"]["norm"] == "batch"
    fedcurv = find_recipe("fedcurv-table1-e10").runs("full")
    assert [run.config["method"].get("mu") for run in fedcurv] == [None, 1e-5, None]
    assert {run.config["training"]["epochs"] for run in fedcurv} == {10}
    flashback = {run.label: run.config for run in find_recipe("flashback-table1-cifar10").runs("full")}
    assert flashback["feddf"]["training"]["epochs"] == 40
    assert flashback["flashback"]["training"]["epochs"] == 5
    assert flashback["flashback"]["method"]["gamma"] == 0.025


def test_cost_by_hand() -> None:
    run = find_recipe("wsm-table3").runs("full", [0], only="cifar100 lr=0.01")[0]
    # 2 clients of 450 samples, 3 epochs, 4000 rounds.
    assert samples(run.config) == pytest.approx(2 * 450 * 3 * 4000)
    assert core_seconds(run.config) == pytest.approx(10_800_000 / 6100)


def test_unknown_names_and_variants_get_a_hint() -> None:
    with pytest.raises(InputError, match="wsm-table3"):
        find_recipe("wsm-tabl3")
    with pytest.raises(InputError, match="no variant"):
        find_recipe("wsm-table3").runs("small", only="mnist")

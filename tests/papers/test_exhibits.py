"""Exhibits and the papers' data file cover one another; small runs shrink but never change the algorithm."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.core.rng import generator
from eunoe.errors import InputError
from eunoe.papers import all_exhibits, find_exhibit, keys
from eunoe.papers.claims import Claim, NotReached
from eunoe.papers.cost import core_seconds, samples
from eunoe.papers.exhibit import PART, Exhibit, PlannedRun, data_sets, limits
from eunoe.papers.keys import Key
from eunoe.papers.library import library
from eunoe.report.figures import KINDS

# What a smaller run may change: its length, its data, clients and width, and what is watched, never the
# algorithm.
MAY_SHRINK = {
    "rounds",
    "data.limit",
    "data.test_limit",
    "data.pool",
    "partition.clients",
    "public.groups",
    "augment.crop_padding",
    "model.width",
    "evaluation.every",
    "evaluation.last",
    "probes",
}
ALL = list(all_exhibits().values())
each = pytest.mark.parametrize("exhibit", ALL, ids=[exhibit.name for exhibit in ALL])


def test_every_source_has_an_exhibit_of_its_name_and_every_exhibit_a_source() -> None:
    assert set(library().sources) <= set(all_exhibits())
    for exhibit in ALL:
        source = exhibit.source_name or exhibit.name
        assert source in library().sources
        assert exhibit.name == source or exhibit.name.startswith(f"{source}-")


def cells(exhibit: Exhibit) -> list[Key]:
    """All that is read off the runs of an exhibit."""
    return [variant.key.but(measure=column) for variant in exhibit.variants for column in exhibit.measures]


@each
def test_every_cell_of_a_table_has_a_run(exhibit: Exhibit) -> None:
    filled = {cell.label for cell in cells(exhibit)}
    if exhibit.derive:
        filled |= set(exhibit.derive(dict.fromkeys(cells(exhibit), 0.5)))
    if exhibit.name == exhibit.source_name or not exhibit.source_name:
        assert set(exhibit.source.cells) <= filled
    assert set(exhibit.small_variants) <= {variant.key for variant in exhibit.variants}
    assert len({variant.label for variant in exhibit.variants}) == len(exhibit.variants)


def leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The config as a flat table: "training.lr" -> 0.05."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= leaves(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def flat(run: PlannedRun) -> dict[str, Any]:
    """A run's config as a flat table, a part of a data set named by the whole."""
    values = leaves({key: value for key, value in run.values.items() if key != "name"})
    if values["data.name"] == PART:
        values["data.name"] = values.pop("data.of")
    return values


@each
def test_small_shrinks_and_never_changes_the_algorithm(exhibit: Exhibit) -> None:
    full = {run.line: flat(run) for run in exhibit.plan("full", [0])}
    shrunk = [run for scale in exhibit.scales[1:] for run in exhibit.plan(scale, [0])]
    assert {run.scale for run in shrunk} == set(exhibit.scales[1:])
    for run in shrunk:
        before, after = full[run.line], flat(run)
        for key in before.keys() | after.keys():
            assert before.get(key) == after.get(key) or key in MAY_SHRINK, key
        assert after["rounds"] <= before["rounds"]
        assert after.get("model.width", 0) <= before.get("model.width", 64)
        assert samples(run.values) <= samples(exhibit.plan("full", [0], only=run.line)[0].values)


@each
def test_figures_exist(exhibit: Exhibit) -> None:
    assert exhibit.draws in {"settings", *(kind.name for kind in KINDS)}
    assert (
        exhibit.source.kind != "figure" or exhibit.draws != "accuracy" or "accuracy" in exhibit.source.measure
    )


@each
def test_configs_are_valid(exhibit: Exhibit) -> None:
    for scale in exhibit.scales:
        for run in exhibit.plan(scale, [0], stand_in=True):
            make_config(run.values)


@each
def test_named_components_exist_and_accept_their_options(exhibit: Exhibit) -> None:
    for run in exhibit.plan("full", [0], stand_in=True):
        for kind in ("method", "loss", "partition", "model", "server_optimizer"):
            section = dict(run.values.get(kind, {"name": "sgd"}))
            known = registry.options(registry.find(kind, section.pop("name")))
            # A head is an option of every model, added by the library.
            assert set(section) <= {*known, "head"}


@each
def test_claims_can_be_tested_and_can_fail_at_small_scale(exhibit: Exhibit) -> None:
    small = [run.key.but(measure=c) for run in exhibit.plan("small", [0]) for c in exhibit.measures]
    random = generator(0, "values of runs")
    for claim in exhibit.claims:
        drawn = []
        for scale in (0.001, 1.0, 10.0):
            found = [
                claim.statistic(dict(zip(small, random.uniform(-scale, scale, len(small)), strict=True)))
                for _ in range(200)
            ]
            assert None not in found
            drawn += [value for value in found if value is not None]
        assert claim.sentence
        assert min(drawn) < 0 < max(drawn)


def own_numbers(exhibit: Exhibit, spread: bool = False) -> dict[Key, float]:
    """What the paper prints where it can be a target, or its deviations, as the values of one seed."""
    values: dict[Key, float] = {}
    for key in cells(exhibit):
        label = key.label
        if label not in exhibit.source.cells:
            continue
        cell = exhibit.source.cells[label]
        printed = cell.std if spread else cell.value
        if printed is not None and label not in exhibit.source.doubtful:
            values[key] = printed
        elif cell.state in ("not converged", "not reached"):
            values[key] = math.nan if cell.state == "not converged" else NotReached(math.inf)
    return values


# What is derived from the cells of another table cannot be where that has lost some.
TABLES = [exhibit for exhibit in ALL if own_numbers(exhibit) and not exhibit.derive]


@pytest.mark.parametrize("exhibit", TABLES, ids=[exhibit.name for exhibit in TABLES])
def test_the_papers_own_numbers_bear_their_claims_out(exhibit: Exhibit) -> None:
    found = []
    for claim in exhibit.claims:
        statistic = claim.statistic(own_numbers(exhibit, claim.of_spread))
        if statistic is not None:  # the paper prints what is compared
            found.append(statistic)
            assert statistic > 0, claim.sentence
    assert found or exhibit.name == "fedcurv-weight"


@each
def test_shared_runs_are_the_same_runs(exhibit: Exhibit) -> None:
    if not exhibit.shares:
        return
    assert exhibit.scales == all_exhibits()[exhibit.shares].scales
    for scale in exhibit.scales:
        owner = {run.line: run.values for run in all_exhibits()[exhibit.shares].plan(scale, [0])}
        for run in exhibit.plan(scale, [0]):
            # At small scale a exhibit may choose variants that the owner leaves out.
            if scale == "full" or run.line in owner:
                assert owner[run.line] == run.values


@each
def test_stand_ins_replace_absent_data_only(exhibit: Exhibit) -> None:
    for plain, other in zip(exhibit.plan("full", [0]), exhibit.plan("full", [0], stand_in=True), strict=True):
        name, *_ = data_sets([plain])
        if name in ("femnist", "cinic10"):
            assert other.stand_in.endswith(f" for {name}")
            assert data_sets([other]) in (["omniglot"], ["cifar10"])
            assert limits(other.values["data"]) == limits(plain.values["data"])
            assert other.values["method"] == plain.values["method"]
        else:
            assert other == plain


def test_settings_of_the_papers() -> None:
    run = find_exhibit("wsm-table3").plan("full", [4], only="cifar100 lr=0.01 fedavg")[0]
    assert run.values["seed"] == 4
    assert run.values["participation"] == 0.02
    assert run.values["rounds"] == 4000
    assert run.values["model"] == {"name": "lenet"}
    assert run.values["training"] == {
        "epochs": 3,
        "batch_size": 64,
        "lr": 0.01,
        "momentum": 0.0,
        "weight_decay": 1e-4,
    }
    tce = {r.line: r.values for r in find_exhibit("tce-table1").plan("full", [0])}
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["participation"] == 0.01
    wsm = {r.line: r.values for r in find_exhibit("wsm-table1").plan("full", [0])}
    assert wsm["cifar100 lr=0.1 fedavg"]["participation"] == 0.02
    thesis = {r.line: r.values for r in find_exhibit("thesis-table3.1").plan("full", [0])}
    lines = [(tce, "fedavg group"), (thesis, "fedavg"), (wsm, "fedavg")]
    assert [runs[f"femnist lr=0.1 {method}"]["rounds"] for runs, method in lines] == [4000, 2000, 3000]
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["model"]["norm"] == "batch"
    fedcurv = find_exhibit("fedcurv-table1-e10").plan("full")
    assert [run.values["method"].get("mu") for run in fedcurv] == [None, 1e-5, None]
    assert {run.values["training"]["epochs"] for run in fedcurv} == {10}
    flashback = {run.line: run.values for run in find_exhibit("flashback-table1-cifar10").plan("full")}
    assert flashback["feddf"]["training"]["epochs"] == 40
    assert flashback["flashback"]["training"]["epochs"] == 5
    assert flashback["flashback"]["method"]["gamma"] == 0.025


def test_cost_by_hand() -> None:
    run = find_exhibit("wsm-table3").plan("full", [0], only="cifar100 lr=0.01")[0]
    # 2 clients of 450 samples, 3 epochs, 4000 rounds.
    assert samples(run.values) == pytest.approx(2 * 450 * 3 * 4000)
    assert core_seconds(run.values) == pytest.approx(10_800_000 / 6100)
    halved = {**run.values, "data": {**run.values["data"], "pool": 2}}
    assert core_seconds(halved) == pytest.approx(10_800_000 / 6100 / 3)


def test_unknown_names_and_variants_get_a_hint() -> None:
    with pytest.raises(InputError, match="wsm-table3"):
        find_exhibit("wsm-tabl3")
    with pytest.raises(InputError, match="no medium scale; it has full, small"):
        find_exhibit("wsm-table3").plan("medium")
    with pytest.raises(InputError, match="no variant"):
        find_exhibit("wsm-table3").plan("small", only="mnist")


def claim_of(name: str, beginning: str) -> Claim:
    (found,) = (claim for claim in find_exhibit(name).claims if claim.sentence.startswith(beginning))
    return found


def of_methods(**values: float) -> dict[Key, float]:
    return {keys.key(data="cifar10", method=name.replace("_", "+")): value for name, value in values.items()}


def test_fedavg_with_wsm_is_the_best_of_all_only_beside_another_method_with_wsm() -> None:
    best = claim_of("wsm-table2-lenet", "FedAvg with WSM is the best").statistic
    assert best(of_methods(fedavg=0.3, fedavg_wsm=0.5)) is None
    row = of_methods(fedavg=0.3, fedavg_wsm=0.5, scaffold_wsm=0.45)
    assert best(row) == pytest.approx(0.05)
    # A row in which it has no such rival does not count.
    alone = {
        cell.but(data="cifar100"): value for cell, value in of_methods(fedavg=0.3, fedavg_wsm=0.31).items()
    }
    assert best({**row, **alone}) == pytest.approx(0.05)


def test_scaffold_and_fedprox_are_compared_with_fedavg_by_the_worse_of_them() -> None:
    better = claim_of("wsm-table2-lenet", "SCAFFOLD and FedProx").statistic
    assert better(of_methods(fedavg=0.3, scaffold=0.4)) is None
    assert better(of_methods(fedavg=0.3, scaffold=0.4, fedprox=0.28)) == pytest.approx(-0.02)


def test_wsm_helps_scaffold_most_if_no_other_method_forgets_so_much_less() -> None:
    most = claim_of("wsm-fig4-lenet", "WSM lowers the forgetting of SCAFFOLD").statistic
    lowered = of_methods(
        fedavg=0.10, fedavg_wsm=0.02, fedprox=0.10, fedprox_wsm=0.05, scaffold=0.12, scaffold_wsm=0.01
    )
    # SCAFFOLD's falls by 11 points, FedAvg's by 8.
    assert most(lowered) == pytest.approx(0.03)
    assert most({**lowered, **of_methods(fednova=0.16, fednova_wsm=0.01)}) == pytest.approx(-0.04)
    # FedNova's control is not FedAvg.
    control = {cell.but(epochs="drawn"): 5 * value for cell, value in lowered.items()}
    assert most({**lowered, **control}) == pytest.approx(0.03)
    assert most(of_methods(scaffold=0.12, scaffold_wsm=0.01)) is None


def test_fedprox_is_compared_with_fedavg_in_rounds() -> None:
    def of(target: str, fedprox: float, fedavg: float) -> dict[Key, float]:
        return {
            keys.key(method="fedprox", measure=target): fedprox,
            keys.key(method="fedavg", measure=target): fedavg,
        }

    first = claim_of("fedcurv-table1-e50", "with 50 local epochs FedProx reaches 90%").statistic
    assert first(of("0.90", 22, 27)) == 5
    later = claim_of("fedcurv-table1-e50", "with 50 local epochs FedProx reaches 95%").statistic
    assert later(of("0.95", 140, 70)) == 70

"""Experiments have what the papers print; smaller scales shrink runs but never change the algorithm."""

import math
from collections.abc import Mapping
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.core.rng import generator
from eunoe.errors import InputError
from eunoe.report.figures import KINDS
from eunoe_papers.claims import Claim, Label, label, near_best
from eunoe_papers.experiment import PART, Cell, Experiment, PlannedRun, data_sets, limits
from eunoe_papers.loader import disagreements, experiments, find_experiment, papers
from eunoe_papers.reproduce import count_samples
from eunoe_papers.results import tolerance_cells

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
ALL = list(experiments().values())
each = pytest.mark.parametrize("experiment", ALL, ids=[experiment.name for experiment in ALL])


def sources() -> dict[str, Experiment]:
    """The experiments that are a paper's own table or figure, not another setting of one."""
    return {experiment.name: experiment for experiment in ALL if not experiment.of}


PRINTED = {
    "tce-table1": (9 * 3, 3),
    "tce-table2": (9, 5),
    "thesis-table3.1": (9 * 3, 2),
    "thesis-table3.2": (2, 6),
    "thesis-table3.3": (8, 4),
    "fedcurv-table1-e50": (3, 3),
    "fedcurv-table1-e10": (3, 3),
    "flashback-table1-cifar10": (7, 3),
    "flashback-table1-cinic10": (7, 3),
    "flashback-table1-femnist": (7, 3),
    "wsm-table1": (9 * 3, 2),
    "wsm-table2": (2, 8),
    "wsm-table3": (2, 2),
    "wsm-table4": (9 * 3, 4),
    "wsm-table5": (8 * 2, 2),
}
FIGURES = {
    "tce": ["2", "3", "4", "5", "6", "7"],
    "thesis": ["2.2", "3.1", "3.2", "3.3", "3.4", "3.5", "A.1", "A.2"],
    "fedcurv": ["1", "2"],
    "flashback": [str(number) for number in range(1, 17)],
    "wsm": [str(number) for number in range(2, 11)],
}


def test_every_table_is_whole() -> None:
    assert {name for name, one in sources().items() if one.source.kind == "table"} == set(PRINTED)
    for name, (rows, columns) in PRINTED.items():
        assert len(sources()[name].source.cells) == rows * columns


def test_every_figure_with_data_is_listed() -> None:
    for paper, numbers in FIGURES.items():
        listed = {
            n for n, one in sources().items() if (one.source.kind, one.source.paper) == ("figure", paper)
        }
        assert listed == {f"{paper}-fig{number}" for number in numbers}


def test_another_setting_is_named_after_its_table() -> None:
    for experiment in ALL:
        assert experiment.source.paper in papers()
        assert experiment.source.shows
        assert experiment.source.setting
        if experiment.of:
            assert experiment.name.startswith(f"{experiment.of}-")
            assert experiment.source == find_experiment(experiment.of).source


def test_disagreements_are_shown_with_the_experiments_they_concern() -> None:
    assert [entry.about for entry in disagreements("wsm-fig8")][-1] == "order of the appendix' heat-maps"
    assert disagreements("wsm-table4-norms") == disagreements("wsm-table4")


def cells(experiment: Experiment) -> list[Label]:
    """All that is read off the runs of an experiment."""
    return [arm.label.replace(measure=column) for arm in experiment.arms for column in experiment.measures]


@each
def test_every_cell_of_a_table_has_a_run(experiment: Experiment) -> None:
    filled = {str(cell) for cell in cells(experiment)}
    if experiment.tolerance:
        filled |= set(tolerance_cells(dict.fromkeys(cells(experiment), 0.5)))
    if not experiment.of:
        assert set(experiment.source.cells) <= filled
    for scale in experiment.scales:
        assert experiment.plan(scale, [0])
    assert len({arm.label for arm in experiment.arms}) == len(experiment.arms)


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
def test_small_shrinks_and_never_changes_the_algorithm(experiment: Experiment) -> None:
    full = {run.line: flat(run) for run in experiment.plan("full", [0])}
    shrunk = [run for scale in experiment.scales[1:] for run in experiment.plan(scale, [0])]
    assert {run.scale for run in shrunk} == set(experiment.scales[1:])
    for run in shrunk:
        before, after = full[run.line], flat(run)
        for key in before.keys() | after.keys():
            assert before.get(key) == after.get(key) or key in MAY_SHRINK, key
        assert after["rounds"] <= before["rounds"]
        assert after.get("model.width", 0) <= before.get("model.width", 64)
        assert count_samples(run.values) <= count_samples(
            experiment.plan("full", [0], only=run.line)[0].values
        )


@each
def test_figures_exist(experiment: Experiment) -> None:
    assert experiment.draws in {"settings", *(kind.name for kind in KINDS)}
    assert (
        experiment.source.kind != "figure"
        or experiment.draws != "accuracy"
        or any(measure.of == "accuracy" for measure in experiment.measures.values())
    )


@each
def test_configs_are_valid(experiment: Experiment) -> None:
    for scale in experiment.scales:
        for run in experiment.plan(scale, [0], stand_in=True):
            make_config(run.values)


@each
def test_named_components_exist_and_accept_their_options(experiment: Experiment) -> None:
    for run in experiment.plan("full", [0], stand_in=True):
        for kind in ("method", "loss", "partition", "model", "server_optimizer"):
            section = dict(run.values.get(kind, {"name": "sgd"}))
            known = registry.options(registry.find(kind, section.pop("name")))
            # A head is an option of every model, added by the library.
            assert set(section) <= {*known, "head"}


@each
def test_claims_can_be_tested_and_can_fail_at_small_scale(experiment: Experiment) -> None:
    small = [
        run.arm.replace(measure=column)
        for run in experiment.plan("small", [0])
        for column in experiment.measures
    ]
    random = generator(0, "values of runs")
    data_sets = {run.arm.get("data") for run in experiment.plan("full", [0])} - {
        run.arm.get("data") for run in experiment.plan("small", [0])
    }
    for claim in experiment.claims:
        if claim.where.get("data") in [*data_sets]:
            continue  # small scale has no runs on this data set
        drawn = []
        for scale in (0.001, 1.0, 10.0):
            for _ in range(200):
                values = dict(zip(small, map(float, random.uniform(-scale, scale, len(small))), strict=True))
                drawn.append(statistic(claim, values))
        assert min(drawn) < 0 < max(drawn)


def statistic(claim: Claim, values: Mapping[Label, float]) -> float:
    """The statistic of a claim, which has what it compares."""
    comparison = claim.compare(values)
    assert comparison is not None, claim.sentence
    return comparison.value


def own_numbers(experiment: Experiment, spread: bool = False) -> dict[Label, float]:
    """What the paper prints where it can be a target, or its deviations, as the values of one seed."""
    values: dict[Label, float] = {}
    for cell in cells(experiment):
        printed = experiment.source.cells.get(str(cell))
        if printed is None:
            continue
        deviation = printed.text.partition(" ± ")[2]
        value = (float(deviation) if deviation else None) if spread else printed.value
        if value is not None and str(cell) not in experiment.source.doubtful:
            values[cell] = value
        elif printed.text in ("not converged", "not reached"):
            values[cell] = math.nan if printed.text == "not converged" else 1000.0
    return values


# What is derived from the cells of another table cannot be where that has lost some.
TABLES = [experiment for experiment in ALL if own_numbers(experiment) and not experiment.tolerance]


@pytest.mark.parametrize("experiment", TABLES, ids=[experiment.name for experiment in TABLES])
def test_the_papers_own_numbers_bear_their_claims_out(experiment: Experiment) -> None:
    compared = []
    for claim in experiment.claims:
        comparison = claim.compare(own_numbers(experiment, claim.spread))
        if comparison is not None:  # the paper prints what is compared
            compared.append(claim)
            assert comparison.value > 0, claim.sentence
    # The first prints one weight of its grid, the others the difference alone.
    assert compared or experiment.name in (
        "fedcurv-weight",
        "wsm-personalization",
        "wsm-personalization-lenet",
    )


@each
def test_shared_runs_are_the_same_runs(experiment: Experiment) -> None:
    if not experiment.shares:
        return
    assert experiment.scales == experiments()[experiment.shares].scales
    for scale in experiment.scales:
        owner = {run.line: run.values for run in experiments()[experiment.shares].plan(scale, [0])}
        for run in experiment.plan(scale, [0]):
            # At small scale an experiment may choose arms that the owner leaves out.
            if scale == "full" or run.line in owner:
                assert owner[run.line] == run.values


@each
def test_stand_ins_replace_absent_data_only(experiment: Experiment) -> None:
    for plain, other in zip(
        experiment.plan("full", [0]), experiment.plan("full", [0], stand_in=True), strict=True
    ):
        name, *_ = data_sets([plain])
        if name in ("femnist", "cinic10"):
            assert other.stand_in.endswith(f" for {name}")
            assert data_sets([other]) in (["omniglot"], ["cifar10"])
            assert limits(other.values["data"]) == limits(plain.values["data"])
            assert other.values["method"] == plain.values["method"]
        else:
            assert other == plain


def test_settings_of_the_papers() -> None:
    run = find_experiment("wsm-table3").plan("full", [4], only="cifar100 lr=0.01 fedavg")[0]
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
    tce = {r.line: r.values for r in find_experiment("tce-table1").plan("full", [0])}
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["participation"] == 0.01
    wsm = {r.line: r.values for r in find_experiment("wsm-table1").plan("full", [0])}
    assert wsm["cifar100 lr=0.1 fedavg"]["participation"] == 0.02
    thesis = {r.line: r.values for r in find_experiment("thesis-table3.1").plan("full", [0])}
    lines = [(tce, "fedavg group"), (thesis, "fedavg"), (wsm, "fedavg")]
    assert [runs[f"femnist lr=0.1 {method}"]["rounds"] for runs, method in lines] == [4000, 2000, 3000]
    assert tce["cifar100 lr=0.1 fedavg+tce batch"]["model"]["norm"] == "batch"
    fedcurv = find_experiment("fedcurv-table1-e10").plan("full")
    assert [run.values["method"].get("mu") for run in fedcurv] == [None, 1e-5, None]
    assert {run.values["training"]["epochs"] for run in fedcurv} == {10}
    flashback = {run.line: run.values for run in find_experiment("flashback-table1-cifar10").plan("full")}
    assert flashback["feddf"]["training"]["epochs"] == 40
    assert flashback["flashback"]["training"]["epochs"] == 5
    assert flashback["flashback"]["method"]["gamma"] == 0.025


def test_unknown_names_and_variants_get_a_hint() -> None:
    with pytest.raises(InputError, match="wsm-table3"):
        find_experiment("wsm-tabl3")
    with pytest.raises(InputError, match="no medium scale; it has full, small"):
        find_experiment("wsm-table3").plan("medium")
    with pytest.raises(InputError, match="no arm"):
        find_experiment("wsm-table3").plan("small", only="mnist")


@pytest.mark.parametrize(
    ("printed", "text", "values"),
    [
        ("0.624 ± 0.009", "0.624 ± 0.009", (0.624,)),
        ("48", "48", (48.0,)),
        ("0.1, 0.03", "0.1, 0.03", (0.1, 0.03)),
        ("NC", "not converged", ()),
        ("-", "not reached", ()),
        ("lost", "lost", ()),
    ],
)
def test_cells(printed: str, text: str, values: tuple[float, ...]) -> None:
    cell = Cell.parse(printed)
    assert (cell.text, cell.values) == (text, values)
    assert cell.value == (values[0] if len(values) == 1 else None)


def test_numbers_that_the_texts_repeat() -> None:
    printed = {name: experiment.source.cells for name, experiment in sources().items()}
    table4, table5 = printed["wsm-table4"], printed["wsm-table5"]
    for name, cell in printed["wsm-table1"].items():
        assert table4[f"{name} {'batch' if name.endswith('wsm') else 'group'}"] == cell
    for data, best in {"cifar10": (0.608, 0.624), "cifar100": (0.198, 0.274)}.items():
        for column, value in zip(("fedavg", "fedavg+wsm"), best, strict=True):
            cells = [
                c.value or 0
                for name, c in table5.items()
                if name.startswith(f"{data} ") and name.endswith(f" {column}")
            ]
            assert max(cells) == value == printed["wsm-table3"][f"{data} {column}"].value
    assert max(c.value or 0 for c in printed["thesis-table3.3"].values()) == 0.882


def test_second_table_of_tce_against_its_first() -> None:
    """Computing the lists of table 2 from table 1 gives the slips that the data file names, and no others."""
    first, second = (find_experiment(name).source for name in ("tce-table1", "tce-table2"))
    printed = {arm.label: first.cells[str(arm.label)].value for arm in find_experiment("tce-table1").arms}
    values = {arm: value for arm, value in printed.items() if value is not None}
    readable = {(arm.get("data"), arm.get("lr")) for arm in values}
    missing, wrong = set(), set()
    for points in (2, 3, 5):
        for method, rates in near_best(values, points / 100).items():
            row, data = str(method), str(method.get("data"))
            listed = set(second.cells[f"{row} within {points}"].values)
            listed = {rate for rate in listed if (data, rate) in readable}
            of = {rate: values[label(data=data, lr=rate, method=method.get("method"))] for rate in rates}
            # CIFAR-100's best TCE with group norm is in a lost cell, so that table 2 counts from 0.524.
            if row == "cifar100 fedavg+tce group":
                rates = [rate for rate in rates if of[rate] >= 0.524 - points / 100]
            if row == "cifar10 fedavg group":
                rates = [rate for rate in rates if of[rate] >= 0.796 - points / 100]
            missing |= {(row, rate, points) for rate in set(rates) - listed}
            wrong |= {(row, rate, points) for rate in listed - set(rates)}
    assert {(row, rate) for row, rate, _ in missing} == {
        ("cifar10 fedavg group", 0.5),
        ("cifar10 fedavg+tce batch", 0.03),
        ("cifar10 fedavg+tce batch", 0.5),
        ("cifar100 fedavg group", 0.03),
        ("cifar100 fedavg+tce group", 0.03),
        ("femnist fedavg+tce batch", 0.03),
    }
    assert wrong == {("femnist fedavg+tce group", 0.07, 3)}


def test_doubtful_cells_are_no_targets() -> None:
    assert all(set(experiment.source.doubtful) <= set(experiment.source.cells) for experiment in ALL)
    table = find_experiment("wsm-table4").source
    assert table.target("cifar10 lr=0.5 fedavg batch") is None
    assert find_experiment("wsm-table1").source.target("cifar100 lr=0.007 fedavg+wsm") is None
    target = table.target("cifar10 lr=0.5 fedavg+wsm batch")
    assert target is not None
    assert target.value == 0.792


def test_a_sentence_with_a_place_for_the_data_set_is_a_claim_on_each() -> None:
    claims = find_experiment("wsm-table3").claims
    assert [(claim.sentence, claim.where) for claim in claims] == [
        (
            f"WSM beats FedAvg with LeNet on {title} (with crop and flip)",
            {"augment": "", "data": title.lower().replace("-", "")},
        )
        for title in ("CIFAR-10", "CIFAR-100")
    ]


def claim_of(name: str, beginning: str) -> Claim:
    (claim,) = (claim for claim in find_experiment(name).claims if claim.sentence.startswith(beginning))
    return claim


def of_methods(**values: float) -> dict[Label, float]:
    return {label(data="cifar10", method=name.replace("_", "+")): value for name, value in values.items()}


def test_fedavg_with_wsm_is_the_best_of_all_only_beside_another_method_with_wsm() -> None:
    best = claim_of("wsm-table2-lenet", "FedAvg with WSM is the best")
    assert best.compare(of_methods(fedavg=0.3, fedavg_wsm=0.5)) is None
    row = of_methods(fedavg=0.3, fedavg_wsm=0.5, scaffold_wsm=0.45)
    assert statistic(best, row) == pytest.approx(0.05)
    # A row in which it has no such rival does not count.
    alone = of_methods(fedavg=0.3, fedavg_wsm=0.31)
    other = {cell.replace(data="cifar100"): value for cell, value in alone.items()}
    assert statistic(best, {**row, **other}) == pytest.approx(0.05)


def test_scaffold_and_fedprox_are_compared_with_fedavg_by_the_worse_of_them() -> None:
    better = claim_of("wsm-table2-lenet", "SCAFFOLD and FedProx")
    assert better.compare(of_methods(fedavg=0.3)) is None
    assert statistic(better, of_methods(fedavg=0.3, scaffold=0.4)) == pytest.approx(0.1)
    assert statistic(better, of_methods(fedavg=0.3, scaffold=0.4, fedprox=0.28)) == pytest.approx(-0.02)


def test_wsm_helps_scaffold_most_if_no_other_method_forgets_so_much_less() -> None:
    most = claim_of("wsm-fig4-lenet", "WSM lowers the forgetting of SCAFFOLD")
    lowered = of_methods(
        fedavg=0.10, fedavg_wsm=0.02, fedprox=0.10, fedprox_wsm=0.05, scaffold=0.12, scaffold_wsm=0.01
    )
    # SCAFFOLD's falls by 11 points, FedAvg's by 8.
    assert statistic(most, lowered) == pytest.approx(0.03)
    assert statistic(most, {**lowered, **of_methods(fednova=0.16, fednova_wsm=0.01)}) == pytest.approx(-0.04)
    # FedNova's control is not FedAvg.
    control = {cell.replace(epochs="drawn"): 5 * value for cell, value in lowered.items()}
    assert statistic(most, {**lowered, **control}) == pytest.approx(0.03)
    assert most.compare(of_methods(scaffold=0.12, scaffold_wsm=0.01)) is None


def test_fedprox_is_compared_with_fedavg_in_rounds() -> None:
    def of(target: str, fedprox: float, fedavg: float) -> dict[Label, float]:
        return {
            label(method="fedprox", measure=target): fedprox,
            label(method="fedavg", measure=target): fedavg,
        }

    first = claim_of("fedcurv-table1-e50", "with 50 local epochs FedProx reaches 90%")
    assert statistic(first, of("0.90", 22, 27)) == 5
    later = claim_of("fedcurv-table1-e50", "with 50 local epochs FedProx reaches 95%")
    assert statistic(later, of("0.95", 140, 70)) == 70

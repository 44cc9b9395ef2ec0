"""Accuracy over learning rates, with and without a re-weighted loss: tables 1 and 2 of the TCE paper,
3.1 and 3.3 of the thesis, 1 and 4 of the WSM paper."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim, Statistic, Values, least
from eunoe.papers.comparisons import VALIDATION, best_gain, gains, mean_gain
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import (
    BATCH,
    GROUP,
    SMALL_RESNET,
    TCE,
    WSM,
    reweighting,
    reweighting_data,
)
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import at_end, last_rounds

# The best learning rate of each method is the one with the best accuracy on validation data.
CHOSEN_BY = {VALIDATION: replace(last_rounds("validation"), hidden=True)}
BEST_RATE = "each at its best learning rate"
ACCURACY = {"": last_rounds("accuracy"), **CHOSEN_BY}
# The TCE paper evaluates once, after the last round.
FINAL_ACCURACY = {"": at_end("accuracy"), **CHOSEN_BY}
RESNET_RATES = (0.7, 0.5, 0.3, 0.1, 0.07, 0.05, 0.03, 0.01, 0.007)
# How many points from the best the TCE paper looks for learning rates.
NEAR = (2, 3, 5)


def variants(
    paper: str, data: tuple[str, ...], rates: tuple[float, ...], columns: Mapping[str, Config]
) -> tuple[Variant, ...]:
    """A line for each data set, learning rate and column."""
    return tuple(
        Variant(
            key(data=name, lr=rate, method=column),
            merge({"training": {"lr": rate}}, reweighting_data(name, paper), changes),
        )
        for name in data
        for rate in rates
        for column, changes in columns.items()
    )


ALL = ("cifar10", "cifar100", "femnist")
CIFAR = ("cifar10", "cifar100")
TCE_COLUMNS: dict[str, Config] = {
    "fedavg group": GROUP,
    "fedavg+tce group": {**GROUP, **TCE},
    "fedavg+tce batch": {**BATCH, **TCE},
}
NORM_COLUMNS: dict[str, Config] = {
    "fedavg group": GROUP,
    "fedavg+wsm group": {**GROUP, **WSM},
    "fedavg batch": BATCH,
    "fedavg+wsm batch": {**BATCH, **WSM},
}
LOSS_COLUMNS: dict[str, Config] = {"fedavg": {}, "fedavg+wsm": WSM}
WSM_TABLE1_COLUMNS: dict[str, Config] = {"fedavg": GROUP, "fedavg+wsm": {**BATCH, **WSM}}


def at(
    rates: tuple[float, ...], columns: Mapping[str, Config], data: tuple[str, ...] = ("cifar10",)
) -> tuple[Key, ...]:
    """The keys of some lines."""
    return tuple(
        key(data=name, lr=rate, method=column) for name in data for rate in rates for column in columns
    )


def within(values: Values, points: float) -> dict[Key, list[float]]:
    """For each method on each data set, the learning rates that come within some points of its best.

    A learning rate at which runs diverged comes near nothing.
    """
    found: dict[Key, dict[float, float]] = {}
    for cell, value in values.items():
        if cell.has(measure="") and not math.isnan(value):
            found.setdefault(cell.but(lr=""), {})[float(cell.get("lr"))] = value
    # A difference of exactly so many points counts in the paper, which prints three digits.
    return {
        row: [rate for rate, value in rates.items() if value >= max(rates.values()) - points / 100 - 1e-9]
        for row, rates in found.items()
    }


def tolerance_table(values: Values) -> dict[str, str]:
    """The cells of table 2 of the TCE paper: the best accuracy and the learning rates near it."""
    cells = {}
    for row, best in within(values, 0.0).items():
        (value,) = (
            value for cell, value in values.items() if cell.but(lr="") == row and cell.has(lr=best[0])
        )
        cells[f"{row.label} best"] = f"{value:.3f}"
        cells[f"{row.label} best lr"] = str(best[0])
    for points in NEAR:
        for row, rates in within(values, points).items():
            cells[f"{row.label} within {points}"] = ", ".join(str(rate) for rate in rates)
    return cells


def more_rates_than(base: str, methods: Sequence[str]) -> Statistic:
    """How many more learning rates come near the best than with the base, for the method that has fewest.

    One learning rate tells nothing.
    """

    def statistic(values: Values) -> float | None:
        if len({cell.get("lr") for cell in values}) < 2:
            return None
        found: list[float | None] = []
        for method in methods:
            if not any(cell.has(method=method) for cell in values):
                continue
            more = []
            for points in NEAR:
                counts = {row: float(len(rates)) for row, rates in within(values, points).items()}
                more += gains(counts, method, base)
            found.append(sum(more) / len(more) if more else None)
        return least(found)

    return statistic


def best_of_four(values: Values) -> float | None:
    """How far WSM with batch norm is above the best of the other columns, each at its best learning rate."""
    others = [column for column in NORM_COLUMNS if column != "fedavg+wsm batch"]
    return least(best_gain("fedavg+wsm batch", column)(values) for column in others)


TCE_VARIANTS = variants("tce", ALL, RESNET_RATES, TCE_COLUMNS)
WSM_RATES = (*RESNET_RATES[1:], 0.005)

EXHIBITS = (
    Exhibit(
        "tce-table1",
        reweighting("tce"),
        TCE_VARIANTS,
        FINAL_ACCURACY,
        (
            Claim(
                f"TCE with batch norm beats FedAvg, {BEST_RATE}",
                best_gain("fedavg+tce batch", "fedavg group"),
            ),
            Claim(
                f"TCE with group norm beats FedAvg on CIFAR, {BEST_RATE}",
                best_gain("fedavg+tce group", "fedavg group", CIFAR),
            ),
        ),
        SMALL_RESNET,
        at((0.05,), TCE_COLUMNS),
    ),
    Exhibit(
        "tce-table2",
        reweighting("tce"),
        TCE_VARIANTS,
        FINAL_ACCURACY,
        (
            Claim(
                "more learning rates come within 2, 3 and 5 points of the best with TCE (mean of the three)",
                more_rates_than("fedavg group", ("fedavg+tce group", "fedavg+tce batch")),
                "rates",
            ),
        ),
        SMALL_RESNET,
        at((0.3, 0.1, 0.03, 0.01), {"fedavg group": {}, "fedavg+tce batch": {}}),
        shares="tce-table1",
        derive=tolerance_table,
    ),
    Exhibit(
        "thesis-table3.1",
        reweighting("thesis"),
        variants("thesis", ALL, RESNET_RATES, LOSS_COLUMNS),
        ACCURACY,
        (Claim(f"WSM beats FedAvg, {BEST_RATE}", best_gain("fedavg+wsm", "fedavg")),),
        SMALL_RESNET,
        at((0.1,), LOSS_COLUMNS),
        seeds=1,
    ),
    Exhibit(
        "thesis-table3.3",
        reweighting("thesis", {"rounds": 8000}),
        variants("thesis", ("cifar10",), WSM_RATES[1:], NORM_COLUMNS),
        ACCURACY,
        (
            Claim(
                "with batch norm WSM beats FedAvg (mean over learning rates)",
                mean_gain("fedavg+wsm batch", "fedavg batch"),
            ),
            Claim(f"WSM with batch norm is the best of the four, {BEST_RATE}", best_of_four),
        ),
        SMALL_RESNET,
        at((0.05,), NORM_COLUMNS),
        seeds=1,
    ),
    Exhibit(
        "wsm-table1",
        reweighting("wsm"),
        variants("wsm", ALL, WSM_RATES, WSM_TABLE1_COLUMNS),
        ACCURACY,
        (
            Claim(
                f"WSM (batch norm) beats FedAvg (group norm) on CIFAR, {BEST_RATE}",
                best_gain("fedavg+wsm", "fedavg", CIFAR),
            ),
        ),
        SMALL_RESNET,
        at((0.05,), WSM_TABLE1_COLUMNS),
    ),
    Exhibit(
        "wsm-table4",
        reweighting("wsm"),
        variants("wsm", ALL, WSM_RATES, NORM_COLUMNS),
        ACCURACY,
        (
            Claim(
                f"with batch norm WSM beats FedAvg, {BEST_RATE}",
                best_gain("fedavg+wsm batch", "fedavg batch"),
            ),
            Claim(
                f"WSM does better with batch norm than with group norm, {BEST_RATE}",
                best_gain("fedavg+wsm batch", "fedavg+wsm group"),
            ),
            Claim(
                f"FedAvg does better with group norm except on CIFAR-100, {BEST_RATE}",
                best_gain("fedavg group", "fedavg batch", ("cifar10", "femnist")),
            ),
        ),
        SMALL_RESNET,
        at((0.05,), NORM_COLUMNS),
    ),
)

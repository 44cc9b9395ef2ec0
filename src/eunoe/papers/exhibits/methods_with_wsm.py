"""WSM with other methods: table 3.2 of the thesis, table 2 and figures 4 and 5 of the WSM paper."""

from dataclasses import replace

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim, Values, least, of_converged
from eunoe.papers.comparisons import above, above_all, apart, gains, highest, mean_gain, mean_loss
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits import heat_maps
from eunoe.papers.exhibits.common import (
    BOTH_NORMS,
    LENET,
    SLOW_LENET,
    SMALL_RESNET,
    TCE,
    WITH_LENET,
    WSM,
    reweighting,
    reweighting_data,
)
from eunoe.papers.keys import key
from eunoe.papers.measures import at_end, height, last_rounds

# With equal work for all clients FedNova is FedAvg, so it gets unequal epochs, three on average.
DRAWN: Config = {"training": {"epochs": [1, 5]}}
LOSSES: dict[str, Config] = {"": {}, "+wsm": WSM}
METHODS: dict[str, Config] = {
    "fedavg": {"method": {"name": "fedavg"}},
    "scaffold": {"method": {"name": "scaffold"}},
    "fednova": merge({"method": {"name": "fednova"}}, DRAWN),
    "fedprox": {"method": {"name": "fedprox", "mu": 1.1}},
}
# The thesis lowers the learning rate of these two; the WSM paper's table is taken to do the same.
CAUTIOUS: dict[str, Config] = {"scaffold": {"training": {"lr": 0.01}}, "fedprox": {"training": {"lr": 0.01}}}
SAME_NORM: dict[str, Config] = {"": {}}
THIRTY: Config = {"rounds": 2000, "partition": {"clients": 30}}
# Figure 4's averages are over the data of all clients; the second round is the first that can forget.
WATCHED: Config = {"metric": "client_matrix", "data": "clients", "rounds": [2]}
TENTHS = [step / 10 for step in range(1, 11)]
# LeNet is watched often enough for a curve, also of a run that is stopped early.
LENET_THIRTY = reweighting(
    "wsm", THIRTY, LENET, {"training": {"lr": 0.01}, "probes": [{**WATCHED, "every": 50}]}
)
WITH_LENET_THIRTY = f"{WITH_LENET}, 3 of 30 clients a round, 2000 rounds"
SMALL_WATCHED: Config = {"probes": [{**WATCHED, "at": [0.25, 0.5, 0.75, 1.0]}]}

# An early part of a run that is also there where it was stopped after 300 rounds.
EARLY = 100

# The part of a run of 2,000 rounds after which they were stopped.
SHOWN = 0.15

# Around the thesis' weight for FedProx, which it does not say how it chose.
PROXIMAL = (0.01, 0.1, 1.1, 10.0)

CIFAR = ("cifar10", "cifar100")
THREE = ("fedavg", "scaffold", "fedprox")
FOUR = (*THREE, "fednova")
# The runs with LeNet that had been seen when some of the claims were written down.
SEEN = {"full": (0,)}
SMALL = tuple(key(data="cifar10", method=f"{method}{suffix}") for method in THREE for suffix in ("", "+wsm"))


def variants(
    methods: tuple[str, ...], data: tuple[str, ...], norms: dict[str, Config] = SAME_NORM
) -> tuple[Variant, ...]:
    """A line for each data set, norm and method, with and without WSM."""
    return tuple(
        Variant(
            key(data=name, norm=norm, method=f"{method}{suffix}"),
            merge(reweighting_data(name, "wsm"), change, METHODS[method], CAUTIOUS.get(method, {}), loss),
        )
        for name in data
        for norm, change in norms.items()
        for method in methods
        for suffix, loss in LOSSES.items()
    )


def without_controls(values: Values) -> Values:
    """The values of the table's own lines: not of controls, nor what is measured besides."""
    return {cell: values[cell] for cell in values if cell.has(measure="", epochs="")}


def every_method(statistic: str, methods: tuple[str, ...]) -> Claim:
    """The claim that WSM helps each of these methods: the gain where it helps least."""
    sign = 1 if statistic == "accuracy" else -1

    def least_help(values: Values) -> float | None:
        ran = [method for method in methods if any(cell.has(method=method) for cell in values)]
        cells = without_controls(values)
        helped = [gains(cells, f"{method}+wsm", method) for method in ran]
        return least([sign * gain for found in helped for gain in found]) if all(helped) else None

    verb = "raises the accuracy" if statistic == "accuracy" else "lowers the average forgetting"
    return Claim(f"WSM {verb} of every method", least_help, speaks_of=methods)


def scaffold_with_wsm(values: Values) -> float | None:
    """How far the forgetting of SCAFFOLD with WSM is below two points."""
    return least(0.02 - value for cell, value in values.items() if cell.has(method="scaffold+wsm"))


def best_of_all(methods: tuple[str, ...]) -> Claim:
    """The claim that FedAvg with WSM beats these methods, with and without it."""
    beaten = above_all("fedavg+wsm")

    def statistic(values: Values) -> float | None:
        # Above FedAvg alone it is not the best of all: another method with WSM has to be in the row.
        rivals = [f"{method}+wsm" for method in methods if method != "fedavg"]
        rows = {cell.but(method="") for cell in values if cell.get("method") in rivals}
        return beaten({cell: values[cell] for cell in values if cell.but(method="") in rows})

    return Claim("FedAvg with WSM is the best of all", statistic, speaks_of=methods)


def better_than_fedavg() -> Claim:
    """The claim that methods made for unequal clients beat FedAvg, on average over rows."""

    def statistic(values: Values) -> float | None:
        cells = without_controls(values)
        return least(mean_gain(method, "fedavg")(cells) for method in ("scaffold", "fedprox"))

    return Claim("SCAFFOLD and FedProx are better than FedAvg", statistic)


def helps_scaffold_most() -> Claim:
    """The claim that WSM lowers no other method's forgetting as much, on average over rows."""

    def statistic(values: Values) -> float | None:
        cells = without_controls(values)
        lowered = {method: mean_loss(f"{method}+wsm", method)(cells) for method in FOUR}
        mine = lowered.pop("scaffold")
        others = [value for value in lowered.values() if value is not None]
        return None if mine is None or not others else apart(mine, of_converged(max, others))

    return Claim("WSM lowers the forgetting of SCAFFOLD most", statistic, speaks_of=FOUR)


LENET_LINES = (
    *variants(FOUR, ("cifar10",)),
    Variant(key(data="cifar10", method="fedavg+tce"), TCE),
    # FedNova's control: the same drawn epochs.
    *(
        Variant(
            key(data="cifar10", method=f"fedavg{suffix}", epochs="drawn"),
            merge(METHODS["fedavg"], DRAWN, loss),
        )
        for suffix, loss in LOSSES.items()
    ),
)
PLAIN_FEDAVG = key(data="cifar10", method="fedavg")
DRAWN_FEDAVG = PLAIN_FEDAVG.but(epochs="drawn")
FEDNOVA = key(data="cifar10", method="fednova")
FORGETTING = (
    every_method("forgetting", FOUR),
    Claim("with WSM SCAFFOLD forgets nearly nothing (less than 2 points)", scaffold_with_wsm),
)


# Three of thirty clients on both data sets, unlike the base setting.
TABLE_2 = tuple(
    Variant(v.key, merge(v.changes, {"participation": 0.1})) for v in variants(FOUR, CIFAR, BOTH_NORMS)
)

EXHIBITS = (
    Exhibit(
        "thesis-table3.2",
        reweighting(
            "thesis", {"rounds": 1500, "partition": {"clients": 20}, "evaluation": {"every": 20, "last": 1}}
        ),
        # Two of twenty clients on both data sets, unlike the base setting.
        tuple(Variant(v.key, merge(v.changes, {"participation": 0.1})) for v in variants(THREE, CIFAR)),
        {"": at_end("accuracy")},
        (every_method("accuracy", THREE), best_of_all(THREE), better_than_fedavg()),
        merge(SMALL_RESNET, {"evaluation": {"last": 1}}),
        SMALL,
        seeds=1,
    ),
    Exhibit(
        "thesis-table3.2-fedprox",
        merge(
            LENET_THIRTY,
            {"rounds": 300, "partition": {"clients": 20}, "method": {"name": "fedprox"}, "probes": []},
        ),
        tuple(Variant(key(data="cifar10", mu=mu), {"method": {"mu": mu}}) for mu in PROXIMAL),
        {"": height("validation")},
        (
            Claim(
                "FedProx learns fastest with the thesis' weight of 1.1",
                highest(
                    key(data="cifar10", mu=1.1), [key(data="cifar10", mu=mu) for mu in PROXIMAL if mu != 1.1]
                ),
                own=True,
            ),
        ),
        SLOW_LENET,
        source_name="thesis-table3.2",
        differs="FedProx alone over weights, with LeNet, on the clients' validation data, 300 rounds",
        seeds=1,
    ),
    Exhibit(
        "wsm-table2",
        reweighting("wsm", THIRTY),
        TABLE_2,
        {"": last_rounds("accuracy")},
        (every_method("accuracy", FOUR), best_of_all(FOUR), better_than_fedavg()),
        SMALL_RESNET,
        SMALL,
    ),
    Exhibit(
        "wsm-fig5",
        reweighting("wsm", THIRTY),
        TABLE_2,
        {"": height("accuracy")},
        (every_method("accuracy", FOUR),),
        SMALL_RESNET,
        SMALL,
        shares="wsm-table2",
    ),
    Exhibit(
        "wsm-fig4",
        reweighting("wsm", THIRTY, {"probes": [{**WATCHED, "at": TENTHS}]}),
        variants(FOUR, ("cifar10",), BOTH_NORMS),
        {"": height("local_forgetting")},
        (*FORGETTING, helps_scaffold_most()),
        merge(SMALL_RESNET, SMALL_WATCHED),
        SMALL,
        draws="client-means",
    ),
    Exhibit(
        "wsm-fig4-lenet",
        LENET_THIRTY,
        LENET_LINES,
        {"": height("local_forgetting")},
        (
            *FORGETTING,
            replace(helps_scaffold_most(), chosen_on=SEEN),
            Claim(
                "FedNova forgets less than FedAvg with the same drawn epochs", above(DRAWN_FEDAVG, FEDNOVA)
            ),
            Claim(
                "FedProx forgets less than FedAvg", above(PLAIN_FEDAVG, PLAIN_FEDAVG.but(method="fedprox"))
            ),
        ),
        merge(SLOW_LENET, SMALL_WATCHED),
        (*SMALL, FEDNOVA, FEDNOVA.but(method="fednova+wsm"), DRAWN_FEDAVG),
        source_name="wsm-fig4",
        differs=WITH_LENET_THIRTY,
        draws="client-means",
    ),
    Exhibit(
        "wsm-table2-lenet",
        LENET_THIRTY,
        variants(FOUR, ("cifar10",)),
        {"": last_rounds("accuracy"), "early": height("accuracy", last=EARLY)},
        (
            every_method("accuracy", FOUR),
            best_of_all(FOUR),
            replace(better_than_fedavg(), chosen_on=SEEN),
            Claim(
                f"WSM is ahead of FedAvg early (mean accuracy over rounds up to {EARLY})",
                mean_gain("fedavg+wsm", "fedavg", "early"),
            ),
        ),
        merge(SLOW_LENET, SMALL_WATCHED),
        SMALL,
        source_name="wsm-table2",
        differs=WITH_LENET_THIRTY,
        shares="wsm-fig4-lenet",
    ),
    Exhibit(
        "tce-fig2-lenet",
        LENET_THIRTY,
        tuple(v for v in LENET_LINES if v.key.label.split(" ", 1)[1] in ("fedavg", "fedavg+tce")),
        {"": height("local_forgetting"), "accuracy": last_rounds("accuracy")},
        (
            Claim("TCE forgets less of others' data than FedAvg", mean_loss("fedavg+tce", "fedavg")),
            Claim(
                "TCE is more accurate than FedAvg (mean of the last rounds)",
                mean_gain("fedavg+tce", "fedavg", "accuracy"),
            ),
        ),
        merge(SLOW_LENET, SMALL_WATCHED),
        source_name="tce-fig2",
        differs=f"{WITH_LENET_THIRTY}; the WSM paper's setting, forgetting over all rounds",
        draws="client-means",
        shares="wsm-fig4-lenet",
    ),
    Exhibit(
        "wsm-fig3-lenet",
        LENET_THIRTY,
        variants(("fedavg",), ("cifar10",)),
        heat_maps.at(SHOWN),
        heat_maps.claims("wsm", f"in round {round(SHOWN * 2000)}"),
        merge(SLOW_LENET, SMALL_WATCHED),
        source_name="wsm-fig3",
        differs=f"{WITH_LENET_THIRTY}, forgetting on the data of all clients, in round 300 where the paper "
        "has three tenths of the run",
        draws="client-matrices",
        draws_at=SHOWN,
        shares="wsm-fig4-lenet",
    ),
)

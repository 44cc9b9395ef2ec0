"""Figures 2 to 5 and 14 of the Flashback paper from the runs of its table 1 on CIFAR-10.

The runs ended at different rounds, most baselines long after Flashback, so that all are compared over the
rounds that Flashback and FedDF have. Local models were probed more densely in shorter runs; what they lose
and gain in a round does not depend on how often one looks.
"""

from collections.abc import Callable

from eunoe.papers.claims import Claim, Statistic
from eunoe.papers.comparisons import above, highest, lowest
from eunoe.papers.exhibit import Exhibit
from eunoe.papers.exhibits.common import FLASHBACK
from eunoe.papers.exhibits.flashback import CHOSEN_ON, SMALL, table
from eunoe.papers.keys import key
from eunoe.papers.measures import Measure, fluctuation, height, over_rounds

# FedDF's runs are the shortest.
LAST = 10
FIRST = f"over the first {LAST} rounds"
LINES = tuple(v for v in table("cifar10").variants if v.key.get("server") == "" and v.key.label != "feddf")
RIVALS = tuple(v.key for v in LINES if not v.key.has(method="flashback"))
MINE, FEDNTD = key(method="flashback"), key(method="fedntd")
NAMES = tuple(str(rival.get("method")) for rival in RIVALS)


def exhibit(figure: str, draws: str, measures: dict[str, Measure], *claims: Claim) -> Exhibit:
    """A figure from the runs of table 1."""
    return Exhibit(
        f"flashback-{figure}-table1",
        FLASHBACK,
        LINES,
        measures,
        claims,
        SMALL,
        (key(method="fedavg"), FEDNTD, MINE),
        source_name=f"flashback-{figure}",
        differs=f"the runs of flashback-table1-cifar10, over their first {LAST} rounds",
        shares="flashback-table1-cifar10",
        draws=draws,
        seeds=1,
    )


def less_than_fedavg(measure: str) -> Claim:
    """The claim that Flashback loses less than FedAvg in one of the two steps."""
    step = {"local": "local training", "merge": "the merge"}[measure]
    fedavg = key(method="fedavg", measure=measure)
    return Claim(
        f"Flashback loses less than FedAvg in {step} ({FIRST})",
        above(fedavg, MINE.but(measure=measure)),
        chosen_on=CHOSEN_ON,
    )


def flashback_wins(sentence: str, extreme: Callable[..., Statistic], unit: str = "points") -> Claim:
    """A claim on Flashback against all others that were run."""
    return Claim(f"{sentence} ({FIRST})", extreme(MINE, RIVALS), unit, NAMES, chosen_on=CHOSEN_ON)


EXHIBITS = (
    exhibit(
        "fig2",
        "local-models",
        {
            "local": over_rounds("lost_locally", first=2, last=LAST),
            "merge": over_rounds("lost_in_merge", first=2, last=LAST),
        },
        less_than_fedavg("local"),
        less_than_fedavg("merge"),
    ),
    exhibit(
        "fig5",
        "saw-tooth",
        {"": over_rounds("local_loss_rise", "loss", first=2, last=LAST)},
        flashback_wins("local training raises Flashback's loss least", lowest, "of loss"),
    ),
    exhibit(
        "fig3",
        "accuracy",
        {"": height("accuracy", last=LAST)},
        flashback_wins("Flashback is the most accurate", highest),
    ),
    exhibit(
        "fig4",
        "distribution",
        {"": over_rounds("round_forgetting", last=LAST)},
        flashback_wins("Flashback forgets least in a round", lowest),
        Claim(
            f"FedNTD forgets least in a round of the baselines ({FIRST})",
            lowest(FEDNTD, [rival for rival in RIVALS if rival != FEDNTD]),
            speaks_of=NAMES,
        ),
    ),
    exhibit(
        "fig14",
        "round-forgetting",
        {"": fluctuation("round_forgetting", last=LAST)},
        flashback_wins("the forgetting of a round fluctuates least with Flashback", lowest),
    ),
)

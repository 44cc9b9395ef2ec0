"""Whether Flashback's distillation has the usual factor T^2, on which its paper is silent.

Judged by what the paper shows in figures 5, 10 and 15, none of which had a part in the choice of the other
open settings: Flashback's local loss does not jump (5), either side alone falls short of both (10), and
distillation at the clients alone already removes the jump (15). The form with more of the three claims seen on
three seeds at a quarter of the width is the default; full width is a check on one seed. Where both have as many,
the formula stays as it is printed, without the factor. This rule was written down before the runs. Full scale is
fifteen rounds at full width; after twelve at a quarter of it FedAvg is not trained yet.
"""

from eunoe.config.merging import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import above, highest
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import FLASHBACK
from eunoe.papers.exhibits.flashback import SMALL
from eunoe.papers.exhibits.flashback_ablations import CLIENTS_ONLY, OURS, SERVER_ONLY
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import height, over_rounds

SIDES = {"flashback": OURS, "clients only": CLIENTS_ONLY, "server only": SERVER_ONLY}
FACTORS = {"without T^2": False, "with T^2": True}
FIFTEEN: Config = {"rounds": 15, "probes": [{"metric": "local_per_class", "every": 1, "samples": 500}]}


def cell(factor: str, method: str, measure: str = "") -> Key:
    """A line, or what is read off its runs."""
    return key(method=method, factor=factor, measure=measure)


def claims(factor: str) -> tuple[Claim, ...]:
    """What the three figures show, with or without the factor."""
    alone = [cell(factor, side) for side in ("clients only", "server only")]
    return (
        Claim(
            f"{factor} the loss rises less in Flashback's local training than in FedAvg's (figure 5)",
            above(cell("", "fedavg", "rise"), cell(factor, "flashback", "rise")),
            "of loss",
        ),
        Claim(
            f"{factor} either side alone falls short of both (figure 10)",
            highest(cell(factor, "flashback"), alone),
        ),
        Claim(
            f"{factor} the loss rises less with distillation at the clients alone than at the server alone "
            "(figure 15)",
            above(cell(factor, "server only", "rise"), cell(factor, "clients only", "rise")),
            "of loss",
        ),
    )


EXHIBITS = (
    Exhibit(
        "flashback-t-squared",
        merge(FLASHBACK, FIFTEEN),
        (
            Variant(cell("", "fedavg"), {}),
            *(
                Variant(cell(name, side), merge(options, {"method": {"t_squared": on}}))
                for name, on in FACTORS.items()
                for side, options in SIDES.items()
            ),
        ),
        {"": height("accuracy"), "rise": over_rounds("local_loss_rise", "loss", first=2)},
        tuple(claim for factor in FACTORS for claim in claims(factor)),
        merge(SMALL, FIFTEEN),
        seeds=1,
        draws="saw-tooth",
    ),
)

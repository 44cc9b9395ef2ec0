"""Cross-entropy, TCE and WSM with LeNet over learning rates, in one setting for three papers.

Table 5 of the WSM paper is of LeNet. The TCE paper and the thesis have ResNet-18 only, which takes hours to
train; what they say of learning rates, of the course of training and of forgetting is judged on the runs of
that table as well, with TCE besides.
"""

from collections.abc import Callable, Mapping

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import best_gain, least_gain, mean_gain, mean_loss
from eunoe.papers.exhibit import Config, Exhibit
from eunoe.papers.exhibits import heat_maps
from eunoe.papers.exhibits.common import LENET, SMALL_LENET, TCE, WSM, reweighting
from eunoe.papers.exhibits.learning_rates import (
    ACCURACY,
    BEST_RATE,
    CIFAR,
    FINAL_ACCURACY,
    at,
    more_rates_than,
    tolerance_table,
    variants,
)
from eunoe.papers.keys import Key
from eunoe.papers.measures import Measure, height, last_rounds

OWNER = "wsm-table5"
# Table 5 begins at 0.07; the TCE paper and the thesis go beyond.
RATES = (0.3, 0.1, 0.07, 0.05, 0.03, 0.01, 0.007, 0.005, 0.003, 0.001)
# Those that learn something in sixty rounds, and enough above them for the best to lie inside.
SMALL_RATES = (0.05, 0.03, 0.07, 0.1, 0.3)
# The learning rate of the WSM paper's other tables, at which one curve or heat-map is looked at.
BASE_RATE = (0.05,)
# The second round is the first that can forget.
PROBE: Config = {"metric": "client_matrix", "data": "clients", "rounds": [2], "at": [0.7, 1.0]}


def exhibit(
    source: str,
    loss: str,
    measures: Mapping[str, Measure],
    *claims: Claim,
    data: tuple[str, ...] = ("cifar10",),
    rates: tuple[float, ...] = RATES,
    draws: str = "accuracy",
    draws_at: float = 1.0,
    derive: Callable[[Mapping[Key, float]], dict[str, str]] | None = None,
) -> Exhibit:
    """FedAvg with and without a loss at some learning rates, for the claims of a table or figure."""
    every: dict[str, Config] = {"fedavg": {}, "fedavg+wsm": WSM, "fedavg+tce": TCE}
    columns = {name: change for name, change in every.items() if name in ("fedavg", f"fedavg+{loss}")}
    owned = source == OWNER
    return Exhibit(
        OWNER if owned else f"{source}-lenet",
        reweighting("wsm", LENET, {"probes": [PROBE]}),
        variants("wsm", data, rates, every if owned else columns),
        measures,
        claims,
        # A tenth of thirty clients is enough for FedAvg to learn something in half a minute.
        merge(SMALL_LENET, {"partition": {"clients": 30}, "probes": [PROBE]}),
        at(tuple(rate for rate in SMALL_RATES if rate in rates), columns),
        source_name="" if owned else source,
        differs="" if owned else "CIFAR-10 and LeNet, in the setting of the WSM paper's Table 5",
        shares="" if owned else OWNER,
        draws=draws,
        draws_at=draws_at,
        derive=derive,
    )


def heat_map(source: str, loss: str, fraction: float) -> Exhibit:
    """Forgetting at a fraction of the run."""
    return exhibit(
        source,
        loss,
        heat_maps.at(fraction),
        *heat_maps.claims(loss, "in the last round" if fraction == 1 else f"at {fraction:.0%} of the rounds"),
        rates=BASE_RATE,
        draws="client-matrices",
        draws_at=fraction,
    )


def best(loss: str) -> Claim:
    """The claim that a loss wins where both have their best learning rate."""
    return Claim(f"{loss.upper()} beats FedAvg, {BEST_RATE}", best_gain(f"fedavg+{loss}", "fedavg"))


def every_rate(loss: str) -> Claim:
    """The claim that a loss wins at every learning rate."""
    return Claim(
        f"{loss.upper()} beats FedAvg at every learning rate that was run",
        least_gain(f"fedavg+{loss}", "fedavg"),
    )


def more_rates(loss: str) -> Claim:
    """The claim that a loss is less particular about the learning rate."""
    near = "more learning rates come within 2, 3 and 5 points of the best"
    return Claim(
        f"{near} with {loss.upper()} (mean of the three)",
        more_rates_than("fedavg", (f"fedavg+{loss}",)),
        "rates",
    )


def stays_above(loss: str) -> Claim:
    """The claim that a loss is ahead throughout."""
    return Claim(
        f"{loss.upper()} is above FedAvg on average (over rounds and learning rates)",
        mean_gain(f"fedavg+{loss}", "fedavg"),
    )


EXHIBITS = (
    exhibit(
        OWNER,
        "wsm",
        ACCURACY,
        every_rate("wsm"),
        more_rates("wsm"),
        Claim(
            "with WSM results differ less between seeds (distance from the median, mean over learning rates)",
            mean_loss("fedavg+wsm", "fedavg"),
            of_spread=True,
        ),
        data=CIFAR,
    ),
    exhibit(
        "wsm-fig5",
        "wsm",
        {"": height("accuracy", 0.5)},
        Claim(
            "WSM is ahead of FedAvg early (mean accuracy over the first half of the rounds)",
            mean_gain("fedavg+wsm", "fedavg"),
        ),
    ),
    heat_map("wsm-fig9", "wsm", 1.0),
    exhibit("thesis-table3.1", "wsm", ACCURACY, best("wsm")),
    exhibit("thesis-fig3.2", "wsm", {"": height("accuracy")}, stays_above("wsm")),
    heat_map("thesis-fig2.2", "wsm", 0.7),
    exhibit(
        "tce-table1",
        "tce",
        {**FINAL_ACCURACY, "late": last_rounds("accuracy")},
        best("tce"),
        every_rate("tce"),
        # The last round alone, of three clients, says little, as was seen on three seeds.
        Claim(
            "TCE is above FedAvg in the mean of the last rounds (mean over learning rates)",
            mean_gain("fedavg+tce", "fedavg", "late"),
            chosen_on={"small": (0, 1, 2)},
        ),
    ),
    exhibit("tce-table2", "tce", FINAL_ACCURACY, more_rates("tce"), derive=tolerance_table),
    exhibit("tce-fig3", "tce", {"": height("accuracy")}, stays_above("tce")),
    heat_map("tce-fig7", "tce", 1.0),
)

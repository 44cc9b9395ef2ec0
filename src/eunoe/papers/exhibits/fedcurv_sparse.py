"""FedCurv with fewer bytes, which its paper proposes in section 3.1 and did not try.

The paper would send of the Fisher information, and perhaps of the weights too, only the share q of entries
where the Fisher information is largest. Here the Fisher information is cut in that way (`kept`); of the
weights the entries that change most are sent (`topk`, which adds what it left out to the next change).
"""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim, Values
from eunoe.papers.comparisons import above
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import FEDCURV
from eunoe.papers.exhibits.fedcurv import small
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import height, over_rounds

SHARES = (1.0, 0.3, 0.1, 0.03)
# How much of the accuracy may be lost where a cut is said to cost little.
LITTLE = 0.02


def fedcurv(share: float) -> Config:
    """FedCurv with a share of the Fisher information."""
    return {"method": {"name": "fedcurv", "weight": 1.0, "kept": share}}


def weights(share: float) -> Config:
    """A share of the change of the weights."""
    return {"compress": {"name": "topk", "share": share}}


def cell(method: str, share: float) -> Key:
    """A line that sends a share of what it could send."""
    return key(method=method, q=share)


FEDAVG = key(method="fedavg")
LINES: dict[Key, Config] = {
    FEDAVG: {},
    **{cell("fedavg+topk", share): weights(share) for share in SHARES[1:]},
    **{cell("fedcurv", share): fedcurv(share) for share in SHARES},
    **{cell("fedcurv+topk", share): merge(fedcurv(share), weights(share)) for share in SHARES[1:]},
}


def costs_little(values: Values) -> float | None:
    """How far a tenth of the Fisher information is from costing two points."""
    lost = above(cell("fedcurv", 1.0), cell("fedcurv", 0.1))(values)
    return None if lost is None else LITTLE - lost


EXHIBITS = (
    Exhibit(
        "fedcurv-sparse",
        merge(FEDCURV, {"rounds": 60}),
        tuple(Variant(line, changes) for line, changes in LINES.items()),
        {"": height("accuracy"), "sent": over_rounds("megabytes_up", "MB")},
        (
            Claim("a tenth of the Fisher information costs FedCurv less than 2 points", costs_little),
            Claim(
                "with a tenth of the Fisher information FedCurv is above FedAvg",
                above(cell("fedcurv", 0.1), FEDAVG),
            ),
            Claim(
                "with a tenth of everything, fewer bytes than FedAvg's, FedCurv is above FedAvg",
                above(cell("fedcurv+topk", 0.1), FEDAVG),
            ),
            Claim(
                "for about as many bytes, FedCurv with 3% of everything is above FedAvg with a tenth",
                above(cell("fedcurv+topk", 0.03), cell("fedavg+topk", 0.1)),
            ),
        ),
        small(12),
        seeds=1,
    ),
)

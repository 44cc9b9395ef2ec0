"""Appendix A.4 of the WSM paper: a client's own class shares added to the logits at test time.

A client's test data are the test set in the client's own label mix: each class counts by its share among the
client's training labels, so that no test label is used and no client's test set is too small."""

from eunoe.recipes.base import Recipe, Variant
from eunoe.recipes.claims import Claim
from eunoe.recipes.common import BATCH, LENET, WSM, reweighting
from eunoe.recipes.measures import at_end

GAIN = {"gain": at_end("personal_gain", "points")}
CLAIM = (Claim("the clients' own class shares raise accuracy", lambda v: v["cifar10 fedavg+wsm gain"] / 100),)

RECIPES = (
    Recipe(
        "wsm-personalisation",
        reweighting("wsm", BATCH),
        (Variant("cifar10 fedavg+wsm", WSM),),
        GAIN,
        CLAIM,
        {"rounds": 12, "data": {"limit": 5000}, "model": {"width": 8}, "evaluation": {"every": 6, "last": 1}},
    ),
    Recipe(
        "wsm-personalisation-lenet",
        reweighting("wsm", LENET, {"training": {"lr": 0.01}}),
        (Variant("cifar10 fedavg+wsm", WSM),),
        GAIN,
        CLAIM,
        {"rounds": 60, "evaluation": {"every": 20, "last": 1}},
        exhibit_name="wsm-personalisation",
    ),
)

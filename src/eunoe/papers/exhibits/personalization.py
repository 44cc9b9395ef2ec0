"""Appendix A.4 of the WSM paper: a client's own class shares added to the logits at test time.

A client's test data are the test set in the client's own label mix: each class counts by its share among the
client's training labels, so that no test label is used and no client's test set is too small."""

from typing import TYPE_CHECKING

from eunoe.config.settings import merge
from eunoe.metrics.forgetting import per_class_accuracy, reweighted_accuracy
from eunoe.papers.claims import Claim, Values
from eunoe.papers.exhibit import Exhibit, Variant
from eunoe.papers.exhibits.common import BATCH, LENET, SMALL_RESNET, WITH_LENET, WSM, reweighting
from eunoe.papers.keys import key
from eunoe.papers.measures import at_end
from eunoe.simulation.run import Run

if TYPE_CHECKING:
    from torch import Tensor


def personal_gain(run: Run) -> dict[str, float]:
    """Accuracy on a client's label mix with and without its class shares (means), and the gain in points."""
    import torch

    from eunoe.losses.base import adjust_for_prior

    federation = run.simulation.federation
    labels = federation.data.test.y.numpy()
    model = run.model()
    with torch.no_grad():
        chunks = torch.split(torch.arange(len(labels)), 500)
        logits = torch.cat([model(federation.inputs("test", rows)) for rows in chunks])

    def accuracy(scores: "Tensor", counts: "Tensor") -> float:
        per_class = per_class_accuracy(scores.argmax(1).numpy(), labels, federation.classes)
        return float(reweighted_accuracy(per_class, counts[None])[0])

    counts = [federation.counts(client) for client in range(len(federation))]
    without = sum(accuracy(logits, count) for count in counts) / len(counts)
    shares = sum(accuracy(adjust_for_prior(logits, count), count) for count in counts) / len(counts)
    return {"personal_gain": 100 * (shares - without), "personal_without": without, "personal_with": shares}


GAIN = {
    "gain": at_end("personal_gain", "points"),
    "without": at_end("personal_without"),
    "with": at_end("personal_with"),
}
LINE = key(data="cifar10", method="fedavg+wsm")


def gain(values: Values) -> float | None:
    """The gain as a fraction."""
    cell = LINE.but(measure="gain")
    return values[cell] / 100 if cell in values else None


CLAIM = (Claim("the clients' own class shares raise accuracy", gain),)

EXHIBITS = (
    Exhibit(
        "wsm-personalization",
        reweighting("wsm", BATCH),
        (Variant(LINE, WSM),),
        GAIN,
        CLAIM,
        merge(SMALL_RESNET, {"evaluation": {"last": 1}}),
        differs="CIFAR-10 and batch norm, with which WSM does best; the paper names neither",
        after=personal_gain,
    ),
    Exhibit(
        "wsm-personalization-lenet",
        reweighting("wsm", LENET, {"training": {"lr": 0.01}}),
        (Variant(LINE, WSM),),
        GAIN,
        CLAIM,
        {"rounds": 60, "evaluation": {"every": 20, "last": 1}, "probes": []},
        source_name="wsm-personalization",
        differs=f"{WITH_LENET}, on CIFAR-10; the paper names no data set",
        after=personal_gain,
    ),
)

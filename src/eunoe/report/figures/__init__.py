"""All figures of some runs, in the order of the page; what was not measured has no figure."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from eunoe.records.reader import RunRecords
from eunoe.report import client_rows, rows
from eunoe.report.figures import classes, clients, costs, heat_maps, over_rounds, where
from eunoe.report.figures.common import slider_rounds
from eunoe.report.theme import Figure, Row

ROUNDS = "Over the rounds"
WHO = "Whose knowledge is lost"
WHICH = "Which classes are lost"
STEP = "In which step it is lost"
SETTING = "Clients and costs"


class Kind(NamedTuple):
    """A figure that a page may have: where, with which words, from which rows, drawn how."""

    name: str
    section: str
    panels: int
    title: str
    caption: str
    rows: Callable[[Sequence[RunRecords]], list[Row]]
    draw: Callable[[Sequence[Row]], Any]


KINDS = (
    Kind(
        "accuracy",
        ROUNDS,
        1,
        "How accurate the global model is: a steady climb keeps what it learned",
        "Mean over seeds; the band is one standard deviation.",
        rows.accuracy,
        over_rounds.accuracy,
    ),
    Kind(
        "round-forgetting",
        ROUNDS,
        1,
        "What each round forgets: every peak is accuracy that was there a round before",
        "Round forgetting F_t: the accuracy that classes lost since the round before, mean over classes; "
        "gains count as nothing.",
        rows.round_forgetting,
        over_rounds.round_forgetting,
    ),
    Kind(
        "distribution",
        ROUNDS,
        1,
        "How often rounds forget much: the further left a line rises, the less is forgotten",
        "Share of rounds (upwards) whose forgetting F_t is at most a value (rightwards).",
        rows.distribution,
        over_rounds.distribution,
    ),
    Kind(
        "client-matrices",
        WHO,
        3,
        "Training on one client costs accuracy on the others: orange is forgotten, blue is learned",
        "Rows are clients' models, columns are clients' data; outlined cells are a client's own data. "
        "The last column is F_k, the mean over all other clients' data, also those that do not fit here. "
        "All runs share one color scale.",
        client_rows.matrices,
        heat_maps.client_matrices,
    ),
    Kind(
        "client-means",
        WHO,
        1,
        "How much clients forget of each other, over the rounds",
        "Each dot is one client's model: accuracy lost on other clients' data (F_k). The line is the mean.",
        client_rows.client_means,
        heat_maps.client_means,
    ),
    Kind(
        "per-class",
        WHICH,
        2,
        "Classes come and go: a dark cell right of a bright one is a class forgotten",
        "Accuracy of the global model on each class; of many classes, the forty that lose most.",
        rows.per_class,
        classes.per_class,
    ),
    Kind(
        "local-models",
        WHICH,
        2,
        "From the start model to the clients and back: dark rows between bright ones are local forgetting",
        "Accuracy per class of the model a round starts from, of each client's trained model and of the "
        "merged model. A dot marks a class that the client has data of.",
        client_rows.local_models,
        classes.local_models,
    ),
    Kind(
        "one-client",
        WHICH,
        2,
        "A client's model knows what its data hold",
        "The client that took part most often in the first run: its model's accuracy per class after each "
        "participation, beside its label counts.",
        client_rows.one_client,
        classes.one_client,
    ),
    Kind(
        "signed-parts",
        STEP,
        2,
        "Local training takes accuracy away, the merge gives it back: the account of every round",
        "Signed and exact: both parts add up to what the round lost. Mean over classes.",
        rows.parts,
        where.signed_parts,
    ),
    Kind(
        "knowledge-lost",
        STEP,
        2,
        "How much knowledge each step drops, whatever is gained elsewhere",
        "L is the mean over clients and classes of what the start model knew and a client's model does not; "
        "G is the mean over classes of what the best client knew and the merged model does not.",
        rows.parts,
        where.knowledge_lost,
    ),
    Kind(
        "saw-tooth",
        STEP,
        2,
        "The saw-tooth of loss: high teeth are local models that drift from the common goal",
        "Loss of the model a round starts from, mean loss of the clients' models, loss of the merged model.",
        rows.saw_tooth,
        where.saw_tooth,
    ),
    Kind(
        "partition",
        SETTING,
        2,
        "What each client holds: few colors in a bar mean few classes to learn from",
        "Share of each class in the train labels of the first clients.",
        client_rows.partition,
        clients.partition,
    ),
    Kind(
        "probabilities",
        SETTING,
        1,
        "Models believe in the classes that their client holds",
        "Mean output probability of a class on the public data, per local model, against its label count.",
        client_rows.probabilities,
        clients.probabilities,
    ),
    Kind(
        "drift",
        SETTING,
        3,
        "How far local training takes the models, and whether they agree on the way",
        "Mean distance from the start, root mean square distance between two clients, mean cosine between "
        "two clients' updates (1: same direction, 0: unrelated).",
        rows.drift,
        clients.drift,
    ),
    Kind(
        "costs",
        SETTING,
        2,
        "What it costs",
        "Seconds by step and bytes by direction, whole run, mean over seeds.",
        rows.costs,
        costs.costs,
    ),
)


def all_figures(runs: Sequence[RunRecords], names: Sequence[str] = ()) -> list[Figure]:
    """Every figure that the records of these runs can fill, or those of some names."""
    return [
        Figure(
            kind.name,
            kind.title,
            kind.caption,
            kind.draw(found),
            kind.section,
            kind.panels,
            slider_rounds(found) if "probe" in found[0] else [],
        )
        for kind in KINDS
        if (not names or kind.name in names) and (found := kind.rows(runs))
    ]

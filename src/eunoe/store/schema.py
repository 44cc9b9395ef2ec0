"""The schema of a run's records: every key of its JSON files with type and meaning.

Writers return these types, the reader validates files against them, and the tables in docs/run-folder.md are
generated from them. A key may be absent, and a number that does not exist is null (the accuracy of a class
without samples, forgetting in the first round). Further keys are those of a user's own metrics.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError
from typing_extensions import Doc, TypedDict, get_type_hints

from eunoe.config.messages import explain
from eunoe.errors import Damaged
from eunoe.system.files import LARGEST

SCHEMA = 1

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)] | None
Numbers = list[Number]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class SpreadRecord(TypedDict, total=False):
    """How a number differs between clients."""

    mean: Number
    deviation: Number
    worst_tenth: Number


class ByClientRecord(TypedDict, total=False):
    """Numbers of each client that owns samples."""

    clients: list[int]
    samples: list[int]
    accuracy: Numbers
    loss: Numbers


class EvaluationRecord(TypedDict, total=False):
    """The numbers of a model on one set of samples."""

    accuracy: Annotated[Number, Doc("classification: fraction of correct predictions")]
    f1: Annotated[Number, Doc("multilabel: macro-F1")]
    subset_accuracy: Annotated[Number, Doc("multilabel: fraction of samples with every label right")]
    hamming_loss: Annotated[Number, Doc("multilabel: fraction of wrong labels")]
    r2: Annotated[Number, Doc("regression: explained share of the variance, mean over outputs")]
    rmse: Annotated[Number, Doc("regression: root mean squared error in the units of the data")]
    mae: Annotated[Number, Doc("regression: mean absolute error in the units of the data")]
    token_accuracy: Annotated[Number, Doc("language models: fraction of next tokens that are predicted")]
    perplexity: Annotated[Number, Doc("language models: e to the loss per token")]
    loss: Annotated[Number, Doc("plain loss: cross-entropy, or squared error of standardized targets")]
    per_class: Annotated[Numbers | None, Doc("accuracy by class; multilabel: balanced accuracy by label")]
    clients: Annotated[SpreadRecord | None, Doc("over clients: `mean`, `deviation` and `worst_tenth`")]
    by_client: Annotated[
        ByClientRecord | None, Doc("of each of `clients` (at most 100): `samples`, `accuracy`, `loss`")
    ]


class ForgettingRecord(TypedDict, total=False):
    """Forgetting of the global model in one round."""

    on: str | None
    round: Number
    fedntd: Number


class DroppedClient(TypedDict):
    """A client whose update was not used."""

    client: int
    reason: str


class MeansRecord(TypedDict, total=False):
    """Means over the clients of a round with secure aggregation."""

    size: Number
    steps: Number
    loss_before: Number
    loss_after: Number
    update_norm: Number


class PrivacyRecord(TypedDict, total=False):
    """The privacy budget spent so far."""

    epsilon: Number
    delta: Number
    merges: int


class PersonalRecord(TypedDict, total=False):
    """Accuracy in each client's own label distribution."""

    clients: int
    without_prior: Number
    with_prior: Number


class RetentionRecord(TypedDict, total=False):
    """What is left of the start model's knowledge: of the worst reference set, and by set."""

    share: Number
    forgetting: Number
    sets: dict[str, dict[str, Number]]


class ModelRecord(TypedDict, total=False):
    """Sections of an evaluated model, in the same line."""

    validation: Annotated[EvaluationRecord | None, Doc("on the clients' validation parts")]
    client_test: Annotated[EvaluationRecord | None, Doc("on the clients' own test parts")]
    test: Annotated[EvaluationRecord | None, Doc("on the test set")]
    judging: Annotated[
        EvaluationRecord | None, Doc("with `evaluation.judging`: on the validation samples kept for judging")
    ]
    score: Annotated[
        dict[str, Number] | None,
        Doc("with `evaluation.metric` or `evaluation.judging`: the score that picks the best model, by set"),
    ]
    forgetting: Annotated[
        ForgettingRecord | None, Doc("[forgetting](forgetting.md) `on` a set: `round` and `fedntd`")
    ]
    retention: Annotated[
        RetentionRecord | None,
        Doc("with `retain`: the smallest `share` and the largest `forgetting` of all `sets`, and each set's"),
    ]


class RoundRecord(ModelRecord, total=False):
    """One line per round."""

    schema: Annotated[int, Doc("version of this table: 1")]
    round: Annotated[int, Doc("number of the round, from 1")]
    lr: Annotated[float, Doc("learning rate of the round")]
    clients: Annotated[list[int], Doc("participants in the order in which updates were added")]
    participants: Annotated[int, Doc("number of participants, where privacy keeps `clients` empty")]
    sizes: Annotated[list[int], Doc("training samples of each client")]
    steps: Annotated[list[int], Doc("local steps of each client")]
    loss_before: Annotated[Numbers, Doc("each client's loss on its first batch before training")]
    loss_after: Annotated[Numbers, Doc("each client's loss on its first batch after training")]
    update_norms: Annotated[Numbers, Doc("norm of each client's update")]
    means: Annotated[
        MeansRecord,
        Doc(
            "with [secure aggregation](privacy.md), where the lists above are empty: `size`, `steps`, "
            "`loss_before`, `loss_after`, `update_norm`"
        ),
    ]
    delays: Annotated[
        list[int], Doc("with [staleness](staleness.md): the delay of each of `clients`, in rounds")
    ]
    forwards: Annotated[int, Doc("samples in forward passes: the cost of a method")]
    backwards: Annotated[int, Doc("samples in backward passes")]
    dropped: Annotated[list[DroppedClient], Doc("clients whose update was not used: `client`, `reason`")]
    bytes_up: Annotated[int, Doc("bytes that clients would upload over a network")]
    bytes_down: Annotated[int, Doc("bytes that clients would download")]
    server: Annotated[
        dict[str, Any], Doc("training at the server: steps, samples forward and back, validation")
    ]
    warnings: Annotated[list[str], Doc("warnings of the method during aggregation")]
    sent: Annotated[
        ModelRecord | None, Doc("with [averaging](remedies.md#averaging): sections of the model sent")
    ]
    personal: Annotated[
        PersonalRecord | None,
        Doc(
            "last round, with `evaluation.personal`: mean accuracy of the `clients` on test samples in their "
            "own label distribution, `without_prior` and `with_prior`"
        ),
    ]
    privacy: Annotated[
        PrivacyRecord,
        Doc(
            "with [privacy](privacy.md): `epsilon` and `delta` spent after this round, and the number of "
            "aggregations (`merges`); the clients' lists are then empty"
        ),
    ]


class StepLosses(TypedDict, total=False):
    """The losses of a round's models."""

    start: Number
    local: Numbers
    merged: Number


class ProbeRecord(TypedDict, total=False):
    """One line per probe of a round."""

    schema: Annotated[int, Doc("version of this table: 1")]
    round: Annotated[int, Doc("number of the round")]
    probe: Annotated[str, Doc("name of the metric: one of those below or your own")]


class ClientMatrixRecord(ProbeRecord, total=False):
    """client_matrix: every local model on every client's data."""

    models: Annotated[list[int | None], Doc("clients whose models were measured")]
    data: Annotated[list[int | None], Doc("clients whose data they were measured on")]
    on: Annotated[str, Doc("`validation` parts, or `test` reweighted to each client's labels")]
    start: Annotated[Numbers, Doc("accuracy of the start model on each client's data")]
    after: Annotated[list[Numbers], Doc("accuracy of each local model on each client's data")]


class LocalPerClassRecord(ProbeRecord, total=False):
    """local_per_class: each class before and after local training, and after aggregation."""

    clients: Annotated[list[int | None], Doc("clients whose models were measured")]
    start: Annotated[Numbers, Doc("accuracy of the start model by class")]
    local: Annotated[list[Numbers], Doc("accuracy of each local model by class")]
    merged: Annotated[Numbers, Doc("accuracy of the new global model by class")]
    counts: Annotated[list[Numbers] | None, Doc("training labels by class of each client, if known")]
    loss: Annotated[StepLosses | None, Doc("the losses of these models: `start`, `local`, `merged`")]


class DriftRecord(ProbeRecord, total=False):
    """drift: distances between models."""

    clients: Annotated[list[int | None], Doc("clients whose models were measured")]
    from_start: Annotated[Numbers, Doc("distance of each local model from the start model")]
    apart: Annotated[Number, Doc("root mean square distance over pairs of local models")]
    cosine: Annotated[Number, Doc("mean cosine over pairs of updates")]


class ProbabilityRecord(ProbeRecord, total=False):
    """probability: output probabilities on the public set."""

    clients: Annotated[list[int | None], Doc("clients whose models were measured")]
    probability: Annotated[list[Numbers], Doc("mean output probability of each local model by class")]
    counts: Annotated[list[Numbers] | None, Doc("training labels by class of each client")]


class TimingRecord(TypedDict, total=False):
    """One line per round."""

    round: Annotated[int, Doc("number of the round")]
    train: Annotated[float, Doc("seconds of training and aggregation")]
    evaluate: Annotated[float, Doc("seconds of evaluation")]
    probe: Annotated[float, Doc("seconds of probes")]
    moved: Annotated[dict[str, Any], Doc("copies and bytes to devices and through Ray, by kind")]


class PartitionRecord(TypedDict, total=False):
    """The labels of each client."""

    schema: Annotated[int, Doc("version of this table: 1")]
    label_counts: Annotated[list[list[int]], Doc("training labels by class of each client")]
    class_names: Annotated[list[str] | None, Doc("names of the classes")]
    client_names: Annotated[list[str] | None, Doc("names of the clients")]


class StatusRecord(TypedDict, total=False):
    """The progress of the run."""

    state: Annotated[
        Literal["running", "finished", "interrupted", "diverged", "failed"],
        Doc("how the run stands; `diverged` by [this rule](../src/eunoe/analysis/divergence.py)"),
    ]
    round: Annotated[int, Doc("round of the newest checkpoint")]
    reason: Annotated[str, Doc("why the run ended")]
    seconds: Annotated[float, Doc("seconds of all rounds")]
    privacy: Annotated[PrivacyRecord, Doc("the privacy budget spent, as in metrics.jsonl")]


class JournalRecord(TypedDict, total=False):
    """A line of a search's journal: its plan, or what it has decided or spent."""

    plan: dict[str, Any]
    spent: float
    fresh: int
    steps: list[Annotated[tuple[Literal["try", "vary", "repeat"], int], BeforeValidator(_as_tuple)]]
    winner: int
    averaged: bool


class TrialRecord(JournalRecord, total=False):
    """A trial of a search."""

    trial: int
    label: str
    settings: dict[str, Any]


class ScoresRecord(JournalRecord, total=False):
    """The scores of a trial after some rounds."""

    trial: int
    rounds: int
    accuracy: Number
    forgetting: Number
    seconds: Number
    newest_accuracy: Number
    newest_forgetting: Number
    seeds: Number


class ReasonRecord(TypedDict, total=False):
    """A row of a bench: why an entry was not run in a setting."""

    suite: str
    setting: str
    entry: str
    reason: str


class ResultRecord(ReasonRecord, total=False):
    """A row of a bench: an entry in a setting on a seed."""

    seed: int
    accuracy: float
    validation: float
    balanced: Number
    worst_client: Number
    forgetting: Number
    sent_forgetting: Number
    bytes: float
    samples: float
    curve: Annotated[list[Annotated[list[float], Field(min_length=1)]], Field(min_length=2, max_length=2)]


# Recorded in the section of each set of samples, as in test.accuracy; other metrics have their own section.
BY_SET = tuple(EvaluationRecord.__annotations__)
# The names in the record of a round that no metric of a user's own may have.
RECORDED = frozenset(RoundRecord.__annotations__)

PROBES: Mapping[str, Any] = {
    "client_matrix": ClientMatrixRecord,
    "local_per_class": LocalPerClassRecord,
    "drift": DriftRecord,
    "probability": ProbabilityRecord,
}
# The required keys of a record, and lists that must be as long as other lists.
_REQUIRED: Mapping[Any, Sequence[str]] = {
    RoundRecord: ("round",),
    ProbeRecord: ("round", "probe"),
    ClientMatrixRecord: ("round", "models", "data", "start", "after"),
    LocalPerClassRecord: ("round", "clients", "start", "local", "merged"),
    DriftRecord: ("round", "clients", "from_start", "apart", "cosine"),
    ProbabilityRecord: ("round", "clients", "probability"),
    PartitionRecord: ("label_counts",),
    StatusRecord: ("state",),
    TrialRecord: ("trial", "label", "settings"),
    ScoresRecord: ("trial", "rounds"),
    ReasonRecord: ("suite", "setting", "entry"),
    ResultRecord: [key for key in ResultRecord.__annotations__ if key != "reason"],
}
_LENGTHS: Mapping[Any, Mapping[str, Sequence[str]]] = {
    ClientMatrixRecord: {"start": ("data",), "after": ("models", "data")},
    LocalPerClassRecord: {
        "merged": ("start",),
        "local": ("clients", "start"),
        "counts": ("clients", "start"),
    },
    DriftRecord: {"from_start": ("clients",)},
    ProbabilityRecord: {"probability": ("clients",), "counts": ("clients",)},
    PartitionRecord: {"client_names": ("label_counts",)},
}
_VALIDATORS = {
    record: TypeAdapter[Any](record).validator
    for record in {RoundRecord, *PROBES.values(), TimingRecord, JournalRecord, *_REQUIRED}
}


def validate(value: dict[str, Any], record: Any, where: Path | str) -> dict[str, Any]:
    """Validate a value against a record and return it; `where` names its source in errors."""
    try:
        _VALIDATORS[record].validate_python(value, strict=True)
    except ValidationError as error:
        raise Damaged(f"{where}: {explain(error)}; restore the file") from None
    if missing := [key for key in _REQUIRED.get(record, ()) if key not in value]:
        raise Damaged(f"{where} has no {missing[0]!r}; restore the file")
    for key, others in _LENGTHS.get(record, {}).items():
        if value.get(key) is not None and not _fits(value[key], [len(value[other]) for other in others]):
            raise Damaged(
                f"{where}: {key!r} does not fit {' and '.join(map(repr, others))}; restore the file"
            )
    return value


def _fits(values: Any, lengths: Sequence[int]) -> bool:
    """Return whether nested lists have these lengths."""
    return len(values) == lengths[0] and all(_fits(inner, lengths[1:]) for inner in values if lengths[1:])


def describe(record: Any) -> dict[str, str]:
    """Return the keys of a record, without those of its base, with their meaning."""
    hints = get_type_hints(record, include_extras=True)
    inherited = {key for base in record.__orig_bases__ for key in getattr(base, "__annotations__", ())}
    return {key: hints[key].__metadata__[0].documentation for key in hints if key not in inherited}

"""The shapes of a run's records; a file that has others was not written by a run.

Of an object some values are known, and all may be absent.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from eunoe.config.messages import explain
from eunoe.errors import Damaged

Number = float | None
Row = list[Number]


@with_config(strict=True)
class Measured(TypedDict, total=False):
    """What was measured on one set of samples."""

    accuracy: Number
    f1: Number
    r2: Number
    loss: Number
    per_class: Row | None
    clients: dict[str, Any] | None


@with_config(strict=True)
class Dropped(TypedDict):
    """A client whose update was not used."""

    client: int
    reason: str


@with_config(strict=True)
class Sent(TypedDict, total=False):
    """The numbers of the model that clients receive."""

    validation: Measured | None
    client_test: Measured | None
    test: Measured | None
    forgetting: dict[str, Number | str] | None


@with_config(strict=True)
class Metrics(Sent, total=False):
    """A line of metrics.jsonl."""

    round: int
    lr: float
    clients: list[int]
    sizes: list[int]
    steps: list[int]
    loss_before: Row
    loss_after: Row
    update_norms: Row
    forwards: int
    backwards: int
    dropped: list[Dropped]
    bytes_up: int
    bytes_down: int
    server: dict[str, Any]
    warnings: list[str]
    sent: Sent | None
    personal: dict[str, Number] | None


@with_config(strict=True)
class Loss(TypedDict, total=False):
    """The losses of a round's models."""

    start: Number
    local: Row
    merged: Number


@with_config(strict=True)
class Probe(TypedDict, total=False):
    """A line of probes.jsonl."""

    round: int
    probe: str
    models: list[int]
    data: list[int]
    clients: list[int | None]
    start: Row
    after: list[Row]
    local: list[Row]
    merged: Row
    counts: list[Row] | None
    loss: Loss | None
    from_start: Row
    apart: Number
    cosine: Number
    probability: list[Row]


@with_config(strict=True)
class Timing(TypedDict, total=False):
    """A line of timings.jsonl."""

    round: int
    train: float
    evaluate: float
    probe: float


@with_config(strict=True)
class Partition(TypedDict, total=False):
    """The content of partition.json."""

    label_counts: list[list[int]]
    class_names: list[str] | None


@with_config(strict=True)
class Status(TypedDict, total=False):
    """The content of status.json."""

    state: Literal["running", "finished", "interrupted", "diverged", "failed"]
    round: int
    reason: str
    seconds: float


METRICS = TypeAdapter[Any](Metrics)
PROBE = TypeAdapter[Any](Probe)
TIMING = TypeAdapter[Any](Timing)
PARTITION = TypeAdapter[Any](Partition)
STATUS = TypeAdapter[Any](Status)


def checked(shape: TypeAdapter[Any], value: dict[str, Any], where: Path | str) -> dict[str, Any]:
    """The value as it is, if it has the shape."""
    try:
        shape.validator.validate_python(value)
    except ValidationError as error:
        raise Damaged(f"{where}: {explain(error)}; restore the file") from None
    return value

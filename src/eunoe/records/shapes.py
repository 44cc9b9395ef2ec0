"""The shapes of a run's records; a file that has others was not written by a run."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from eunoe.config.messages import explain
from eunoe.errors import Damaged

Number = float | None
Row = list[Number]


class Shape(BaseModel):
    """An object of which some values are known; all may be absent."""

    model_config = ConfigDict(extra="allow", strict=True)


class Measured(Shape):
    """What was measured on one set of samples."""

    accuracy: Number = None
    f1: Number = None
    r2: Number = None
    loss: Number = None
    per_class: Row | None = None
    clients: dict[str, Any] | None = None


class Dropped(Shape):
    """A client whose update was not used."""

    client: int
    reason: str


class Sent(Shape):
    """The numbers of the model that clients receive."""

    validation: Measured | None = None
    client_test: Measured | None = None
    test: Measured | None = None
    forgetting: dict[str, Number | str] | None = None


class Metrics(Sent):
    """A line of metrics.jsonl."""

    round: int = 0
    lr: float = 0.0
    clients: list[int] = []
    sizes: list[int] = []
    steps: list[int] = []
    loss_before: Row = []
    loss_after: Row = []
    update_norms: Row = []
    forwards: int = 0
    backwards: int = 0
    dropped: list[Dropped] = []
    bytes_up: int = 0
    bytes_down: int = 0
    server: dict[str, Any] = {}
    warnings: list[str] = []
    sent: Sent | None = None
    personal: dict[str, Number] | None = None


class Loss(Shape):
    """The losses of a round's models."""

    start: Number = None
    local: Row = []
    merged: Number = None


class Probe(Shape):
    """A line of probes.jsonl."""

    round: int = 0
    probe: str = ""
    models: list[int] = []
    data: list[int] = []
    clients: list[int | None] = []
    start: Row = []
    after: list[Row] = []
    local: list[Row] = []
    merged: Row = []
    counts: list[Row] | None = None
    loss: Loss | None = None
    from_start: Row = []
    apart: Number = None
    cosine: Number = None
    probability: list[Row] = []


class Timing(Shape):
    """A line of timings.jsonl."""

    round: int = 0
    train: float = 0.0
    evaluate: float = 0.0
    probe: float = 0.0


class Partition(Shape):
    """The content of partition.json."""

    label_counts: list[list[int]] = []
    class_names: list[str] | None = None


class Status(Shape):
    """The content of status.json."""

    state: Literal["running", "finished", "interrupted", "diverged", "failed"] = "running"
    round: int = 0
    reason: str = ""
    seconds: float = 0.0


def checked(shape: type[BaseModel], value: dict[str, Any], where: Path | str) -> dict[str, Any]:
    """The value as it is, if it has the shape."""
    try:
        shape.model_validate(value)
    except ValidationError as error:
        raise Damaged(f"{where}: {explain(error)}; restore the file") from None
    return value

"""The configuration of a run: the validated content of config.toml, with a description per field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from eunoe.config import registry
from eunoe.config.messages import explain_in
from eunoe.config.options import (
    STANDARD_PROBES,
    Attack,
    Augment,
    Averaging,
    Compression,
    FeatureShift,
    Finite,
    Options,
    Preprocessing,
    Privacy,
    Probe,
    Public,
    Replay,
    SecureAggregation,
    Split,
    Training,
)
from eunoe.errors import InputError
from eunoe.text import unprintable

# Upper limit of rounds.
MOST_ROUNDS = 10_000_000


class Named(BaseModel):
    """A named component with its options, as in `method = {name = "fedprox", mu = 0.1}`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(description="Name of the component.")

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _expand_name(value: Any) -> Any:
    """Expand a name to a section."""
    return {"name": value} if isinstance(value, str) else value


class Model(Named):
    """The model and its initial weights."""

    start_from: str | None = Field(None, description="Initial weights: a state_dict (.safetensors or .pt).")
    partial: bool = Field(False, description="Load only the entries of start_from that fit.")
    head: bool = Field(False, description="Add a projection head before the classifier, as in MOON.")
    classifier: Literal["trained", "frozen", "etf"] = Field(
        "trained", description="Train the classifier, freeze it, or fix it to a simplex ETF."
    )
    classifier_bias: bool = Field(True, description="Whether the classifier has a bias (FedRS: false).")
    dtype: Literal["float32", "float64"] = Field("float32", description="Data type of weights and inputs.")

    @model_validator(mode="after")
    def _check_partial(self) -> "Model":
        if self.partial and self.start_from is None:
            raise ValueError("partial needs start_from")
        return self


class PublicPart(Public):
    """The public set: part of the training samples, or another data set."""

    data: Named | None = Field(None, description="Another data set to take it from.")

    _expand = field_validator("data", mode="before")(_expand_name)


class Evaluation(Options):
    """Evaluation of the global model."""

    every: int = Field(
        1,
        ge=0,
        le=MOST_ROUNDS,
        description="Evaluate every so many rounds, and the round before each; 0: never.",
    )
    last: int = Field(
        10,
        ge=0,
        le=MOST_ROUNDS,
        description="Evaluate each of this many last rounds; the result is their mean.",
    )
    chunk: int = Field(500, ge=1, le=1_000_000, description="Samples evaluated at a time.")
    validation: bool = Field(True, description="Evaluate on the pooled validation parts of the clients.")
    test: bool = Field(True, description="Evaluate on the test set and on the clients' own test parts.")
    personal: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Evaluate the last model on this many test samples in each client's label mix, with and "
        "without the client's class shares as a prior; 0: not at all.",
    )


class EngineChoice(Named):
    """The engine and its options."""

    name: str = Field("process", description="Name of the engine.")
    device: str = Field("cpu", description="Torch device of the engines serial and vectorized.")

    @model_validator(mode="after")
    def _check_device(self) -> "EngineChoice":
        if self.device != "cpu" and self.name in ("process", "ray"):
            raise ValueError(f"engine {self.name!r} has no option device: set devices")
        return self


class Stop(Options):
    """Conditions that end a run before its last round."""

    target: Finite | None = Field(None, gt=0, le=1, description="Validation accuracy to reach.")
    test_target: Finite | None = Field(None, gt=0, le=1, description="Test accuracy to reach.")
    hours: Finite | None = Field(
        None, gt=0, le=1e6, description="Hours of running time, not counting those before it was resumed."
    )


class Config(Options):
    """The complete configuration of a run."""

    name: str = Field("", description="A name for tables and figures; by default method and loss.")
    seed: int = Field(0, ge=0, lt=1 << 63, description="Seed of all random numbers.")
    rounds: int = Field(100, ge=1, le=MOST_ROUNDS, description="Number of rounds.")
    participation: int | Finite = Field(
        0.1, description="Clients per round: a share of all (a float up to 1.0) or a number (an integer)."
    )
    data: Named = Field(Named(name="digits"), description="The data set.")
    backbone: Named | None = Field(
        None, description="A frozen encoder whose features are the model's inputs; none by default."
    )
    partition: Named = Field(
        Named(name="dirichlet", clients=20, alpha=0.1), description="How samples are divided among clients."
    )
    split: Split = Field(Split(), description="Split of each client's samples.")
    public: PublicPart = Field(PublicPart(), description="The public set.")
    preprocessing: Preprocessing | None = Field(
        None, description="Normalization of inputs; by default that of the data set."
    )
    shift: FeatureShift | None = Field(None, description="A change of inputs that differs between clients.")
    stream: tuple[Named, ...] = Field(
        (), description="How the clients' data change over the rounds; not at all by default."
    )
    stale_counts: int = Field(
        0,
        ge=0,
        le=10_000,
        description="Delay of the label counts that losses and methods use, in participations.",
    )
    replay: Replay | None = Field(
        None, description="Samples of earlier rounds that clients train on again; off by default."
    )
    augment: Augment = Field(Augment(), description="Random augmentation of training images.")
    model: Model = Field(Model(name="mlp"), description="The model.")
    training: Training = Field(Training(), description="Local training.")
    loss: Named = Field(Named(name="ce"), description="The loss that clients minimize.")
    method: Named = Field(Named(name="fedavg"), description="The federated method.")
    server_optimizer: Named = Field(Named(name="sgd"), description="How the server applies the mean update.")
    averaging: Averaging | None = Field(
        None, description="Evaluate and export the average of the global models; off by default."
    )
    aggregation: Named = Field(Named(name="mean"), description="How the updates of a round are combined.")
    secure_aggregation: SecureAggregation | None = Field(
        None, description="The server sees only sums over a round's clients; off by default."
    )
    privacy: Privacy | None = Field(None, description="Differential privacy of clients; off by default.")
    compress: Compression | None = Field(None, description="Compression of updates; off by default.")
    attack: Attack | None = Field(None, description="Malicious clients in a simulation; none by default.")
    evaluation: Evaluation = Field(Evaluation(), description="Evaluation of the global model.")
    metrics: tuple[Named, ...] = Field(
        (), description="Metrics of the global model besides accuracy, loss and forgetting."
    )
    probes: tuple[Probe, ...] = Field(STANDARD_PROBES, description="Metrics of clients' models.")
    track: tuple[Named, ...] = Field((), description="Trackers that get the numbers and figures.")
    stop: Stop = Field(Stop(), description="Early stopping.")
    engine: EngineChoice = Field(EngineChoice(), description="The engine that trains clients.")
    checkpoint_seconds: Finite = Field(
        10.0, ge=0, le=1e9, description="Minimum time between checkpoints; 0: one every round."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_preset(cls, values: Any) -> Any:
        return registry.expand_preset(values) if isinstance(values, Mapping) else values

    @field_validator(
        "data",
        "partition",
        "model",
        "loss",
        "method",
        "server_optimizer",
        "aggregation",
        "engine",
        mode="before",
    )
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """Expand a name to a section; add the default name to options without one."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "name" not in value and info.field_name:
            return {**cls.model_fields[info.field_name].default.model_dump(), **value}
        return value

    _expand = field_validator("backbone", mode="before")(_expand_name)

    @field_validator("metrics", "track", "stream", mode="before")
    @classmethod
    def _expand_list(cls, value: Any) -> Any:
        """Make a list of a single name or section, and expand names."""
        return [_expand_name(item) for item in (value if isinstance(value, list | tuple) else [value])]

    @field_validator("participation")
    @classmethod
    def _check_participation(cls, value: int | float) -> int | float:
        if not (value >= 1 if isinstance(value, int) else 0 < value <= 1):
            raise ValueError(f"must be a share above 0.0 up to 1.0, or a number of clients, not {value}")
        return value

    @model_validator(mode="after")
    def _check_targets(self) -> "Config":
        evaluation = self.evaluation
        for key, part in (("target", "validation"), ("test_target", "test")):
            on = getattr(evaluation, part) and (evaluation.every or evaluation.last)
            if getattr(self.stop, key) is not None and not on:
                raise ValueError(f"stop.{key} needs evaluation.{part}=true, and every or last above 0")
        return self

    def participants(self, clients: int) -> int:
        """Return the number of clients in a round."""
        if isinstance(self.participation, int):
            if self.participation > clients:
                raise InputError(f"participation={self.participation} is more than the {clients} clients")
            return self.participation
        return max(1, round(self.participation * clients))

    @property
    def title(self) -> str:
        """The run's name, or its method and loss."""
        step = "" if self.server_optimizer.name == "sgd" else f" + {self.server_optimizer.name}"
        mask = "" if self.server_optimizer.options.get("gma") is None else " + gma"
        combined = "" if self.aggregation.name == "mean" else f" + {self.aggregation.name}"
        mean = "" if self.averaging is None else " + averaging"
        noise = "" if self.privacy is None else " + privacy"
        less = "" if self.compress is None else f" + {self.compress.name}"
        return self.name or f"{self.method.name}{step}{mask}{combined}{mean}{noise}{less} · {self.loss.name}"


# Options that may change when a run is resumed: none of them affects what a round computes.
RESUMABLE = {"name", "rounds", "metrics", "probes", "track", "stop", "engine", "checkpoint_seconds"}


def make_config(values: Mapping[str, Any]) -> Config:
    """Validate nested values; raise an InputError of one line if they are invalid."""
    try:
        return Config.model_validate(_plain(values))
    except ValidationError as error:
        raise InputError(explain_in(Config, error)) from None


def _plain(value: Any) -> Any:
    """Convert NumPy numbers and paths to plain types."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Path):
        value = str(value)
    # Line breaks and tabs do no harm.
    if isinstance(value, str) and (letter := unprintable(value.replace("\n", " ").replace("\t", " "))):
        raise InputError(f"{value!r} has the unprintable character {letter!r}")
    return value.item() if isinstance(value, np.generic) else value

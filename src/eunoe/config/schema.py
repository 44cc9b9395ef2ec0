"""The configuration of a run: the validated content of config.toml, with a description per field."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from eunoe.config import options, registry
from eunoe.config.messages import explain_in
from eunoe.config.options import Finite, Named, Options, ScoreName
from eunoe.errors import InputError
from eunoe.text import unprintable

# Upper limit of rounds.
MOST_ROUNDS = 10_000_000
Rounds = Annotated[int, Field(ge=0, le=MOST_ROUNDS)]


class Model(Named):
    """The model and its initial weights."""

    start_from: str | None = Field(None, description="Initial weights: a state_dict (.safetensors or .pt).")
    partial: bool = Field(False, description="Load only the entries of start_from that fit.")
    head: bool | Literal["causal_lm"] = Field(
        False,
        description="Add a projection head before the classifier (MOON); causal_lm: for language models.",
    )
    classifier: Literal["trained", "frozen", "etf"] = Field(
        "trained", description="Train the classifier, freeze it, or fix it to a simplex ETF."
    )
    classifier_bias: bool = Field(True, description="Whether the classifier has a bias (FedRS: false).")
    dtype: Literal["float32", "float64"] = Field("float32", description="Data type of weights and inputs.")

    def _check_options(self) -> None:
        if self.partial and self.start_from is None:
            raise ValueError("partial needs start_from")


class Evaluation(Options):
    """Evaluation of the global model."""

    every: Rounds = Field(1, description="Evaluate every n-th round and the round before; 0: never.")
    last: Rounds = Field(10, description="Evaluate each of the last rounds; the result is their mean.")
    chunk: int = Field(500, ge=1, le=1_000_000, description="Samples (or tokens) evaluated at a time.")
    validation: bool = Field(True, description="Evaluate on the pooled validation parts of the clients.")
    test: bool = Field(True, description="Evaluate on the test set and on the clients' own test parts.")
    metric: ScoreName | None = Field(
        None,
        description="Score that picks the best model on validation data; by default the accuracy "
        "(multilabel: macro-F1, regression: R²).",
    )
    retain_at_least: Finite | None = Field(
        None, gt=0, le=1, description="The best model retains at least this share on each reference set."
    )
    judging: bool = Field(
        False,
        description="Keep half of the validation samples for judging: they and the test set are evaluated "
        "for each model that is the best so far and in the last rounds only.",
    )
    personal: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Evaluate the last model on this many test samples in each client's label mix; 0: none.",
    )


class EngineChoice(Named):
    """The engine and its options."""

    name: str = Field("process", description="Name of the engine.")
    device: str = Field("cpu", description="Torch device of the engines serial and vectorized.")

    def _check_options(self) -> None:
        if self.device != "cpu" and self.name in ("process", "ray"):
            raise ValueError(f"engine {self.name!r} has no option device: set devices")


class Stop(Options):
    """Conditions that end a run before its last round."""

    target: Finite | None = Field(None, gt=0, le=1, description="Validation accuracy to reach.")
    test_target: Finite | None = Field(None, gt=0, le=1, description="Test accuracy to reach.")
    retention: Finite | None = Field(None, gt=0, le=1, description="Retention below which the run ends.")
    hours: Finite | None = Field(None, gt=0, le=1e6, description="Hours of running time since its start.")
    patience: int | None = Field(
        None, ge=1, le=MOST_ROUNDS, description="Evaluations without a better validation score."
    )


class Config(Options):
    """The complete configuration of a run."""

    name: str = Field("", description="A name for tables and figures; by default method and loss.")
    seed: int = Field(0, ge=0, lt=1 << 63, description="Seed of all random numbers.")
    rounds: int = Field(100, ge=1, le=MOST_ROUNDS, description="Number of rounds.")
    participation: options.Participants | options.Participation = Field(
        0.1,
        description="Clients per round: a share of all (a float up to 1.0) or a number (an integer); or a "
        "schedule with start and end.",
    )
    data: Named = Field(Named(name="digits"), description="The data set.")
    backbone: Named | None = Field(None, description="A frozen encoder in front of the model.")
    partition: Named = Field(
        Named(name="dirichlet", clients=20, alpha=0.1), description="Division of samples among clients."
    )
    split: options.Split = Field(options.Split(), description="Split of each client's samples.")
    public: options.Public = Field(options.Public(), description="The public set.")
    retain: tuple[options.Reference, ...] = Field((), description="Sets on which retention is measured.")
    preprocessing: options.Preprocessing | None = Field(None, description="Normalization of inputs.")
    shift: options.FeatureShift | None = Field(None, description="Change of inputs that differs by client.")
    stream: tuple[Named, ...] = Field((), description="How the clients' data change over the rounds.")
    stale_counts: int = Field(0, ge=0, le=10_000, description="Delay of label counts, in participations.")
    replay: options.Replay | None = Field(None, description="Earlier samples that clients train on again.")
    augment: options.Augment = Field(options.Augment(), description="Random augmentation of training images.")
    model: Model = Field(Model(name="mlp"), description="The model.")
    training: options.Training = Field(options.Training(), description="Local training.")
    loss: Named = Field(Named(name="ce"), description="The loss that clients minimize.")
    method: Named = Field(Named(name="fedavg"), description="The federated method.")
    server_optimizer: Named = Field(Named(name="sgd"), description="How the server applies the mean update.")
    averaging: options.Averaging | None = Field(None, description="Evaluate and export an average of models.")
    aggregation: Named = Field(Named(name="mean"), description="How the updates of a round are combined.")
    secure_aggregation: options.SecureAggregation | None = Field(
        None, description="The server sees only sums of updates."
    )
    privacy: options.Privacy | None = Field(None, description="Differential privacy of clients.")
    compress: options.Compression | None = Field(None, description="Compression of updates.")
    private: options.Private | None = Field(None, description="Parameters that stay with each client.")
    staleness: options.Staleness | None = Field(None, description="Simulated delays of updates.")
    attack: options.Attack | None = Field(None, description="Malicious clients in a simulation.")
    evaluation: Evaluation = Field(Evaluation(), description="Evaluation of the global model.")
    metrics: tuple[Named, ...] = Field((), description="Further metrics of the global model.")
    probes: tuple[options.Probe, ...] = Field(options.STANDARD_PROBES, description="Metrics of local models.")
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

    @field_validator("*", mode="before")
    @classmethod
    def _complete(cls, value: Any, info: ValidationInfo) -> Any:
        """Add the default component to options without a name."""
        default = cls.model_fields[info.field_name].default if info.field_name else None
        if isinstance(value, dict) and "name" not in value and isinstance(default, Named):
            return {**default.model_dump(), **value}
        return value

    @field_validator("metrics", "track", "stream", "retain", mode="before")
    @classmethod
    def _make_list(cls, value: Any) -> Any:
        """Make a list of a single name or section."""
        return value if isinstance(value, list | tuple) else [value]

    @model_validator(mode="before")
    @classmethod
    def _end_participation(cls, values: Any) -> Any:
        """Let a schedule end with the last round; a run that is resumed with more rounds keeps its own."""
        schedule = values.get("participation") if isinstance(values, Mapping) else None
        if not isinstance(schedule, Mapping):
            return values
        whole = {"over": values.get("rounds", cls.model_fields["rounds"].default), **schedule}
        return {**values, "participation": options.Participation.read(whole, "participation")}

    def _check_options(self) -> None:
        evaluation = self.evaluation
        if len({each.name for each in self.retain}) < len(self.retain):
            raise ValueError("retain: reference sets must have different names")
        if not self.retain and (evaluation.retain_at_least or self.stop.retention) is not None:
            raise ValueError("stop.retention and evaluation.retain_at_least need a reference set in retain")
        for key, part in (("target", "validation"), ("patience", "validation"), ("test_target", "test")):
            on = getattr(evaluation, part) and (evaluation.every or evaluation.last)
            if getattr(self.stop, key) is not None and not on:
                raise ValueError(f"stop.{key} needs evaluation.{part}=true, and every or last above 0")

    def participants(self, clients: int, round: int | None = None) -> int:
        """Return the number of clients in a round, or the most of any round."""
        if round is not None and isinstance(self.participation, options.Participation):
            return self.participation.participants(round, clients)
        return self.participant_range(clients)[1]

    def participant_range(self, clients: int) -> tuple[int, int]:
        """Return the fewest and the most clients of a round."""
        share = self.participation
        ends = (share.start, share.end) if isinstance(share, options.Participation) else (share, share)
        fewest, most = sorted(options.count_participants(each, clients) for each in ends)
        return fewest, most

    @property
    def title(self) -> str:
        """The run's name, or its method and loss."""
        step = "" if self.server_optimizer.name == "sgd" else f" + {self.server_optimizer.name}"
        mask = "" if self.server_optimizer.options.get("gma") is None else " + gma"
        combined = "" if self.aggregation.name == "mean" else f" + {self.aggregation.name}"
        mean = "" if self.averaging is None else " + averaging"
        noise = "" if self.privacy is None else " + privacy"
        less = "" if self.compress is None else f" + {self.compress.name}"
        late = f" + staleness {self.staleness.max}" if self.staleness and self.staleness.max else ""
        own = "" if self.private is None else f" + private {', '.join(self.private.names)}"
        parts = f"{step}{mask}{combined}{mean}{noise}{less}{late}{own}"
        return self.name or f"{self.method.name}{parts} · {self.loss.name}"


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

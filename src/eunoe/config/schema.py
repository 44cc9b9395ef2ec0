"""The configuration of a run: the validated contents of config.toml, with a description per field."""

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

# A run of a round per millisecond would take half a year.
MOST_ROUNDS = 10_000_000


class Named(BaseModel):
    """A named component with its options, as in `method = {name = "fedprox", mu = 0.1}`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str = Field(description="Which one.")

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Model(Named):
    """The model, and the file it starts from."""

    start_from: str | None = Field(None, description="A state_dict file (.safetensors or .pt) to start from.")
    partial: bool = Field(
        False, description="Load the entries of that file that fit and ignore the rest; needs start_from."
    )
    head: bool = Field(False, description="Add a projection head before the classifier, as MOON has it.")
    classifier: Literal["trained", "frozen", "etf"] = Field(
        "trained", description="Train the classifier, freeze it at its start, or fix it to a simplex ETF."
    )
    classifier_bias: bool = Field(True, description="Whether the classifier has a bias; FedRS's has none.")
    dtype: Literal["float32", "float64"] = Field("float32", description="Type of weights and inputs.")

    @model_validator(mode="after")
    def _partial_of_something(self) -> "Model":
        if self.partial and self.start_from is None:
            raise ValueError("partial says how start_from is loaded: set start_from, or leave partial out")
        return self


class PublicPart(Public):
    """The public set: a part of the training samples, or another data set."""

    data: Named | None = Field(None, description="Another data set to take the public set from.")

    @field_validator("data", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value


class Evaluation(Options):
    """When and on what the global model is evaluated."""

    every: int = Field(
        1,
        ge=0,
        le=MOST_ROUNDS,
        description="Rounds between evaluations; at each, the round before is evaluated too. 0: never.",
    )
    last: int = Field(
        10,
        ge=0,
        le=MOST_ROUNDS,
        description="Evaluate each of this many last rounds; their mean is the result.",
    )
    chunk: int = Field(500, ge=1, le=1_000_000, description="Samples evaluated at a time.")
    validation: bool = Field(True, description="Evaluate on the clients' pooled validation parts.")
    test: bool = Field(True, description="Evaluate on the test set and on the clients' own test parts.")
    personal: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Test samples in each client's label mix on which the last model is evaluated with and "
        "without the client's class shares; 0: none.",
    )


class EngineChoice(Named):
    """Where clients train, with the options of that engine."""

    name: str = Field("process", description="Which engine.")
    device: str = Field("cpu", description="Torch device of the serial and vectorized engines.")

    @model_validator(mode="after")
    def _device_of_its_own(self) -> "EngineChoice":
        if self.device != "cpu" and self.name in ("process", "ray"):
            raise ValueError(f"{self.name} has workers on devices: set devices in place of device")
        return self


class Stop(Options):
    """What ends a run before its last round."""

    target: Finite | None = Field(None, gt=0, le=1, description="Validation accuracy that is enough.")
    test_target: Finite | None = Field(None, gt=0, le=1, description="Test accuracy that is enough.")
    hours: Finite | None = Field(
        None,
        gt=0,
        le=1e6,
        description="Hours of running time, not counting earlier runs that this one resumes.",
    )


class Config(Options):
    """The complete configuration of a run."""

    name: str = Field("", description="A name for tables and figures; by default made from loss and method.")
    seed: int = Field(0, ge=0, lt=1 << 63, description="The source of every random number.")
    rounds: int = Field(100, ge=1, le=MOST_ROUNDS, description="Number of rounds.")
    participation: int | Finite = Field(
        0.1, description="Clients in a round: a share of all (a float up to 1.0) or a number (an integer)."
    )
    data: Named = Field(Named(name="digits"), description="The data set.")
    backbone: Named | None = Field(
        None, description="A frozen encoder whose features are the model's inputs; none by default."
    )
    partition: Named = Field(
        Named(name="dirichlet", clients=20, alpha=0.1), description="How samples are divided among clients."
    )
    split: Split = Field(Split(), description="The parts of a client's samples.")
    public: PublicPart = Field(PublicPart(), description="The public set.")
    preprocessing: Preprocessing | None = Field(
        None, description="What inputs are normalized by; by default what the data set measures or knows."
    )
    shift: FeatureShift | None = Field(None, description="A change of inputs that differs by client.")
    stream: tuple[Named, ...] = Field(
        (), description="How the clients and their data change with the rounds; by default they do not."
    )
    stale_counts: int = Field(
        0,
        ge=0,
        le=10_000,
        description="By how many participations the label counts lag that losses and methods see.",
    )
    replay: Replay | None = Field(
        None, description="Samples of earlier rounds that clients train on too; none by default."
    )
    augment: Augment = Field(Augment(), description="Random changes of training inputs.")
    model: Model = Field(Model(name="mlp"), description="The model.")
    training: Training = Field(Training(), description="Local training.")
    loss: Named = Field(Named(name="ce"), description="What a client minimizes on its own labels.")
    method: Named = Field(Named(name="fedavg"), description="The federated method.")
    server_optimizer: Named = Field(
        Named(name="sgd"), description="What the server does with the mean update."
    )
    averaging: Averaging | None = Field(
        None, description="Evaluate and export the mean of the global models; off by default."
    )
    aggregation: Named = Field(
        Named(name="mean"), description="How the changes of a round's clients become one."
    )
    secure_aggregation: SecureAggregation | None = Field(
        None, description="Let the server see only sums over a round's clients; off by default."
    )
    privacy: Privacy | None = Field(
        None, description="Differential privacy at the level of clients; off by default."
    )
    compress: Compression | None = Field(
        None, description="Send a part of each change, or all of it in few bits; off by default."
    )
    attack: Attack | None = Field(None, description="Malicious clients of a simulation; none by default.")
    evaluation: Evaluation = Field(Evaluation(), description="Evaluation of the global model.")
    metrics: tuple[Named, ...] = Field(
        (), description="Metrics of evaluated models besides accuracy, loss and forgetting."
    )
    probes: tuple[Probe, ...] = Field(
        STANDARD_PROBES, description="Metrics of clients' models, and their rounds."
    )
    track: tuple[Named, ...] = Field((), description="Tools that the numbers and figures are sent to.")
    stop: Stop = Field(Stop(), description="What ends the run early.")
    engine: EngineChoice = Field(EngineChoice(), description="Where clients train.")
    checkpoint_seconds: Finite = Field(
        10.0, ge=0, le=1e9, description="Least time between checkpoints; 0 writes one every round."
    )

    @model_validator(mode="before")
    @classmethod
    def _method_and_step(cls, values: Any) -> Any:
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
        """A name may stand alone; options without a name are those of the default component."""
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and "name" not in value and info.field_name:
            return {**cls.model_fields[info.field_name].default.model_dump(), **value}
        return value

    @field_validator("backbone", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("metrics", "track", "stream", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """One may stand alone, and be a name or a section."""
        listed = value if isinstance(value, list | tuple) else [value]
        return [{"name": one} if isinstance(one, str) else one for one in listed]

    @field_validator("participation")
    @classmethod
    def _some_clients(cls, value: int | float) -> int | float:
        possible = value >= 1 if isinstance(value, int) else 0 < value <= 1
        if not possible:
            raise ValueError(f"it must be a share above 0.0 up to 1.0, or a number of clients, not {value}")
        return value

    @model_validator(mode="after")
    def _targets_are_measured(self) -> "Config":
        evaluation = self.evaluation
        for key, target, on in (
            ("target", self.stop.target, evaluation.validation),
            ("test_target", self.stop.test_target, evaluation.test),
        ):
            if target is not None and not (on and (evaluation.every or evaluation.last)):
                raise ValueError(f"stop.{key} needs what [evaluation] turns off")
        return self

    def participants(self, clients: int) -> int:
        """How many clients take part in a round."""
        if isinstance(self.participation, int):
            if self.participation > clients:
                raise InputError(f"participation: {self.participation} of {clients} clients cannot take part")
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
    """Validate nested values into a config; an error is an InputError of one line."""
    try:
        return Config.model_validate(_plain(values))
    except ValidationError as error:
        raise InputError(explain_in(Config, error)) from None


def _plain(value: Any) -> Any:
    """Values with NumPy numbers and paths converted to plain types."""
    if isinstance(value, Mapping):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Path):
        value = str(value)
    # A name of several lines is odd, but does no harm.
    if isinstance(value, str) and (letter := unprintable(value.replace("\n", " ").replace("\t", " "))):
        raise InputError(f"{value!r} has the character {letter!r}, which no terminal or page should get")
    return value.item() if isinstance(value, np.generic) else value

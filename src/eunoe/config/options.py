"""The base class of validated options, and the sections of a config."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from eunoe.config.messages import explain_in
from eunoe.errors import InputError


def _check_float32(number: float) -> float:
    if abs(number) > 1e38:
        raise ValueError("must be between -1e38 and 1e38")
    return number


def _check_count(number: int) -> int:
    if number > 1 << 40:
        raise ValueError(f"must be at most {1 << 40}")
    return number


# The limits are functions because `le` and `ge` of the type would replace those of a field.
# A number that float32 can hold.
Finite = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_check_float32)]
Positive = Annotated[Finite, Field(gt=0)]
# A count; larger ones are mistakes.
Whole = Annotated[int, AfterValidator(_check_count)]
# Scores that a model can be picked by instead of the task's main metric.
ScoreName = Literal["balanced_accuracy", "macro_f1", "auroc", "worst_class", "worst_client"]


class Options(BaseModel):
    """A frozen group of options; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bool_as_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject booleans, which pydantic accepts as 0 and 1."""
        if isinstance(value, bool) and info.field_name:
            annotation = cls.model_fields[info.field_name].annotation
            if not _mentions(annotation, bool) and _mentions(annotation, int, float):
                raise ValueError(f"must be a number, not {str(value).lower()}")
        return value

    @model_validator(mode="after")
    def _run_checks(self) -> Self:
        self._check_options()
        return self

    def _check_options(self) -> None:
        """Raise ValueError if options do not go together; override this."""

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate values that are not part of a config; `where` starts the error message."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise InputError(f"{where}: {explain_in(cls, error)}") from None


def _mentions(annotation: Any, *kinds: type) -> bool:
    """Return whether a type is or contains one of these types."""
    return annotation in kinds or any(_mentions(inner, *kinds) for inner in get_args(annotation))


class Split(Options):
    """How each client's samples are split; the rest is for training."""

    validation: Finite = Field(0.1, description="Share of each client's samples for validation.")
    test: Finite = Field(0.0, description="Share of each client's samples for its own test set.")

    def _check_options(self) -> None:
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise ValueError("validation and test must be at least 0 and below 1 together")


class Named(Options):
    """A named component with its options, as in `method = {name = "fedprox", mu = 0.1}`; or only its name."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="Name of the component.")

    @model_validator(mode="before")
    @classmethod
    def _expand_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class Public(Options):
    """The public set: a part of the training samples (share, count or groups), or another data set."""

    share: float = Field(0.0, ge=0, lt=1, description="Share of the training samples that are public.")
    count: Whole | None = Field(None, ge=1, description="Number of public samples, instead of a share.")
    groups: Whole | None = Field(None, ge=1, description="Number of whole groups (writers) that are public.")
    min_size: Whole = Field(1, ge=1, description="Groups with fewer samples are never public.")
    balanced: bool = Field(False, description="Take the same number of samples of each class.")
    alpha: Finite | None = Field(None, gt=0, description="Draw class shares from Dirichlet(alpha).")
    validation: float = Field(0.1, ge=0, lt=1, description="Share of the public samples for validation.")
    data: Named | None = Field(None, description="Another data set to take it from.")

    def _check_options(self) -> None:
        if (self.share > 0) + (self.count is not None) + (self.groups is not None) > 1:
            raise ValueError("set only one of share, count and groups")
        if self.groups is not None and (self.balanced or self.alpha is not None):
            raise ValueError("balanced and alpha do not apply to groups; set share or count")
        if self.balanced and self.alpha is not None:
            raise ValueError("set only one of balanced and alpha")
        if (self.balanced or self.alpha is not None) and not self.sized:
            raise ValueError("balanced and alpha need a share or a count")
        if self.min_size > 1 and self.groups is None:
            raise ValueError("min_size needs groups")

    @property
    def sized(self) -> bool:
        """Whether the number of public samples is set."""
        return self.share > 0 or self.count is not None or self.groups is not None


class Reference(Options):
    """A reference set, on which a run measures what the start model knew and what is left of it."""

    name: str = Field(min_length=1, description="Its name in records.")
    data: Named = Field(description="A data set; its test part is evaluated.")


class Preprocessing(Options):
    """Normalization of inputs: (x - mean) / std; bytes are divided by 255 first."""

    mean: tuple[Finite, ...] = Field(min_length=1, description="One number, or one per channel or feature.")
    std: tuple[Positive, ...] = Field(min_length=1, description="As many numbers as mean, all above 0.")


class FeatureShift(Options):
    """A change of inputs that is drawn for each client.

    - noise: add a fixed pattern of Gaussian noise, with a standard deviation uniform from 0 to strength.
    - rotation: rotate images by an angle uniform from -strength to strength degrees; new corners are zero.
    - contrast: scale the distance of inputs from their own mean by e^u, u uniform from -strength to strength.
    """

    kind: Literal["noise", "rotation", "contrast"] = Field(description="What differs between clients.")
    strength: float = Field(gt=0, le=180, description="Strength, in the unit of the kind.")

    def _check_options(self) -> None:
        if self.kind == "contrast" and self.strength > 10:
            raise ValueError("contrast scales by e^strength: strength must be at most 10")


class Augment(Options):
    """Random augmentation of training images; off by default."""

    crop_padding: int = Field(0, ge=0, le=1024, description="Pixels of padding before a random crop.")
    flip: bool = Field(False, description="Flip half of the images horizontally.")
    cutout: int = Field(0, ge=0, le=4096, description="Side of a random square to blank, in pixels.")

    @property
    def active(self) -> bool:
        """Whether any augmentation is on."""
        return bool(self.crop_padding or self.flip or self.cutout)


# Upper limit of local epochs and steps.
MOST_STEPS = 1_000_000_000
Steps = Annotated[int, Field(le=MOST_STEPS)]


class Training(Options):
    """Local training."""

    epochs: int | tuple[int, int] = Field(3, description="Local epochs; [min, max]: drawn per client.")
    head_epochs: int = Field(
        0, ge=0, description="First epochs, which train private parameters alone; the others train the rest."
    )
    steps: Steps | None = Field(None, ge=1, description="Local steps, instead of epochs.")
    batch_size: Whole = Field(64, ge=0, description="Samples per step; 0: all of a client's samples.")
    lr: Finite = Field(0.05, gt=0, description="Learning rate in round 1.")
    lr_decay: Finite = Field(1.0, gt=0, le=1, description="Factor on the learning rate after every round.")
    optimizer: Literal["sgd", "adam", "adamw"] = Field(
        "sgd", description="Local optimizer; its state is reset in each round."
    )
    momentum: Finite = Field(0.0, ge=0, lt=1, description="Momentum of sgd.")
    weight_decay: Finite = Field(0.0, ge=0, description="Added to the gradient (decoupled for adamw).")
    precision: Literal["float32", "bf16", "fp16"] = Field(
        "float32", description="Precision of local training (torch's autocast); weights stay float32."
    )
    clip: Finite | None = Field(None, gt=0, description="Maximum norm of the gradient.")
    last_batch: Literal["keep", "drop"] = Field(
        "keep", description="Keep or drop an incomplete batch; for batch norm, one sample joins the last."
    )
    label_counts: Literal["train", "train_and_validation", "seen"] = Field(
        "train",
        description="Labels that losses count: training; with validation (WSM's code); the maximum so far.",
    )
    single_class: Literal["train", "no_decay", "skip"] = Field(
        "train",
        description="Clients of one class, which tce and wsm cannot learn from: train, no decay, or skip.",
    )

    def _check_options(self) -> None:
        least, most = self.epoch_range
        if not 1 <= least <= most <= MOST_STEPS:
            raise ValueError(f"epochs must be 1 to {MOST_STEPS}, or a pair [min, max], not {self.epochs}")
        if self.head_epochs and (self.steps is not None or least != most or self.head_epochs >= least):
            raise ValueError("head_epochs needs a fixed number of epochs above it, and no steps")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is an option of sgd, not of {self.optimizer}")

    @property
    def epoch_range(self) -> tuple[int, int]:
        return self.epochs if isinstance(self.epochs, tuple) else (self.epochs, self.epochs)

    def lr_in(self, round: int) -> float:
        """Return the learning rate of a round; the first round is 1."""
        return self.lr * self.lr_decay ** (round - 1)


class Replay(Options):
    """Samples of earlier rounds that a client keeps and trains on again."""

    memory: PositiveInt = Field(200, le=10_000_000, description="Maximum number of samples per client.")


class Averaging(Options):
    """Average of the global models, for evaluation and export; clients start from the newest model."""

    decay: Finite | None = Field(None, ge=0, lt=1, description="Weight of the previous average.")
    last: int | None = Field(None, ge=1, description="Average this many last models instead (in memory).")
    with_start: Finite | None = Field(
        None, gt=0, lt=1, description="Weight of the start model in the mean with the newest instead."
    )

    def _check_options(self) -> None:
        if [self.decay, self.last, self.with_start].count(None) != 2:
            raise ValueError("set one of decay (such as 0.9), last (a number of models) and with_start")

    def share(self, models: int) -> float:
        """Return the weight of the newest model in the average of this many, given the decay."""
        decay = self.decay or 0.0
        return float((1 - decay) / (1 - decay**models))


# A bound of what is summed under secure aggregation.
Bound = Annotated[Finite, Field(ge=1e-6)]


class SecureAggregation(Options):
    """The server sees only sums over a round's clients, in fixed point; on Flower they are masked."""

    threshold: int | Finite = Field(
        0.66, description="Clients that must complete a round: a share (float) or number, more than half."
    )
    bound: Bound = Field(1e4, description="Maximum absolute value; clients above it are dropped.")
    bounds: dict[str, Bound] = Field({}, description="Other bounds, by name of what is summed.")
    max_samples: int | None = Field(
        None, ge=1, description="Maximum samples of a client; default: the largest client's."
    )
    max_cohort_rounds: int | None = Field(
        None, ge=1, description="Maximum rounds of a Flower run that sum the same clients; none by default."
    )

    def least(self, participants: int) -> int:
        """Return how many of a round's participants must complete it."""
        if participants < 3:
            raise InputError(
                f"secure_aggregation needs 3 or more clients a round, not {participants}: raise participation"
            )
        threshold = self.threshold
        # Rounded first, since 0.7 * 10 may be slightly above 7.
        count = threshold if isinstance(threshold, int) else math.ceil(round(threshold * participants, 9))
        if not participants < 2 * count <= 2 * participants:
            raise InputError(
                f"secure_aggregation.threshold={threshold:g} means {count} of {participants} clients: it "
                f"must be more than half of them, {participants // 2 + 1} to {participants}"
            )
        return count


class Privacy(Options):
    """Differential privacy of clients: clip each update and add Gaussian noise to the sum."""

    clip: float = Field(gt=0, description="Maximum norm of all that a client sends; inf: no clipping.")
    noise: Finite = Field(ge=0, description="Standard deviation of the noise in the sum, relative to clip.")
    delta: Finite = Field(gt=0, lt=1, description="Delta of the guarantee, below 1 / clients.")
    epsilon: Finite | None = Field(None, gt=0, description="Budget: the run ends before it is exceeded.")

    def _check_options(self) -> None:
        if self.noise and math.isinf(self.clip):
            raise ValueError("clip=inf needs noise=0, since noise is relative to clip")
        if not self.noise and self.epsilon is not None:
            raise ValueError("noise=0 guarantees nothing: leave epsilon out, or raise noise")


class Compression(Options):
    """Compression of the clients' updates."""

    name: Literal["topk", "quantize"] = Field(
        description="Send the largest changes (topk), or all in few bits (quantize)."
    )
    share: Finite | None = Field(None, gt=0, le=1, description="Share of the entries that topk sends.")
    bits: Literal[2, 4, 8] | None = Field(None, description="Bits per entry of quantize.")
    feedback: bool = Field(True, description="Error feedback: add what was not sent to the next update.")

    def _check_options(self) -> None:
        if self.name == "topk" and (self.share is None or self.bits is not None):
            raise ValueError("topk needs share (such as 0.1) and no bits")
        if self.name == "quantize" and (self.bits is None or self.share is not None):
            raise ValueError("quantize needs bits (2, 4 or 8) and no share")

    @property
    def sends_all(self) -> bool:
        """Whether topk sends all entries."""
        return self.share == 1


def count_participants(participation: int | float, clients: int) -> int:
    """Return how many clients a number or share of them is."""
    if isinstance(participation, int):
        if participation > clients:
            raise InputError(f"participation={participation} is more than the {clients} clients")
        return participation
    return max(1, round(participation * clients))


def check_participation(value: int | float) -> int | float:
    if not (value >= 1 if isinstance(value, int) else 0 < value <= 1):
        raise ValueError(f"must be a share above 0.0 up to 1.0, or a number of clients, not {value}")
    return value


Participants = Annotated[int | Finite, AfterValidator(check_participation)]


class Participation(Options):
    """Clients per round as a schedule: in equal steps from the first round to round `over`, then constant."""

    start: Participants = Field(description="Clients of round 1: a share or a number.")
    end: Participants = Field(description="Clients from round `over` on.")
    over: int = Field(ge=1, description="The round in which `end` is reached; default: the last one.")

    def participants(self, round: int, clients: int) -> int:
        """Return how many clients take part in a round."""
        first, last = (count_participants(each, clients) for each in (self.start, self.end))
        done = 1.0 if round >= self.over else (round - 1) / (self.over - 1)
        # Halves are rounded up.
        return math.floor(first + done * (last - first) + 0.5)


class Private(Options):
    """Parameters that stay with each client; a list of names stands for them alone."""

    names: tuple[str, ...] = Field(
        min_length=1,
        description="Names or patterns of parameters or layers, such as classifier; norm: all normalization.",
    )
    start: Literal["initial", "mean"] = Field(
        "initial", description="What new clients start from: the initial part, or the mean of the others."
    )

    @model_validator(mode="before")
    @classmethod
    def _expand_names(cls, value: Any) -> Any:
        names = [value] if isinstance(value, str) else value
        return {"names": names} if isinstance(names, list | tuple) else value


class Staleness(Options):
    """Clients that train from the model of an earlier round, with delays drawn by round and client."""

    max: int = Field(ge=0, le=1000, description="Largest delay in rounds; as many models are kept.")
    distribution: Literal["uniform", "geometric"] = Field(
        "uniform", description="Uniform from 0 to max, or geometric: d with probability 1 / 2^(d + 1)."
    )
    weighting: Literal["none", "polynomial"] = Field(
        "none", description="Weight of a change with delay d: 1, or 1 / sqrt(1 + d)."
    )


class Attack(Options):
    """Malicious clients in a simulation."""

    name: Literal["label_flip", "sign_flip", "scaled", "noise", "size_lie", "nan", "upload_lie"] = Field(
        description="What malicious clients do: train on reversed labels (label_flip); send their update "
        "times -`scale` (sign_flip) or `scale` (scaled), or noise of `scale` times its norm (noise); claim "
        "`scale` times their samples (size_lie); send NaN (nan); scale everything but weights (upload_lie)."
    )
    share: Finite = Field(0.1, gt=0, lt=1, description="Share of malicious clients.")
    scale: Finite | None = Field(None, description="Strength, 10 by default; not for label_flip and nan.")

    def _check_options(self) -> None:
        if self.scale is not None and self.name in ("label_flip", "nan"):
            raise ValueError(f"{self.name} has no option scale")
        if self.name == "size_lie" and self.strength < 1:
            raise ValueError("scale of size_lie must be at least 1")

    @property
    def strength(self) -> float:
        """The scale or its default."""
        return 10.0 if self.scale is None else self.scale


class Probe(Options):
    """A metric of clients' models, with its rounds and data."""

    metric: str = Field(
        description="The metric: every local model on every client's data (client_matrix), per-class "
        "accuracy and loss before and after local training and aggregation (local_per_class), distances "
        "(drift), mean output probabilities (probability), or package.module:Name."
    )
    rounds: tuple[int, ...] = Field((), description="Measure in these rounds.")
    every: Whole = Field(0, ge=0, description="Measure every n-th round; 0: never.")
    at: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (), description="Measure at these fractions of the run."
    )
    data: Literal["auto", "participants", "clients", "test"] = Field(
        "auto",
        description="Data of the client matrix: the validation parts of the participants or of all clients, "
        "or the test set re-weighted to each participant's class mix; auto takes the test set if a "
        "validation part has fewer than 30 samples.",
    )
    samples: Whole = Field(1000, ge=1, description="Size of the class-balanced test subset that is used.")
    models: Whole = Field(10, ge=1, description="Maximum number of local models measured in a round.")

    def _check_options(self) -> None:
        if not (self.rounds or self.every or self.at):
            raise ValueError(f"probe {self.metric!r} is never measured: set rounds, every or at")

    def due(self, round: int, rounds: int) -> bool:
        """Whether the probe is due in this round of a run with `rounds` rounds."""
        fractions = {max(1, int(fraction * rounds + 0.5)) for fraction in self.at}
        return round in self.rounds or round in fractions or bool(self.every and round % self.every == 0)


_TENTHS = tuple(step / 10 for step in range(1, 11))
STANDARD_PROBES = (
    Probe(metric="client_matrix", at=_TENTHS),
    Probe(metric="local_per_class", at=tuple(step / 20 for step in range(1, 21))),
    Probe(metric="drift", at=_TENTHS),
)

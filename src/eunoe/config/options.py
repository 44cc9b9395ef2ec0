"""The sections of a config as groups of options: frozen, validated, unknown keys refused.

`schema.Config` is made of these; components with options of their own derive from `Options` too.
"""

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

from eunoe.config.messages import explain
from eunoe.errors import InputError


def _of_float32(number: float) -> float:
    if abs(number) > 1e38:
        raise ValueError("it must be between -1e38 and 1e38")
    return number


def _countable(number: int) -> int:
    if number > 1 << 40:
        raise ValueError(f"it must be at most {1 << 40}")
    return number


# These limits are functions because a limit of the type would take the place of a field's own `ge` or `le`.
# A real number that float32 holds too.
Finite = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_of_float32)]
# A number of things; more than a machine could hold is a mistake, and beyond 64 bits nothing can count.
Whole = Annotated[int, AfterValidator(_countable)]


class Options(BaseModel):
    """A frozen group of options in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse booleans, which pydantic would accept as 0 or 1."""
        if isinstance(value, bool) and info.field_name:
            annotation = cls.model_fields[info.field_name].annotation
            if not _mentions(annotation, bool) and _mentions(annotation, int, float):
                raise ValueError(f"it must be a number, not {str(value).lower()}")
        return value

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate values from outside a config; an error starts with where they come from."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise InputError(f"{where}: {explain(error)}") from None


def _mentions(annotation: Any, *kinds: type) -> bool:
    """Whether one of these types is the annotation or is in it."""
    return annotation in kinds or any(_mentions(inner, *kinds) for inner in get_args(annotation))


class Split(Options):
    """The parts of a client's samples; the rest is for training."""

    validation: Finite = Field(0.1, description="Share of a client's samples that it validates on.")
    test: Finite = Field(
        0.0, description="Share of a client's samples that it tests on, besides the test set."
    )

    @model_validator(mode="after")
    def _leave_some(self) -> "Split":
        if not (self.validation >= 0 and self.test >= 0 and self.validation + self.test < 1):
            raise ValueError("validation and test must be shares from 0, together below 1")
        return self


class Public(Options):
    """How many samples are public and how they are chosen; set one of share, count and groups."""

    share: float = Field(0.0, ge=0, lt=1, description="Share of the training samples that is public.")
    count: Whole | None = Field(None, ge=1, description="Number of public samples, in place of a share.")
    groups: Whole | None = Field(None, ge=1, description="Number of whole groups (writers) that are public.")
    min_size: Whole = Field(1, ge=1, description="Groups with fewer samples are never public.")
    balanced: bool = Field(False, description="The same number of samples of each class, not as drawn.")
    alpha: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Class shares drawn from Dirichlet(alpha), unequal where it is small.",
    )
    validation: float = Field(0.1, ge=0, lt=1, description="Share of the public samples used to validate.")

    @model_validator(mode="after")
    def _one_way(self) -> "Public":
        if (self.share > 0) + (self.count is not None) + (self.groups is not None) > 1:
            raise ValueError("set only one of share, count and groups")
        if self.groups is not None and (self.balanced or self.alpha is not None):
            raise ValueError("balanced and alpha do not apply to whole groups; set a share or a count")
        if self.balanced and self.alpha is not None:
            raise ValueError("set only one of balanced and alpha")
        if (self.balanced or self.alpha is not None) and not self.sized:
            raise ValueError("balanced and alpha choose among samples; set a share or a count too")
        if self.min_size > 1 and self.groups is None:
            raise ValueError("min_size is the least size of a public group; set groups too")
        return self

    @property
    def sized(self) -> bool:
        """Whether the number of public samples is set."""
        return self.share > 0 or self.count is not None or self.groups is not None


class Preprocessing(Options):
    """What inputs are normalized by: (x - mean) / std, of bytes after they are divided by 255."""

    mean: tuple[Finite, ...] = Field(
        min_length=1, description="One number, or one for each channel or feature."
    )
    std: tuple[Finite, ...] = Field(min_length=1, description="As many numbers, all above 0.")

    @model_validator(mode="after")
    def _positive(self) -> "Preprocessing":
        if min(self.std) <= 0:
            raise ValueError("every std must be above 0")
        return self


class FeatureShift(Options):
    """A change of inputs, drawn for each client.

    - noise: a fixed pattern of Gaussian noise, as of one camera's sensor, is added to each input; its
      standard deviation is uniform from 0 to strength.
    - rotation: images turn by an angle uniform from -strength to strength, in degrees; corners that come
      from outside are zero.
    - contrast: each input moves away from its own mean, or toward it, by a factor e^u with u uniform
      from -strength to strength.
    """

    kind: Literal["noise", "rotation", "contrast"] = Field(description="What differs between clients.")
    strength: float = Field(gt=0, le=180, description="How much, in the unit of the kind.")

    @model_validator(mode="after")
    def _finite(self) -> "FeatureShift":
        if self.kind == "contrast" and self.strength > 10:
            raise ValueError("contrast changes by a factor e^strength; a strength of at most 10 makes sense")
        return self


class Augment(Options):
    """Random changes to training images; all are off by default."""

    crop_padding: int = Field(
        0, ge=0, le=1024, description="Crop to the same size after padding this many pixels all round."
    )
    flip: bool = Field(False, description="Mirror half of the images left to right.")
    cutout: int = Field(
        0, ge=0, le=4096, description="Blank a square of this side at a random place, clipped at the border."
    )

    @property
    def active(self) -> bool:
        """Whether any augmentation is on."""
        return bool(self.crop_padding or self.flip or self.cutout)


# More steps than a client of a federation will ever take in a round.
MOST_STEPS = 1_000_000_000
Steps = Annotated[int, Field(le=MOST_STEPS)]


class Training(Options):
    """How a client trains."""

    epochs: int | tuple[int, int] = Field(
        3,
        description="Passes over a client's data; a pair [least, most] draws it per client and round.",
    )
    steps: Steps | None = Field(None, ge=1, description="Number of steps instead of epochs.")
    batch_size: Whole = Field(64, ge=0, description="Samples per step; 0 takes all of a client's samples.")
    lr: Finite = Field(0.05, gt=0, description="Learning rate in round 1.")
    lr_decay: Finite = Field(1.0, gt=0, le=1, description="Factor on the learning rate after every round.")
    optimizer: Literal["sgd", "adam", "adamw"] = Field(
        "sgd", description="The local optimizer; its state is reset at each participation."
    )
    momentum: Finite = Field(0.0, ge=0, lt=1, description="Momentum of sgd.")
    weight_decay: Finite = Field(0.0, ge=0, description="Added to the gradient (decoupled for adamw).")
    precision: Literal["float32", "bf16", "fp16"] = Field(
        "float32",
        description="What local training computes in where torch's autocast does; weights stay in float32.",
    )
    clip: Finite | None = Field(None, gt=0, description="Largest norm of the gradient.")
    last_batch: Literal["keep", "drop"] = Field(
        "keep",
        description="What happens to a batch that is not full; with batch normalization "
        "a kept batch of one sample joins the one before.",
    )
    label_counts: Literal["train", "train_and_validation", "seen"] = Field(
        "train",
        description="Labels that a loss counts classes on: those a client trains on, those it validates on "
        "too, as the code released with WSM does, or under a stream the most of each class that it ever "
        "had.",
    )
    single_class: Literal["train", "no_decay", "skip"] = Field(
        "train",
        description="Clients from which the loss learns nothing (one class only, under tce or wsm): "
        "train like any other, train without weight decay, or are skipped.",
    )

    @model_validator(mode="after")
    def _epochs_make_sense(self) -> "Training":
        least, most = self.epoch_range
        if not 1 <= least <= most <= MOST_STEPS:
            raise ValueError(
                f"epochs must be from 1 to {MOST_STEPS}, or a pair [least, most], not {self.epochs}"
            )
        if self.momentum and self.optimizer != "sgd":
            raise ValueError("momentum belongs to sgd; adam has its own")
        return self

    @property
    def epoch_range(self) -> tuple[int, int]:
        return self.epochs if isinstance(self.epochs, tuple) else (self.epochs, self.epochs)

    def lr_in(self, round: int) -> float:
        """The learning rate of a round (the first is 1)."""
        return self.lr * self.lr_decay ** (round - 1)


class Replay(Options):
    """Samples of earlier rounds that a client keeps and trains on beside those it has now."""

    memory: PositiveInt = Field(200, le=10_000_000, description="How many samples a client keeps at most.")


class Averaging(Options):
    """The mean of the global models is evaluated and exported; clients start from the newest one."""

    decay: Finite | None = Field(
        None, ge=0, lt=1, description="How much of the mean a round keeps; 0 is the newest model alone."
    )
    last: int | None = Field(
        None, ge=1, description="Average this many last models instead, all of which are kept in memory."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> "Averaging":
        if (self.decay is None) == (self.last is None):
            raise ValueError("averaging takes one of decay (0.9, say) and last (a number of models)")
        return self

    def share(self, models: int) -> float:
        """The weight of the newest model in the mean of this many, by the decay."""
        decay = self.decay or 0.0
        return float((1 - decay) / (1 - decay**models))


class SecureAggregation(Options):
    """The server sees only sums over a round's clients, in fixed point; in a federation they are masked."""

    threshold: int | Finite = Field(
        0.6,
        description="Clients that must stay to the end of a round: a share of its clients (a float up to "
        "1.0) or a number (an integer), more than half.",
    )
    bound: Finite = Field(
        1e4, gt=0, description="Largest absolute value of anything that is summed; beyond it a client leaves."
    )
    bounds: dict[str, Finite] = Field({}, description="Other bounds, by what is summed.")
    max_samples: int | None = Field(
        None, ge=1, description="Most samples of any client; by default those of the partition's largest."
    )

    @field_validator("bounds")
    @classmethod
    def _positive(cls, value: dict[str, float]) -> dict[str, float]:
        for name, bound in value.items():
            if bound <= 0:
                raise ValueError(f"{name} = {bound:g} must be above 0")
        return value

    def least(self, participants: int) -> int:
        """The clients that must stay to the end of a round of so many."""
        if participants < 3:
            raise InputError(
                f"secure_aggregation hides a client among others, and {participants} take part in a round: "
                "raise participation to 3 or more clients"
            )
        given = self.threshold
        # Rounded first, since 0.7 * 10 may be a little above 7.
        count = given if isinstance(given, int) else math.ceil(round(given * participants, 9))
        if not participants < 2 * count <= 2 * participants:
            raise InputError(
                f"secure_aggregation.threshold = {given:g} is {count} of {participants} clients: it must be "
                f"more than half of them, {participants // 2 + 1} to {participants}"
            )
        return count


class Privacy(Options):
    """Clip what each client sends and add Gaussian noise to the sum."""

    clip: float = Field(gt=0, description="Largest norm of all that a client sends; inf clips nothing.")
    noise: Finite = Field(
        ge=0, description="Standard deviation of the noise in the sum, as a multiple of clip."
    )
    delta: Finite = Field(gt=0, lt=1, description="The delta of the guarantee, below 1 / clients.")
    epsilon: Finite | None = Field(
        None, gt=0, description="Budget: the run ends before a round that would exceed it; by default none."
    )

    @model_validator(mode="after")
    def _bounded(self) -> "Privacy":
        if self.noise and math.isinf(self.clip):
            raise ValueError("noise is a multiple of clip: with clip = inf set noise = 0, or lower clip")
        if not self.noise and self.epsilon is not None:
            raise ValueError("noise = 0 guarantees nothing: leave epsilon out, or raise noise")
        return self


class Compression(Options):
    """Send less of each change than all of it."""

    name: Literal["topk", "quantize"] = Field(
        description="What is sent: the entries that change most (topk), or all in few bits (quantize)."
    )
    share: Finite | None = Field(None, gt=0, le=1, description="Share of the entries that topk sends.")
    bits: Literal[2, 4, 8] | None = Field(None, description="Bits in which quantize sends an entry.")
    feedback: bool = Field(
        True, description="Whether a client adds what it did not send to its next change (error feedback)."
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> "Compression":
        wanted, other = ("share", "bits") if self.name == "topk" else ("bits", "share")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            example = "share (0.1, say)" if self.name == "topk" else "bits (2, 4 or 8)"
            raise ValueError(f"{self.name} takes {example} and not {other}")
        return self

    @property
    def sends_all(self) -> bool:
        """Whether nothing is left out."""
        return self.share == 1


# Attacks that `scale` makes stronger.
SCALED = ("sign_flip", "scaled", "noise", "size_lie", "upload_lie")


class Attack(Options):
    """Clients of a simulation that send something else than what they should."""

    name: Literal["label_flip", "sign_flip", "scaled", "noise", "size_lie", "nan", "upload_lie"] = Field(
        description="What bad clients do: train on labels counted from the end (label_flip); send minus "
        "`scale` times their change (sign_flip), `scale` times (scaled), or noise of `scale` times its norm "
        "(noise); claim `scale` times their samples (size_lie); send NaN (nan); multiply what they send "
        "besides weights by `scale` (upload_lie)."
    )
    share: Finite = Field(0.1, gt=0, lt=1, description="Share of all clients that are bad.")
    scale: Finite | None = Field(
        None, description="How strong it is, 10 by default; not for label_flip and nan."
    )

    @model_validator(mode="after")
    def _scale_does_something(self) -> "Attack":
        if self.scale is not None and self.name not in SCALED:
            raise ValueError(f"{self.name} has no scale: leave it out")
        if self.name == "size_lie" and self.scale is not None and self.scale < 1:
            raise ValueError("size_lie claims more samples: scale must be 1 or more")
        return self

    @property
    def strength(self) -> float:
        """The scale, or its default."""
        return 10.0 if self.scale is None else self.scale


class Probe(Options):
    """A metric, the rounds at which it is measured, and the data."""

    metric: str = Field(
        description="What is measured: every local model on every client's data (client_matrix), per-class "
        "accuracy and loss before and after local training and merge (local_per_class), distances (drift), "
        "mean output probabilities (probability), or package.module:Name."
    )
    rounds: tuple[int, ...] = Field((), description="Rounds at which it is measured.")
    every: Whole = Field(0, ge=0, description="Measured every so many rounds; 0: not by this rule.")
    at: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (), description="Measured at these fractions of the run."
    )
    data: Literal["auto", "participants", "clients", "test"] = Field(
        "auto",
        description="Whose data the client matrix is on: the participants' validation parts, those of all "
        "clients, or the test set re-weighted to each participant's class mix; auto takes the last "
        "where a validation part has under 30 samples.",
    )
    samples: Whole = Field(1000, ge=1, description="Size of the class-balanced part of the test set it uses.")
    models: Whole = Field(10, ge=1, description="Maximum number of local models measured in a round.")

    @model_validator(mode="after")
    def _is_due_sometime(self) -> "Probe":
        if not (self.rounds or self.every or self.at):
            raise ValueError(f"the probe {self.metric!r} is never measured: set rounds, every or at")
        return self

    def due(self, round: int, rounds: int) -> bool:
        """Whether the probe is due in a round of a run with this many rounds."""
        fractions = {max(1, int(fraction * rounds + 0.5)) for fraction in self.at}
        return round in self.rounds or round in fractions or bool(self.every and round % self.every == 0)


_TENTHS = tuple(step / 10 for step in range(1, 11))
STANDARD_PROBES = (
    Probe(metric="client_matrix", at=_TENTHS),
    Probe(metric="local_per_class", at=tuple(step / 20 for step in range(1, 21))),
    Probe(metric="drift", at=_TENTHS),
)

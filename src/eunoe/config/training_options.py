"""The options of local training."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options, Whole

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

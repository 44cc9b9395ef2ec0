"""What all groups of options have in common, and the options of the parts of a run that have no names."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Options(BaseModel):
    """A frozen group of options in which an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """To pydantic true is 1, which is hardly what was meant."""
        if isinstance(value, bool) and info.field_name:
            annotation = cls.model_fields[info.field_name].annotation
            if not _mentions(annotation, bool) and _mentions(annotation, int, float):
                raise ValueError(f"it must be a number, not {str(value).lower()}")
        return value


def _mentions(annotation: Any, *kinds: type) -> bool:
    """Whether one of these types is the annotation or is in it."""
    return annotation in kinds or any(_mentions(inner, *kinds) for inner in get_args(annotation))


class Training(Options):
    """How a client trains."""

    epochs: int | tuple[int, int] = Field(
        3,
        description="Passes over a client's data; a pair [least, most] draws it per client and round.",
    )
    steps: int | None = Field(None, ge=1, description="Number of steps instead of epochs.")
    batch_size: int = Field(64, ge=0, description="Samples per step; 0 takes all of a client's samples.")
    lr: Finite = Field(0.05, gt=0, description="Learning rate in round 1.")
    lr_decay: Finite = Field(1.0, gt=0, le=1, description="Factor on the learning rate after every round.")
    optimizer: Literal["sgd", "adam", "adamw"] = Field("sgd", description="Made anew at each participation.")
    momentum: Finite = Field(0.0, ge=0, lt=1, description="Momentum of sgd.")
    weight_decay: Finite = Field(0.0, ge=0, description="Added to the gradient (decoupled for adamw).")
    clip: Finite | None = Field(None, gt=0, description="Largest norm of the gradient.")
    last_batch: Literal["keep", "drop"] = Field(
        "keep",
        description="What happens to a batch that is not full; with batch normalization "
        "a kept batch of one sample joins the one before.",
    )
    label_counts: Literal["train", "train_and_validation"] = Field(
        "train",
        description="Whose labels a loss takes a client's class counts from: those it trains on, or those "
        "it validates on too, as the code released with WSM does.",
    )
    single_class: Literal["train", "no_decay", "skip"] = Field(
        "train",
        description="Clients from whom the loss learns nothing (one class only, under tce or wsm): "
        "train as any other, train without weight decay, or leave them out of the round.",
    )

    @model_validator(mode="after")
    def _epochs_make_sense(self) -> "Training":
        least, most = self.epoch_range
        if not 1 <= least <= most:
            raise ValueError(f"epochs must be at least 1, or a pair [least, most], not {self.epochs}")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError("momentum belongs to sgd; adam has its own")
        return self

    @property
    def epoch_range(self) -> tuple[int, int]:
        return self.epochs if isinstance(self.epochs, tuple) else (self.epochs, self.epochs)

    def lr_in(self, round: int) -> float:
        """The learning rate of a round (the first is 1)."""
        return self.lr * self.lr_decay ** (round - 1)


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

"""The options of the data: each client's split, the public set, feature shift and augmentation."""

from typing import Literal

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options, Whole


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

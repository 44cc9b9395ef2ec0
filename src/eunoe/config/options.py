"""The base of every group of options: frozen, validated, unknown keys refused."""

from collections.abc import Mapping
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
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

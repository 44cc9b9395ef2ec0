"""The base of every group of options: frozen, validated, unknown keys refused."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

Finite = Annotated[float, Field(allow_inf_nan=False)]


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


def _mentions(annotation: Any, *kinds: type) -> bool:
    """Whether one of these types is the annotation or is in it."""
    return annotation in kinds or any(_mentions(inner, *kinds) for inner in get_args(annotation))

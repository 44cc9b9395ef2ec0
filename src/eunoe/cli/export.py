"""`eunoe export`: a run's model as a file."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    best: Annotated[bool, typer.Option("--best/--last", help="Best on validation, or the last.")] = False,
    to: Annotated[Path | None, typer.Option(help="The file to write; by default in the run folder.")] = None,
) -> None:
    """Write a run's model as a state_dict in safetensors."""
    from safetensors import SafetensorError

    from eunoe.core.flat_model import save_state
    from eunoe.errors import InputError, first_line
    from eunoe.runs.run import Run

    which = "best" if best else "last"
    opened = Run(run)
    target = to or run / f"{which}.safetensors"
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write the model to")
    state = opened.model(which).state_dict()
    try:
        if target.is_dir():
            raise InputError(f"{target} is a folder; name the file to write the model to")
        save_state(state, target)
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot write the model to {target}: {first_line(error)}") from None
    print(f"wrote the {which} model to {target}")

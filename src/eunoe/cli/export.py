"""`eunoe export`: a run's model as a file."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    best: Annotated[bool, typer.Option("--best/--last", help="Best on validation, or the last.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Write a program (.pt2) for raw inputs.")] = False,
    merged: Annotated[
        bool, typer.Option("--merged", help="Merge the adapters of a model 'hf' into its weights.")
    ] = False,
    client: Annotated[int | None, typer.Option(help="The client, for method local or private parts.")] = None,
    to: Annotated[Path | None, typer.Option(help="The file to write; by default in the run folder.")] = None,
) -> None:
    """Write a run's model for plain PyTorch, and a JSON file that describes its inputs.

    The model is a state_dict in safetensors or, with --raw, a program for torch.export.load. A model 'hf' is
    written as a folder for the transformers library.
    """
    from eunoe.simulation.export import export_model
    from eunoe.simulation.run import Run, Which

    which: Which = "best" if best else "last"
    whose = "" if client is None else f" of client {client}"
    done = Run(run)
    suffix = ".pt2" if raw else "" if done.config.model.name == "hf" else ".safetensors"
    target = to or done.folder / f"{which}{whose.replace(' ', '-')}{suffix}"
    model, description = export_model(done, target, which, raw, client, merged)
    print(f"wrote the {which} model{whose} to {model} and a description of its inputs to {description.name}")

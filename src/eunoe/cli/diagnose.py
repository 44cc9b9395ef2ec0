"""`eunoe diagnose`: explain what a run forgot and propose remedies."""

from pathlib import Path
from typing import Annotated

import typer


def diagnose(run: Annotated[Path, typer.Argument(help="The run folder.")]) -> None:
    """Explain what a run forgot and in which step, and propose remedies as ready-to-run commands."""
    from eunoe import views
    from eunoe.store.reader import find_run, read_run

    run = find_run(run)
    records = read_run(run)
    diagnosis = views.diagnose(records)
    print("\n".join(diagnosis.sentences))
    if diagnosis.remedies:
        again = ", then start the federation again with another `folder` in its pyproject.toml"
        print(f"\nTo try, in this order{again if records.flower else ''}:")
    for remedy in diagnosis.remedies:
        command = remedy.command(str(run / "config.toml"), records.config.get("name", ""))
        command = remedy.config_change() if records.flower else remedy.code if records.observed else command
        print(f"  {command}\n      {remedy.reason}")

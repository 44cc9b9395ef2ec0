"""`eunoe predict`: predictions of a run's model for raw rows, sentences or images."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder.")],
    file: Annotated[Path, typer.Argument(help="A CSV or Parquet file, an image or folder of them, or .npy.")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; by default it is printed.")] = None,
    best: Annotated[bool, typer.Option("--best/--last", help="Best on validation, or the last.")] = False,
    client: Annotated[int | None, typer.Option(help="The client, for method local or private parts.")] = None,
) -> None:
    """Predict the rows of a file with a run's model, as CSV.

    Classes come with the probability P(class) of each. Rows are encoded as in training; columns that are no
    features are ignored. The images of a folder are sorted by name.
    """
    from eunoe.simulation.run import Run, Which
    from eunoe.system.files import write_text

    which: Which = "best" if best else "last"
    done = Run(run)
    data = done.simulation.federation.data
    names = data.class_names or tuple(str(number) for number in range(data.classes))
    predicted = done.predict(file, client=client, which=which)
    header = ["prediction"] if predicted.ndim == 1 else list(names)
    columns = [predicted.reshape(len(predicted), -1)]
    if data.task.name != "regression":
        header += [f"P({name})" for name in names]
        shares = done.predict(file, client=client, probabilities=True, which=which)
        columns.append(shares.astype(float).round(6))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell for part in row for cell in part.tolist()] for row in zip(*columns, strict=True))
    if out is None:
        print(text.getvalue(), end="")
        return
    write_text(out, text.getvalue())
    print(f"wrote {len(predicted):,} predictions to {out}")

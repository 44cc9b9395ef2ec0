"""Tables: CSV files, Parquet files and DataFrames with a label and features in each row."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from eunoe.core.tasks import TaskName
from eunoe.data.arrays import from_arrays
from eunoe.data.samples import DataSet
from eunoe.data.sources.columns import TableEncoder, Unknown
from eunoe.data.sources.frames import as_frame, column_of, labeled, read_frame
from eunoe.errors import InputError

Percent = Annotated[int, Field(ge=1, lt=100)]


def table(
    path: Path,
    *,
    label: str | tuple[str, ...],
    task: TaskName | None = None,
    client: str | None = None,
    categorical: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    part: str | None = None,
    held_out: Percent | None = None,
    unknown: Unknown = "column",
) -> DataSet:
    """A CSV or Parquet file with a row for each sample; text and the columns of `categorical` are categories.

    `client` names the column of client ids; `part` one that says train or test, without which `held_out` per
    cent (20) of each client's rows are tested on. What a column's numbers are scaled by, what fills its gaps
    and which categories there are comes from the training part; any other category counts as unknown, or
    is an error.

    A `label` column of real numbers is for regression, several columns of 0 and 1 are labels that a row may
    have at once; `task` states what is meant otherwise.
    """
    return from_table(
        read_frame(path),
        label=label,
        task=task,
        client=client,
        categorical=categorical,
        drop=drop,
        part=part,
        held_out=held_out,
        unknown=unknown,
        name=str(path),
    )


def from_table(
    frame: Any,
    *,
    label: str | tuple[str, ...],
    task: TaskName | None = None,
    client: str | None = None,
    categorical: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    part: str | None = None,
    held_out: int | None = None,
    unknown: Unknown = "column",
    name: str = "table",
) -> DataSet:
    """A data set of a DataFrame, an Arrow table or a mapping of columns; options as of `table`."""
    frame = as_frame(frame, name)
    for column in (*categorical, *drop):
        column_of(frame, column, name)
    labels = (label,) if isinstance(label, str) else label
    others = {*labels, client, part, *drop}
    if twice := sorted(others & set(categorical) - {None}, key=str):
        raise InputError(f"{name}: the column {twice[0]!r} is no feature: leave it out of categorical")
    rows = labeled(frame, name, labels, client, part, held_out, task)
    features = [column for column in frame.column_names if column not in others]
    if not features:
        raise InputError(f"{name}: no column is left to predict {', '.join(map(repr, labels))} from")
    train, test = rows.frame.filter(~rows.test), rows.frame.filter(rows.test)
    encoder = TableEncoder.fit(train, features, categorical, name)
    mean, std = encoder.moments
    data = from_arrays(
        encoder.encode(train, name, unknown),
        rows.y[~rows.test],
        encoder.encode(test, name, unknown),
        rows.y[rows.test],
        writer_train=None if rows.clients is None else rows.clients[~rows.test],
        writer_test=None if rows.clients is None else rows.clients[rows.test],
        name=name,
        task="regression" if task is None and len(labels) == 1 and rows.y.ndim > 1 else task,
        classes=len(rows.class_names),
        class_names=rows.class_names,
        mean=mean,
        std=std,
    )
    encoding = {**encoder.to_dict(), "label": label if isinstance(label, str) else list(label)}
    return replace(data, encoding=encoding, writer_names=rows.client_names)

"""Tables: CSV files, Parquet files and DataFrames with a label and features in each row."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from eunoe.core.tasks import TaskName
from eunoe.data.arrays import from_rows
from eunoe.data.samples import DataSet
from eunoe.data.sources.columns import TableEncoder, Unknown
from eunoe.data.sources.frames import Percent, as_frame, get_column, label_rows, read_frame
from eunoe.errors import InputError


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

    `client` is the column of client ids; `part` is a column that says train or test, without which `held_out`
    percent (20) of each client's rows are the test part. Scaling, filled gaps and categories come from the
    training part; another category counts as unknown, or is an error.

    A `label` column of real numbers is regression, several columns of 0 and 1 are multilabel; set `task`
    otherwise.
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
    """Build a data set from a DataFrame, an Arrow table or a mapping of columns; options as of `table`."""
    frame = as_frame(frame, name)
    for column in (*categorical, *drop):
        get_column(frame, column, name)
    labels = (label,) if isinstance(label, str) else label
    others = {*labels, client, part, *drop}
    if twice := sorted(others & set(categorical) - {None}, key=str):
        raise InputError(f"{name}: the column {twice[0]!r} is not a feature: remove it from categorical")
    rows = label_rows(frame, name, labels, client, part, held_out, task)
    features = [column for column in frame.column_names if column not in others]
    if not features:
        raise InputError(f"{name}: no feature columns are left to predict {', '.join(map(repr, labels))}")
    encoder = TableEncoder.fit(rows.frame.filter(~rows.test), features, categorical, name)
    mean, std = encoder.moments
    data = from_rows(
        encoder.encode(rows.frame, name, unknown),
        rows.y,
        rows.test,
        rows.clients,
        name=name,
        task="regression" if task is None and len(labels) == 1 and rows.y.ndim > 1 else task,
        classes=len(rows.class_names),
        class_names=rows.class_names,
        mean=mean,
        std=std,
    )
    encoding = {**encoder.to_dict(), "label": label if isinstance(label, str) else list(label)}
    return replace(data, encoding=encoding, writer_names=rows.client_names)

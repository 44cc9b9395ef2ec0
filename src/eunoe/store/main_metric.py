"""Which task a record is of, and the number of it that models are chosen by."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eunoe.core.tasks import TASKS, Classification, Task


def task_of(measured: Mapping[str, Any]) -> type[Task] | None:
    """The task whose main metric is among the numbers of a place; None if none is."""
    return next((task for task in TASKS if task.metric in measured), None)


def task_of_run(metrics: Iterable[Mapping[str, Any]], config: Mapping[str, Any]) -> type[Task]:
    """The task of a run, by what was measured or else by its loss."""
    for record in metrics:
        for place in filter(None, map(record.get, ("validation", "test", "client_test"))):
            if (task := task_of(place)) is not None:
                return task
    loss = config.get("loss", {}).get("name")
    return next((task for task in TASKS if loss == task.loss), Classification)


def main_value(measured: Mapping[str, Any]) -> float:
    """The main metric among the numbers of a place; NaN if it is not there."""
    value = measured.get((task_of(measured) or Classification).metric)
    return float("nan") if value is None else float(value)


def main_number(measured: Mapping[str, Any]) -> str:
    """The same with its name."""
    return f"{(task_of(measured) or Classification).title} {main_value(measured):.3f}"


def common_task(tasks: Sequence[type[Task]]) -> type[Task]:
    """The task of several runs, whose words their tables and figures have; classification if they differ."""
    return tasks[0] if len(set(tasks)) == 1 else Classification

"""The summary on top of the report: one sentence with its uncertainty, one table, and clients' numbers."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from eunoe.analysis.by_client import ByClient, recorded_metrics
from eunoe.analysis.comparison import COLUMNS, Arm, Column, make_arm
from eunoe.analysis.divergence import divergence, over_seeds, usefulness
from eunoe.analysis.statistics import LEVEL, UNKNOWN, Interval, as_points, mean_std, paired_interval
from eunoe.core.tasks import Task
from eunoe.errors import InputError, join_names
from eunoe.report import theme
from eunoe.report.figures.curves import main_metric
from eunoe.report.figures.series import mean_curve
from eunoe.store.run_records import RunRecords

Groups = Mapping[str, Sequence[RunRecords]]
LOST = ("forgetting", "sent_forgetting")


def summary_html(groups: Groups) -> str:
    """Return the sentence and the table of the summary."""
    arms, task = arms_of(groups), next(iter(groups.values()))[0].task
    first = choose_reference(groups, arms)
    sentences = [finding(first, arms, task), *warnings(groups)]
    if not same_data(groups):
        sentences = ["The runs have different data and cannot be compared.", *warnings(groups)]
    text = " ".join(escape(sentence) for sentence in sentences)
    return f'<p class="finding">{text}</p>{main_table(groups, first, arms, task)}'


def arms_of(groups: Groups) -> list[Arm]:
    """Return the numbers of each group of runs, in order of seed."""
    ordered = {label: sorted(runs, key=lambda run: run.checked_config.seed) for label, runs in groups.items()}
    return [make_arm(label, runs) for label, runs in ordered.items()]


def choose_reference(groups: Groups, arms: Sequence[Arm]) -> Arm:
    """Return the arm that others are compared with: FedAvg, the plain one if there is one, else the first."""
    sound = [arm for arm in arms if not arm.ended] or arms
    runs = {arm.title: groups[arm.title][0] for arm in sound}
    bare = {t: run.checked_config.model_copy(update={"name": ""}).title for t, run in runs.items()}
    starts = *(f"fedavg · {run.task.loss}" for run in runs.values()), "fedavg ", ""
    return next(arm for start in starts for arm in sound if bare[arm.title].startswith(start))


def gain(arm: Arm, first: Arm, metric: str) -> Interval:
    """Return the difference from the first arm on the same seeds; unknown without two of them."""
    values, reference = arm.of(metric), first.of(metric)
    if arm is first or arm.seeds != first.seeds or not len(arm.seeds) == len(values) == len(reference) > 1:
        return UNKNOWN
    return paired_interval(values, reference)


def finding(first: Arm, arms: Sequence[Arm], task: type[Task]) -> str:
    """State in one sentence what the runs show, and how certain it is."""
    others = [arm for arm in arms if arm is not first and not arm.ended]
    gains = {arm.title: gain(arm, first, task.metric) for arm in others}
    known = {title: each for title, each in gains.items() if np.isfinite(each.mean)}
    count = len(first.seeds)
    if not known:
        lost = as_points(first.mean("forgetting"))
        number = mean_std(first.of(task.metric), 3)
        seeds = (
            f"mean ± deviation over {count} seeds" if count > 1 else "one seed, so its uncertainty is unknown"
        )
        why = " A difference between runs needs two seeds that both have."
        return (
            f"{first.title} has {task.title} {number} ({seeds}) and loses {lost} per round and "
            f"{task.unit}.{why if others else ''}"
        )
    better = [title for title, each in known.items() if each.positive]
    best = max(better or known, key=lambda title: known[title].mean)
    points = known[best].points()
    if not better:
        return (
            f"No run has a significantly higher {task.title} than {first.title}: the largest gain is "
            f"that of {best}, {points} over {count} seeds."
        )
    arm = next(arm for arm in others if arm.title == best)
    less = gain(arm, first, "forgetting")
    words = ""
    # An average of models forgets little by construction.
    if (less.negative or less.positive) and not np.isfinite(arm.mean("sent_forgetting")):
        low, high = sorted((abs(less.low), abs(less.high)))
        words = f", and loses {as_points(abs(less.mean))} {'less' if less.negative else 'more'} per round "
        words += f"[{100 * low:.1f}, {100 * high:.1f}]"
    return (
        f"{best} has a higher {task.title} than {first.title}: {points}{words} "
        f"(paired {LEVEL:.0%} {'intervals' if words else 'interval'} over {count} seeds)."
    )


def warnings(groups: Groups) -> list[str]:
    """Return a sentence for each group of runs that diverged, are useless or miss classes."""
    lines = []
    for label, runs in groups.items():
        diverged = sum(bool(divergence(run)) for run in runs)
        many = f" ({diverged} of {len(runs)} seeds)" if len(runs) > 1 else ""
        useless = over_seeds([usefulness(run).sentence for run in runs])
        lines += [f"{label} diverged{many}."] if diverged else [f"{label}: {useless}"] if useless else []
    return lines


def main_table(groups: Groups, first: Arm, arms: Sequence[Arm], task: type[Task]) -> str:
    """Return the table of runs, colored as in the figures; a significant improvement is bold."""
    shown = [
        column
        for column in COLUMNS
        if column.metric in (task.metric, *LOST, "retention")
        and any(np.isfinite(arm.of(column.metric)).any() for arm in arms)
    ]
    headings = ["run", *(column.title for column in shown)]
    cells = [[_cell(arm, first, column) for column in shown] for arm in arms]
    heading, rounds = rounds_to(groups, first.mean(task.metric))
    if np.isfinite(first.mean(task.metric)) and set(rounds) != {"1"} and same_data(groups):
        headings.append(heading)
        cells = [[*row, cell] for row, cell in zip(cells, rounds, strict=True)]
    amounts = [arm.mean("up") + arm.mean("down") for arm in arms]
    if any(amount > 0 for amount in amounts):
        headings.append("MB a round")
        cells = [[*row, mean_std([amount], 3)] for row, amount in zip(cells, amounts, strict=True)]
    rows = []
    for index, (arm, row) in enumerate(zip(arms, cells, strict=True)):
        colors = (palette[index % len(palette)] for palette in (theme.PALETTE, theme.DARK_PALETTE))
        style = "--light: {}; --dark: {}".format(*colors)
        name = f'<th scope="row"><span class="dot" style="{style}"></span>{escape(arm.title)}</th>'
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in row)
        rows.append(f"<tr>{name}{numbers}</tr>")
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    spread = "Mean ± standard deviation over seeds. " if len(first.seeds) > 1 else ""
    bold = f"Bold: better than {first.title} on the same seeds, by the paired {LEVEL:.0%} interval. "
    comparable = any(np.isfinite(gain(arm, first, task.metric).mean) for arm in arms)
    note = spread + bold * comparable + "Forgetting: mean of all rounds."
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="settings scroll right">{table}</div><p><small>{escape(note)}</small></p>'


def _cell(arm: Arm, first: Arm, column: Column) -> str:
    # On a narrow screen the deviation is below the mean.
    mean, sign, spread = escape(arm.cell(column)).partition(" ± ")
    text = f"{mean} <span>± {spread}</span>" if sign else mean
    difference = gain(arm, first, column.metric)
    better = difference.negative if column.metric in LOST else difference.positive
    return f"<strong>{text}</strong>" if better else text


def rounds_to(groups: Groups, target: float) -> tuple[str, list[str]]:
    """Return a heading, and for each group the round in which its mean curve reaches the target."""
    column = []
    for runs in groups.values():
        curve = mean_curve(runs, main_metric)
        reached = curve.rounds[curve.mean >= target]
        column.append(str(reached[0]) if len(reached) else "never")
    return f"rounds to {target:.3f}", column


def same_data(groups: Groups) -> bool:
    """Return whether all runs use the same data, as a comparison requires."""
    first, *others = [run.config.get("data") for seeds in groups.values() for run in seeds]
    return all(data == first for data in others)


def describe_setting(groups: Groups) -> str:
    """Return the data, clients, rounds and seeds of the runs in one line."""
    runs = [run for seeds in groups.values() for run in seeds]
    configs = [run.checked_config for run in runs]
    values: dict[str, list[Any]] = {
        "": [config.data.name for config in configs],
        "clients": [len(run.label_counts) for run in runs if run.label_counts is not None],
        "rounds": [len(run.metrics) for run in runs],
        "seeds": [config.seed for config in configs],
    }
    texts = {word: join_names(map(str, dict.fromkeys(own))) for word, own in values.items() if own}
    pairs = ((word, text) if word == "seeds" else (text, word) for word, text in texts.items())
    return " · ".join(" ".join(pair).strip() for pair in pairs)


def clients_table(groups: Groups) -> str:
    """Return tables of each client's numbers on its own test data; empty where none were recorded."""
    parts: list[str] = []
    for metric in recorded_metrics(next(iter(groups.values()))[0]):
        try:
            clients = ByClient(groups, metric)
        except InputError:
            continue
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in clients.sentences())
        table = clients.table()
        text = f'{words}<div class="settings scroll">{table.html()}</div>'
        text += f"<p><small>{escape(table.note)}.</small></p>"
        parts.append(f"<details><summary>{escape(metric)}</summary>{text}</details>" if parts else text)
    return f'<section id="per-client"><h2>Clients</h2>{"".join(parts)}</section>' if parts else ""

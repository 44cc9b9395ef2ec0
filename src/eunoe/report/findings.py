"""The report's summary: a card per run, the comparison in one sentence, rounds to accuracy, clients."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import get_args

import numpy as np

from eunoe.analysis.by_client import ByClient, ClientMetric
from eunoe.analysis.statistics import mean_std
from eunoe.analysis.summary import Summary, summarize
from eunoe.core.tasks import Classification
from eunoe.errors import InputError
from eunoe.metrics import forgetting
from eunoe.report.figures.curves import main_metric
from eunoe.report.figures.series import mean_curve
from eunoe.store.run_records import RunRecords

SHARES = (0.5, 0.75, 0.95)
NUMBERS = (
    ("accuracy", "{metric} at the end", "%"),
    ("round_forgetting", "lost per round and {unit}", "points"),
    ("sent_forgetting", "lost by the model that clients receive", "points"),
    ("lost_locally", "lost by local training (L)", "points"),
    ("lost_in_aggregation", "lost in aggregation (G)", "points"),
    ("lost_by_changes", "lost by changes of the data", "points"),
)


def over_seeds(each: Sequence[Summary]) -> Summary:
    """The summary of one configuration from those of its seeds: each number is their mean."""
    mean = Summary(each[0])
    for name, value in each[0].items():
        if isinstance(value, float):
            mean[name] = float(forgetting.known_mean([one[name] for one in each]))
    if len(each) > 1:
        # Each seed has its own best round, classes and changes.
        mean["best_round"], mean["lost_per_class"], mean["changes"] = 0, [], ""
        diverged = sum(one["diverged"] for one in each)
        mean["trouble"] = f"{diverged} of {len(each)} seeds diverged." if diverged else ""
    return mean


def card(seeds: Sequence[RunRecords], light: str, dark: str) -> str:
    """The main numbers of one configuration, with their deviation over seeds, and its summary in words."""
    each = [summarize(run) for run in seeds]
    cells = []
    task = seeds[0].task
    for name, words, unit in NUMBERS:
        title = words.format(metric=task.title, unit=task.unit)
        values = [100 * one[name] for one in each]
        if np.isnan(values).all():
            continue
        center, sign, spread = mean_std(values, 1).partition(" ± ")
        number = f"{center}<small>{sign}{spread} {unit}</small>"
        cells.append(f"<div><dt>{title}</dt><dd>{number}</dd></div>")
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in over_seeds(each).sentences())
    count = f"<small>mean of {len(seeds)} seeds</small>" if len(seeds) > 1 else ""
    return (
        f'<article class="run" style="--light: {light}; --dark: {dark}">'
        f"<h3>{escape(seeds[0].label)} {count}</h3>"
        f'<dl class="numbers">{"".join(cells)}</dl><ul class="words">{sentences}</ul></article>'
    )


def comparison(groups: Mapping[str, Sequence[RunRecords]]) -> str:
    """Which run forgets least and which is most accurate, in one sentence; diverged runs do not count."""
    if len(groups) < 2:
        return ""
    if not same_data(groups):
        return '<p class="finding">The runs have different data, so none is said to be better.</p>'
    each = {label: [summarize(run) for run in seeds] for label, seeds in groups.items()}
    aggregate = {
        label: over_seeds(found) for label, found in each.items() if not any(one["diverged"] for one in found)
    }
    task = next(iter(groups.values()))[0].task
    praised = "ends most accurate" if task is Classification else f"ends with the highest {task.title}"
    praise: dict[str, list[str]] = {}
    for name, words, unit, best in (
        ("round_forgetting", "forgets least per round", "points", min),
        ("sent_forgetting", "forgets least per round in the model that clients receive", "points", min),
        ("client_forgetting", "loses least on other clients' data", "points", min),
        ("accuracy", praised, "%", max),
    ):
        known = {label: one[name] for label, one in aggregate.items() if not np.isnan(one[name])}
        # Negative is a gain: a run that keeps losing a class gains when it relearns it.
        if len(known) > 1 and min(known.values()) >= 0:
            first = best(known, key=lambda label: known[label])
            shown = {label: f"{100 * value:.1f}" for label, value in known.items()}
            others = {label: number for label, number in shown.items() if label != first}
            # As accurate as it is shown, nobody is alone in front.
            if shown[first] not in others.values():
                behind = ", ".join(f"{label} {number}" for label, number in others.items())
                praise.setdefault(first, []).append(f"{words}: {shown[first]} {unit} ({behind})")
    dead = [label for label in groups if label not in aggregate]
    sentences = [
        f"<strong>{escape(label)}</strong> {escape('; '.join(words))}." for label, words in praise.items()
    ] + [f"<strong>{escape(label)}</strong> diverged." for label in dead]
    return f'<p class="finding">{" ".join(sentences)}</p>' if sentences else ""


def same_data(groups: Mapping[str, Sequence[RunRecords]]) -> bool:
    """Whether all runs have the same data, without which their numbers cannot be compared."""
    first, *others = [run.config.get("data") for seeds in groups.values() for run in seeds]
    return all(data == first for data in others)


def clients_table(groups: Mapping[str, Sequence[RunRecords]]) -> str:
    """Each client's accuracy and loss on its own test data in every run; empty where none was recorded."""
    parts = []
    for metric in get_args(ClientMetric):
        try:
            found = ByClient(groups, metric)
        except InputError:
            continue
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in found.sentences())
        table = found.table()
        parts.append(
            f'{words}<div class="settings scroll">{table.html()}</div>'
            f"<p><small>{escape(table.note)}.</small></p>"
        )
    return f"<h2>Clients</h2>{''.join(parts)}" if parts else ""


def rounds_table(groups: Mapping[str, Sequence[RunRecords]]) -> str:
    """Rounds until shares of the best accuracy that any run reached, as the Flashback paper counts them."""
    curves = {label: mean_curve(seeds, main_metric) for label, seeds in groups.items()}
    if not any(len(found.mean) for found in curves.values()) or not same_data(groups):
        return ""
    title = next(iter(groups.values()))[0].task.title
    target = max(found.mean.max() for found in curves.values() if len(found.mean))
    if target <= 0:
        return ""
    heads = "".join(
        f'<th scope="col" class="number">{share:.0%}<br><small>{share * target:.1%}</small></th>'
        for share in SHARES
    )
    lines = []
    for label, (rounds, means, _, _) in curves.items():
        found = forgetting.rounds_to_accuracy(means, rounds.tolist(), SHARES, target)
        cells = "".join(
            f'<td class="number">{"never" if number is None else number}</td>' for number in found
        )
        area = forgetting.area_under_curve(means, rounds)
        lines.append(
            f'<tr><th scope="row">{escape(label)}</th>{cells}<td class="number">{area:.1%}</td></tr>'
        )
    return (
        f"<h2>Rounds to {title}</h2><p>Rounds until a share of the best {title}, {target:.1%}, and the "
        f"mean {title} over all rounds.</p>"
        f'<div class="settings scroll"><table><thead><tr><th scope="col">run</th>{heads}'
        f'<th scope="col" class="number">mean</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )

"""The summary section of the report: a card per run, a comparison, rounds to accuracy, and clients."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from eunoe.analysis.by_client import ByClient, recorded_metrics
from eunoe.analysis.statistics import mean_std
from eunoe.analysis.summary import Summary, summarize
from eunoe.analysis.tables import Table
from eunoe.analysis.usefulness import over_seeds
from eunoe.core.tasks import Classification
from eunoe.errors import InputError
from eunoe.metrics import forgetting
from eunoe.report.figures.curves import main_metric
from eunoe.report.figures.series import mean_curve
from eunoe.store.run_records import RunRecords

Groups = Mapping[str, Sequence[RunRecords]]

SHARES = (0.5, 0.75, 0.95)
# The numbers of a card: key of the summary, title, unit.
NUMBERS = (
    ("accuracy", "{metric} at the end", "%"),
    ("round_forgetting", "lost per round and {unit}", "points"),
    ("sent_forgetting", "lost by the model sent to clients", "points"),
    ("lost_locally", "lost in local training (L)", "points"),
    ("lost_in_aggregation", "lost in aggregation (G)", "points"),
    ("lost_by_changes", "lost by changes of the data", "points"),
)


def summary_html(groups: Groups, palettes: Sequence[Sequence[str]]) -> str:
    """Return the summary section; runs are colored by a light and a dark palette."""
    cards = "".join(
        card(seeds, *(colors[index % len(colors)] for colors in palettes))
        for index, seeds in enumerate(groups.values())
    )
    return (
        f'<section id="summary"><h2>Summary</h2>{comparison(groups)}<div class="runs">{cards}</div>'
        f"{rounds_table(groups)}{clients_table(groups)}</section>"
    )


def mean_over_seeds(summaries: Sequence[Summary]) -> Summary:
    """Average the summaries of the seeds of one configuration."""
    mean = Summary(summaries[0])
    for name, value in summaries[0].items():
        if isinstance(value, float):
            mean[name] = float(forgetting.known_mean([summary[name] for summary in summaries]))
    if len(summaries) > 1:
        # Each seed has its own best round, classes and changes.
        mean["best_round"], mean["lost_per_class"], mean["changes"] = 0, [], ""
        diverged = sum(summary["diverged"] for summary in summaries)
        mean["trouble"] = f"{diverged} of {len(summaries)} seeds diverged." if diverged else ""
        mean["usefulness"] = over_seeds([summary["usefulness"] for summary in summaries])
    return mean


def card(seeds: Sequence[RunRecords], light: str, dark: str) -> str:
    """Return the main numbers of one configuration, with their deviation over seeds, and its sentences."""
    summaries, task = [summarize(run) for run in seeds], seeds[0].task
    cells = []
    for name, title, unit in NUMBERS:
        values = [100 * summary[name] for summary in summaries]
        if not np.isnan(values).all():
            mean, sign, deviation = mean_std(values, 1).partition(" ± ")
            title = title.format(metric=task.title, unit=task.unit)
            number = f"{mean}<small>{sign}{deviation} {unit}</small>"
            cells.append(f"<div><dt>{title}</dt><dd>{number}</dd></div>")
    sentences = "".join(f"<li>{escape(text)}</li>" for text in mean_over_seeds(summaries).sentences())
    count = f"<small>mean of {len(seeds)} seeds</small>" if len(seeds) > 1 else ""
    return (
        f'<article class="run" style="--light: {light}; --dark: {dark}">'
        f"<h3>{escape(seeds[0].label)} {count}</h3>"
        f'<dl class="numbers">{"".join(cells)}</dl><ul class="words">{sentences}</ul></article>'
    )


def comparison(groups: Groups) -> str:
    """Name the run that forgets least and the one that is most accurate; diverged runs do not compete."""
    if len(groups) < 2:
        return ""
    if not same_data(groups):
        return '<p class="finding">The runs have different data and cannot be compared.</p>'
    summaries = {label: [summarize(run) for run in seeds] for label, seeds in groups.items()}
    diverged = [label for label, own in summaries.items() if any(summary["diverged"] for summary in own)]
    means = {label: mean_over_seeds(own) for label, own in summaries.items() if label not in diverged}
    task = next(iter(groups.values()))[0].task
    highest = "ends most accurate" if task is Classification else f"ends with the highest {task.title}"
    wins: dict[str, list[str]] = {}
    for name, words, unit, best in (
        ("round_forgetting", "forgets least per round", "points", min),
        ("sent_forgetting", "forgets least per round in the model sent to clients", "points", min),
        ("client_forgetting", "loses least on other clients' data", "points", min),
        ("accuracy", highest, "%", max),
    ):
        values = {label: mean[name] for label, mean in means.items() if not np.isnan(mean[name])}
        # Negative is a gain: a run that keeps losing a class gains when it relearns it.
        if len(values) > 1 and min(values.values()) >= 0:
            first = best(values, key=lambda label: values[label])
            shown = {label: f"{100 * value:.1f}" for label, value in values.items()}
            number = shown.pop(first)
            # There is no winner if another run has the same rounded value.
            if number not in shown.values():
                others = ", ".join(f"{label} {other}" for label, other in shown.items())
                wins.setdefault(first, []).append(f"{words}: {number} {unit} ({others})")
    sentences = [f"<strong>{escape(label)}</strong> {escape('; '.join(own))}." for label, own in wins.items()]
    sentences += [f"<strong>{escape(label)}</strong> diverged." for label in diverged]
    return f'<p class="finding">{" ".join(sentences)}</p>' if sentences else ""


def same_data(groups: Groups) -> bool:
    """Return whether all runs use the same data, as a comparison requires."""
    first, *others = [run.config.get("data") for seeds in groups.values() for run in seeds]
    return all(data == first for data in others)


def clients_table(groups: Groups) -> str:
    """Return tables of each client's numbers on its own test data; empty where none were recorded."""
    parts = []
    for metric in recorded_metrics(next(iter(groups.values()))[0]):
        try:
            clients = ByClient(groups, metric)
        except InputError:
            continue
        words = "".join(f"<p>{escape(sentence)}</p>" for sentence in clients.sentences())
        table = clients.table()
        parts.append(
            f'{words}<div class="settings scroll">{table.html()}</div>'
            f"<p><small>{escape(table.note)}.</small></p>"
        )
    return f"<h2>Clients</h2>{''.join(parts)}" if parts else ""


def rounds_table(groups: Groups) -> str:
    """Return the rounds until shares of the best accuracy of any run, as in the Flashback paper."""
    curves = {label: mean_curve(seeds, main_metric) for label, seeds in groups.items()}
    target = max((curve.mean.max() for curve in curves.values() if len(curve.mean)), default=0.0)
    if target <= 0 or not same_data(groups):
        return ""
    title = next(iter(groups.values()))[0].task.title
    rows = []
    for label, curve in curves.items():
        reached = forgetting.rounds_to_accuracy(curve.mean, curve.rounds.tolist(), SHARES, target)
        rounds = ["never" if number is None else str(number) for number in reached]
        rows.append([label, *rounds, f"{forgetting.area_under_curve(curve.mean, curve.rounds):.1%}"])
    headings = ["run", *(f"{share:.0%} ({share * target:.1%})" for share in SHARES), "mean"]
    return (
        f"<h2>Rounds to {title}</h2><p>Rounds until a share of the best {title}, {target:.1%}, and the mean "
        f'{title} over all rounds.</p><div class="settings scroll right">{Table(headings, rows).html()}</div>'
    )

"""Figures over the rounds: main metric, loss, round forgetting, phases, privacy spent, custom metrics."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import altair as alt
import numpy as np

from eunoe.analysis.statistics import deviation, mean
from eunoe.analysis.summary import phase_starts
from eunoe.core.tasks import Classification, Regression
from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, Series, band_rows, group_by_label, thin
from eunoe.report.theme import MOST_POINTS
from eunoe.store.run_records import Array, RunRecords

# The first three for a stream of classes, the others for any other stream.
PARTS = {
    "past": "classes of earlier phases",
    "present": "classes of this phase",
    "seen": "all classes so far",
    "before": "before the phase",
    "lowest": "lowest in the phase",
    "end": "at its end",
}
BAND = "Mean over seeds with a band of one standard deviation. "


def main_metric(run: RunRecords) -> tuple[Sequence[int], Array]:
    """Return the main metric of the global model in the evaluated rounds."""
    return run.rounds, run.curve(run.task.metric)


def metric_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the main metric of the global model per round."""
    return band_rows(runs, main_metric, bounded=all(run.task is not Regression for run in runs))


def loss_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the loss of the global model per round, except for classification."""
    others = [run for run in runs if run.task is not Classification]
    return band_rows(others, lambda run: (run.rounds, run.curve("loss")), bounded=False)


def forgetting_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return F_t per round, as a running mean over `window` rounds where there are 120 or more."""
    window = max(1, max(len(run.rounds) for run in runs) // 60)

    def smoothed(run: RunRecords) -> tuple[Sequence[int], Array]:
        return run.rounds, forgetting.running_mean(run.forgetting("round"), window)

    return [{**row, "window": window} for row in band_rows(runs, smoothed)]


def recorded_rows(path: str, runs: Sequence[RunRecords]) -> list[Row]:
    """Return any recorded number per round."""
    series: Series = lambda run: run.series(path)  # noqa: E731
    return band_rows(runs, series, bounded=False)


def draw_metric(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the main metric of the global model."""
    metric = display.task.title
    title = f"{charts.capitalize(metric)} of the global model"
    return _draw(rows, display, metric, title, "Drops are rounds that forget.", share=True)


def draw_loss(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the loss of the global model."""
    title = "Loss of the global model"
    return _draw(rows, display, "loss", title, f"{charts.capitalize(display.task.loss_title)}.")


def draw_epsilon(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the epsilon of differential privacy that is spent."""
    caption = "Epsilon of a client's participation so far, at the run's delta. It does not cover metrics on "
    caption += "clients' own samples."
    chart = charts.band_and_line(rows, display, "epsilon", zero=True, share=False)
    return Figure("Privacy budget spent", BAND * charts.has_band(rows) + caption, chart, wide=False)


def draw_retention(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the share of the start model's knowledge that is left."""
    caption = f"What is left of the start model's {display.task.title} on the reference set that lost most."
    return _draw(rows, display, "retention", "Retention", caption)


def draw_custom(metric: str, rows: Sequence[Row], display: Display) -> Figure:
    """Draw a custom metric."""
    title = metric.removesuffix(".value")
    return _draw(rows, display, title, title, "")


def draw_forgetting(rows: Sequence[Row], display: Display) -> Figure:
    """Draw round forgetting F_t."""
    metric, units = display.task.unit_metric, display.task.units
    window = rows[0]["window"]
    axis = f"{metric} lost" if window == 1 else f"{metric} lost, mean of {window} rounds"
    chart = charts.band_and_line(rows, display, axis, zero=True)
    caption = f"F_t: the mean over {units} of the {metric} lost since the previous round; gains count as 0."
    return Figure(
        f"Round forgetting: {metric} lost since the previous round",
        BAND * charts.has_band(rows) + caption,
        chart,
        wide=False,
    )


def distribution_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the ECDF of F_t over all rounds and seeds of a label."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        lost = np.concatenate([run.forgetting("round") for run in seeds])
        values, counts = np.unique(lost[~np.isnan(lost)], return_counts=True)
        shares = np.cumsum(counts) / max(int(counts.sum()), 1)
        steps = thin(list(zip(values.tolist(), shares.tolist(), strict=True)), 2 * MOST_POINTS)
        rows += [{"run": label, "lost": lost, "share": share} for lost, share in steps]
    return rows


def draw_distribution(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the ECDF of F_t of each run (Flashback paper, figure 4)."""
    base = alt.Chart(charts.table(rows)).encode(
        alt.X("lost:Q", title=f"{display.task.unit_metric} lost in a round", axis=charts.PERCENT),
        alt.Y("share:Q", title="fraction of rounds that lose at most this", axis=charts.PERCENT),
        display.run_color(rows),
    )
    tips = ["run:N", charts.tip("lost", "lost at most"), charts.tip("share", "fraction of rounds", ".0%")]
    chart = alt.layer(base.mark_line(interpolate="step-after"), charts.hover_points(base, tips))
    return Figure(
        "Distribution of round forgetting",
        "Fraction of rounds whose forgetting F_t is at most the value on the horizontal axis: the further "
        "left a line rises, the less is forgotten.",
        chart,
        wide=False,
    )


def phase_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the mean over seeds by label, phase and part."""
    rows = list[Row]()
    for label, seeds in group_by_label(runs).items():
        phases = [_by_class(run) or _by_round(run) for run in seeds]
        for phase in sorted({phase for own in phases for phase in own}):
            for part, title in PARTS.items():
                values = [own[phase][part] for own in phases if part in own.get(phase, {})]
                if values:
                    numbers = {"accuracy": mean(values), "deviation": deviation(values), "seeds": len(values)}
                    rows.append({"run": label, "phase": phase, "part": title, **numbers})
    return rows


def _by_class(run: RunRecords) -> dict[int, dict[str, Any]]:
    """Return the numbers of the last evaluated round of each phase of a stream of classes."""
    measured = [record["phases"] for record in run.metrics if "present" in (record.get("phases") or {})]
    numbers = {int(phases["phase"]): phases for phases in measured if phases.get("phase") is not None}
    return {phase: {k: v for k, v in own.items() if v is not None} for phase, own in numbers.items()}


def _by_round(run: RunRecords) -> dict[int, dict[str, Any]]:
    """Return the main metric before, during and at the end of each phase, if there are several."""
    starts, curve = phase_starts(run), run.curve(run.task.metric)
    phase_of = np.searchsorted(starts, run.rounds, side="right") + 1
    phases: dict[int, dict[str, Any]] = {}
    for phase in sorted(set(phase_of.tolist())) if starts else ():
        inside, before = curve[phase_of == phase], curve[phase_of < phase]
        phases[phase] = {"end": float(inside[-1])}
        if len(before):
            phases[phase] |= {"before": float(before[-1]), "lowest": float(inside.min())}
    return phases


def draw_phases(rows: Sequence[Row], display: Display) -> Figure:
    """Draw bars by phase, one panel per run."""
    metric = display.task.title
    order = [title for title in PARTS.values() if any(row["part"] == title for row in rows)]
    tips = ["run:N", "phase:O", "part:N", charts.tip("accuracy", metric), charts.tip("deviation"), "seeds:Q"]

    def panel(base: Any) -> Any:
        return base.mark_bar().encode(
            alt.X("phase:O", title="phase", axis=alt.Axis(labelAngle=0)),
            alt.XOffset("part:N", sort=order),
            alt.Y("accuracy:Q", title=metric, scale=charts.SHARE, axis=charts.PERCENT),
            alt.Color("part:N", sort=order, legend=alt.Legend(title=None, orient="bottom")),
            tooltip=tips,
        )

    return Figure(
        f"Cost of each phase in {metric}",
        "Global model, mean over seeds. For a stream of classes: at the end of each phase, on classes of "
        "earlier phases and on those of the phase. For other streams: before, in and at the end of each.",
        charts.panel_per_run(rows, panel).resolve_scale(xOffset="independent"),
    )


def _draw(
    rows: Sequence[Row], display: Display, metric: str, title: str, caption: str, share: bool = False
) -> Figure:
    chart = charts.band_and_line(rows, display, metric, share=share)
    return Figure(title, BAND * charts.has_band(rows) + caption, chart, wide=False)


ACCURACY = Kind("accuracy", metric_rows, draw_metric, charts.over_rounds)
LOSS = Kind("loss", loss_rows, draw_loss, charts.over_rounds)
ROUND_FORGETTING = Kind("round-forgetting", forgetting_rows, draw_forgetting, charts.over_rounds)
DISTRIBUTION = Kind("distribution", distribution_rows, draw_distribution)
PHASES = Kind("phases", phase_rows, draw_phases)
RETENTION = Kind("retention", partial(recorded_rows, "retention.share"), draw_retention, charts.over_rounds)
PRIVACY = Kind("privacy", partial(recorded_rows, "privacy.epsilon"), draw_epsilon, charts.over_rounds)


def custom_metrics(runs: Sequence[RunRecords]) -> list[Kind]:
    """Return a kind of figure for each custom metric of these runs."""
    metrics = sorted({metric for run in runs for metric in run.own_metrics})
    names = {metric: f"metric-{metric.removesuffix('.value').replace('.', '-')}" for metric in metrics}
    return [
        Kind(names[metric], partial(recorded_rows, metric), partial(draw_custom, metric), charts.over_rounds)
        for metric in metrics
    ]

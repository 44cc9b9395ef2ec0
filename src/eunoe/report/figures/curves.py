"""Line figures over the rounds: main metric, loss, round forgetting, privacy spent and custom metrics."""

from collections.abc import Sequence
from functools import partial

from eunoe.core.tasks import Classification, Regression
from eunoe.metrics import forgetting
from eunoe.report.figures.charts import Display, Figure, Kind, band_and_line, by_run, capitalize, points
from eunoe.report.figures.series import Row, Series, band_rows
from eunoe.store.run_records import Array, RunRecords

BAND = "Mean over seeds with a band of one standard deviation"


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
    title = f"{capitalize(metric)} of the global model"
    return _draw(rows, display, metric, title, f"{BAND}. Drops are rounds that forget.", share=True)


def draw_loss(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the loss of the global model."""
    title = "Loss of the global model: a rise is a round that made it worse"
    return _draw(rows, display, "loss", title, f"{capitalize(display.task.loss_title)}. {BAND}.")


def draw_epsilon(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the epsilon of differential privacy that is spent."""
    caption = "Epsilon of a client's participation so far, at the run's delta. It does not cover metrics on "
    caption += "clients' own samples."
    return _draw(rows, display, "epsilon", "Privacy budget spent", caption, zero=True)


def draw_custom(metric: str, rows: Sequence[Row], display: Display) -> Figure:
    """Draw a custom metric."""
    return _draw(rows, display, metric, metric, f"{BAND}.")


def draw_forgetting(rows: Sequence[Row], display: Display) -> Figure:
    """Draw round forgetting F_t."""
    metric, units = display.task.unit_metric, display.task.units
    window = rows[0]["window"]
    axis = f"{metric} lost" if window == 1 else f"{metric} lost, mean of {window} rounds"
    means = {
        label: forgetting.mean_over_rounds([row["mean"] for row in own], [row["round"] for row in own])
        for label, own in by_run(rows).items()
    }
    text = "; ".join(f"{label} loses {points(mean)} per round on average" for label, mean in means.items())
    chart = band_and_line(rows, display, axis, zero=True).properties(
        description=f"Line chart of round forgetting. {text}."
    )
    caption = f"F_t: the mean over {units} of the {metric} lost since the previous round; gains count as 0."
    return Figure(f"Round forgetting: {metric} lost since the previous round", caption, chart, wide=False)


def _draw(
    rows: Sequence[Row],
    display: Display,
    metric: str,
    title: str,
    caption: str,
    share: bool = False,
    zero: bool = False,
) -> Figure:
    form = ".1%" if share else ".4g"
    ends = "; ".join(f"{label} ends at {own[-1]['mean']:{form}}" for label, own in by_run(rows).items())
    chart = band_and_line(rows, display, metric, zero, share)
    chart = chart.properties(description=f"Line chart of {metric} over rounds. {ends}.")
    return Figure(title, caption, chart, wide=False)


ACCURACY = Kind("accuracy", metric_rows, draw_metric)
LOSS = Kind("loss", loss_rows, draw_loss)
ROUND_FORGETTING = Kind("round-forgetting", forgetting_rows, draw_forgetting)
PRIVACY = Kind("privacy", partial(recorded_rows, "privacy.epsilon"), draw_epsilon)


def custom_metrics(runs: Sequence[RunRecords]) -> list[Kind]:
    """Return a kind of figure for each custom metric of these runs."""
    metrics = sorted({metric for run in runs for metric in run.own_metrics})
    return [
        Kind(
            f"metric-{metric.replace('.', '-')}", partial(recorded_rows, metric), partial(draw_custom, metric)
        )
        for metric in metrics
    ]

"""Data of the figures: runs grouped by label, curves over seeds, and the rounds and classes shown."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eunoe.analysis.summary import phase_starts
from eunoe.metrics import forgetting
from eunoe.report.theme import MOST_CLASSES, MOST_POINTS, MOST_PROBES
from eunoe.store.run_records import Array, Record, RunRecords

Row = dict[str, Any]

# The rounds and the values of one run.
Series = Callable[[RunRecords], tuple[ArrayLike, Array]]


def group_by_label(runs: Sequence[RunRecords]) -> dict[str, list[RunRecords]]:
    """Group runs by label, in order of first appearance."""
    groups: dict[str, list[RunRecords]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


class Curve(NamedTuple):
    """Mean, sample deviation and number of seeds of a series, by round."""

    rounds: NDArray[np.int64]
    mean: Array
    deviation: Array
    seeds: NDArray[np.int64]


def mean_curve(seeds: Sequence[RunRecords], series: Series) -> Curve:
    """Average a series over the seeds of one configuration; unknown values are skipped."""
    curves = [series(run) for run in seeds]
    rounds = np.concatenate([np.asarray(numbers, np.int64) for numbers, _ in curves])
    values = np.concatenate([values for _, values in curves])
    known = np.isfinite(values)
    every, at, counts = np.unique(rounds[known], return_inverse=True, return_counts=True)
    means = np.bincount(at, values[known], len(every)) / counts
    squares = np.bincount(at, (values[known] - means[at]) ** 2, len(every))
    return Curve(every, means, np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def band_rows(runs: Sequence[RunRecords], series: Series, bounded: bool = True) -> list[Row]:
    """Return mean and deviation over seeds by label and round; a bounded band is clipped to [0, 1].

    Long curves are thinned to their peaks. With a stream, `began` is the first round of a row's phase.
    """
    rows, streamed = [], any(phase_starts(run) for run in runs)
    low, high = (0.0, 1.0) if bounded else (-np.inf, np.inf)
    for label, seeds in group_by_label(runs).items():
        curve, starts = mean_curve(seeds, series), [1, *phase_starts(seeds[0])]
        for index in select_peaks(curve.mean, 4 * MOST_POINTS):
            number, mean = int(curve.rounds[index]), float(curve.mean[index])
            deviation = float(curve.deviation[index])
            row: Row = {"run": label, "round": number, "mean": mean}
            row |= {"low": max(low, mean - deviation), "high": min(high, mean + deviation)}
            row |= {"seeds": int(curve.seeds[index])}
            rows.append(row | ({"began": starts[bisect_right(starts, number) - 1]} if streamed else {}))
    return rows


def select_peaks(values: Array, most: int) -> list[int]:
    """Downsample to at most this many positions: the first, the last, and the extremes of intervals."""
    if len(values) <= most:
        return list(range(len(values)))
    selected = {0, len(values) - 1}
    for stretch in np.array_split(np.arange(1, len(values) - 1), (most - 2) // 2):
        inside = values[stretch]
        selected |= {int(stretch[inside.argmin()]), int(stretch[inside.argmax()])}
    return sorted(selected)


def thin(items: Sequence[Any], most: int) -> list[Any]:
    """Select at most this many items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


def select_classes(runs: Sequence[RunRecords], like: RunRecords) -> list[int]:
    """Select the classes shown for a run: all, or those that lose most per round.

    Runs with equally many classes show the same ones, chosen by the first of them.
    """
    first = next(run for run in runs if run.classes == like.classes)
    if not len(first.per_class):
        return list(range(min(first.classes, MOST_CLASSES)))
    lost = forgetting.known_mean(first.lost_per_class, axis=0)
    order = np.argsort(-np.nan_to_num(lost, nan=-1.0), kind="stable")
    return sorted(order[:MOST_CLASSES].tolist())


def first_seeds(runs: Sequence[RunRecords]) -> dict[str, tuple[RunRecords, list[int]]]:
    """Return the first seed of each label, and the classes shown for it."""
    return {name: (first, select_classes(runs, first)) for name, (first, *_) in group_by_label(runs).items()}


def probed_rounds(runs: Sequence[RunRecords], probe: str, most: int = MOST_PROBES) -> list[int]:
    """Return the rounds of the slider: those in which every label was probed, thinned."""
    groups = group_by_label(runs).values()
    rounds = [{int(record["round"]) for record in seeds[0].probe(probe)} for seeds in groups]
    return thin(sorted(set.intersection(*filter(None, rounds))), most) if any(rounds) else []


def probe_means(
    runs: Sequence[RunRecords], probe: str, measure: Callable[[Record], Sequence[float]]
) -> Iterator[tuple[str, int, list[float]]]:
    """Yield label, round and the mean over seeds of some numbers of a probe, for every probed round."""
    for label, seeds in group_by_label(runs).items():
        values: dict[int, list[Sequence[float]]] = {}
        for record in (record for run in seeds for record in run.probe(probe)):
            values.setdefault(int(record["round"]), []).append(measure(record))
        for number in thin(sorted(values), MOST_POINTS):
            yield label, number, forgetting.known_mean(values[number], axis=0).tolist()

"""The records of runs as tidy rows, one list per figure; means over seeds are taken here."""

from collections.abc import Callable, Sequence

import numpy as np

from eunoe.metrics import forgetting
from eunoe.records.reader import Array, Record, RunRecords, numbers
from eunoe.report.theme import MOST_CELLS, MOST_CLASSES, MOST_POINTS, Row, thinned


def by_label(runs: Sequence[RunRecords]) -> dict[str, list[RunRecords]]:
    """The seeds of each setting, in the order in which the labels first come."""
    groups: dict[str, list[RunRecords]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


def deviation(values: Sequence[float]) -> float:
    """Standard deviation over seeds (n - 1), of the values that are known; 0 where one or none is."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0


def band(
    runs: Sequence[RunRecords], series: Callable[[RunRecords], tuple[Sequence[int], Array]]
) -> list[Row]:
    """Mean and deviation over seeds of a series per round, for each label; unknown rounds left out."""
    rows = []
    for label, seeds in by_label(runs).items():
        values: dict[int, list[float]] = {}
        for run in seeds:
            rounds, heights = series(run)
            for number, height in zip(rounds, heights.tolist(), strict=True):
                if not np.isnan(height):
                    values.setdefault(int(number), []).append(height)
        for number in thinned(sorted(values), 4 * MOST_POINTS):
            mean, spread = float(np.mean(values[number])), deviation(values[number])
            rows.append(
                {
                    "run": label,
                    "round": number,
                    "mean": mean,
                    "low": max(0.0, mean - spread),
                    "high": min(1.0, mean + spread),
                    "seeds": len(values[number]),
                }
            )
    return rows


def accuracy(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy of the global model per round."""
    return band(runs, lambda run: (run.rounds, run.curve("accuracy")))


def smoothing(runs: Sequence[RunRecords]) -> int:
    """How many rounds are averaged so that a line of round forgetting can be read: one up to 119 rounds."""
    return max(1, max(len(run.rounds) for run in runs) // 60)


def round_forgetting(runs: Sequence[RunRecords]) -> list[Row]:
    """F_t per round, each the mean of the last few rounds."""
    window = smoothing(runs)

    def running(run: RunRecords) -> tuple[Sequence[int], Array]:
        lost = run.forgetting("round")
        means = [forgetting.known_mean(lost[max(0, end - window) : end]) for end in range(1, len(lost) + 1)]
        return run.rounds, np.array(means)

    return [{**row, "window": window} for row in band(runs, running)]


def distribution(runs: Sequence[RunRecords]) -> list[Row]:
    """ECDF of F_t over all rounds and seeds of a label."""
    rows = []
    for label, seeds in by_label(runs).items():
        values, share = forgetting.ecdf(np.concatenate([run.forgetting("round") for run in seeds]))
        points = list(zip(values.tolist(), share.tolist(), strict=True))
        rows += [
            {"run": label, "lost": lost, "share": part} for lost, part in thinned(points, 2 * MOST_POINTS)
        ]
    return rows


def kept_classes(runs: Sequence[RunRecords], like: RunRecords) -> list[int]:
    """The classes that are shown of a run: all, or the forty that lose most per round.

    Runs of as many classes show the same ones, chosen by the first of them.
    """
    first = next(run for run in runs if run.classes == like.classes)
    if not len(first.per_class):
        return list(range(min(first.classes, MOST_CLASSES)))
    lost = forgetting.known_mean(first.lost_per_class, axis=0)
    order = np.argsort(-np.nan_to_num(lost, nan=-1.0), kind="stable")
    return sorted(order[:MOST_CLASSES].tolist())


def first_seeds(runs: Sequence[RunRecords]) -> dict[str, tuple[RunRecords, list[int]]]:
    """The first seed of each label, and its classes that are shown."""
    return {label: (seeds[0], kept_classes(runs, seeds[0])) for label, seeds in by_label(runs).items()}


def per_class(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy over rounds of each label's first seed."""
    rows, groups = [], first_seeds(runs)
    points = min(MOST_POINTS, MOST_CELLS // max(1, sum(len(shown) for _, shown in groups.values())))
    for label, (run, shown) in groups.items():
        history, rounds = run.per_class, run.rounds
        names = run.names(history.shape[1]) if len(history) else []
        kept = thinned(range(len(history)), points)
        ends = [*(rounds[index] for index in kept[1:]), rounds[-1] + 1] if kept else []
        for index, end in zip(kept, ends, strict=True):
            for c in shown:
                if not np.isnan(value := float(history[index, c])):
                    common = {"run": label, "round": rounds[index], "end": end}
                    rows.append({**common, "class": names[c], "accuracy": value})
    return rows


def parts(runs: Sequence[RunRecords]) -> list[Row]:
    """The signed account and the knowledge lost, mean over classes and seeds, per probed round and step."""
    rows = []
    for label, seeds in by_label(runs).items():
        found: dict[int, list[tuple[float, float, float, float]]] = {}
        for run in seeds:
            for probe in run.probe("local_per_class"):
                step = numbers(probe["start"]), numbers(probe["local"]), numbers(probe["merged"])
                signed, lost = forgetting.accounting(*step), forgetting.knowledge_lost(*step)
                local, merge = forgetting.known_mean(signed.local), forgetting.known_mean(signed.merge)
                found.setdefault(int(probe["round"]), []).append((local, merge, lost.local, lost.merge))
        for number in thinned(sorted(found), MOST_POINTS):
            local, merge, lost_local, lost_merge = np.mean(found[number], axis=0).tolist()
            common = {"run": label, "round": number}
            rows.append({**common, "step": "local training", "signed": local, "lost": lost_local})
            rows.append({**common, "step": "merge", "signed": merge, "lost": lost_merge})
    return rows


def saw_tooth(runs: Sequence[RunRecords]) -> list[Row]:
    """Loss at the start, after local training and after the merge, of each label's first seed."""
    rows = []
    for label, seeds in by_label(runs).items():
        probes = [probe for probe in seeds[0].probe("local_per_class") if _has_loss(probe)]
        for probe in thinned(probes, MOST_POINTS):
            loss, number = probe["loss"], int(probe["round"])
            positions, losses = forgetting.saw_tooth(
                [number], [loss["start"]], numbers(loss["local"])[None], [loss["merged"]]
            )
            models = "start model", "local models, mean", "merged model"
            for order, (position, value) in enumerate(zip(positions.tolist(), losses.tolist(), strict=True)):
                rows.append(
                    {"run": label, "round": number, "at": position, "model": models[order], "loss": value}
                )
    return rows


def _has_loss(probe: Record) -> bool:
    """Whether the loss was measured and is a number; that of a model that overflows is none."""
    if not (loss := probe.get("loss")):
        return False
    return bool(np.isfinite(numbers([loss["start"], *loss["local"], loss["merged"]])).all())


def drift(runs: Sequence[RunRecords]) -> list[Row]:
    """Distance from the start and from each other, cosine of updates; mean over seeds, per probed round."""
    rows = []
    for label, seeds in by_label(runs).items():
        found: dict[int, list[tuple[float, float, float]]] = {}
        for run in seeds:
            for probe in run.probe("drift"):
                mean = forgetting.known_mean(numbers(probe["from_start"]))
                pair = numbers([probe["apart"], probe["cosine"]]).tolist()
                found.setdefault(int(probe["round"]), []).append((mean, pair[0], pair[1]))
        for number in thinned(sorted(found), MOST_POINTS):
            start, apart, cosine = forgetting.known_mean(found[number], axis=0).tolist()
            rows.append({"run": label, "round": number, "start": start, "apart": apart, "cosine": cosine})
    return rows


def costs(runs: Sequence[RunRecords]) -> list[Row]:
    """Bytes and seconds of a whole run per kind, mean over seeds; what was not recorded is left out."""
    rows = []
    for label, seeds in by_label(runs).items():
        aggregate: dict[tuple[str, str], float] = {}
        for run in seeds:
            for record in run.metrics:
                for name, kind in (("bytes_up", "up"), ("bytes_down", "down")):
                    if record.get(name) is not None:
                        aggregate["bytes", kind] = aggregate.get(("bytes", kind), 0.0) + record[name] / len(
                            seeds
                        )
            for record in run.timings:
                for kind, seconds in record.items():
                    if kind in ("round", "schema"):
                        continue
                    aggregate["seconds", kind] = aggregate.get(("seconds", kind), 0.0) + seconds / len(seeds)
        rows += [
            {"run": label, "unit": unit, "kind": kind, "amount": total}
            for (unit, kind), total in aggregate.items()
        ]
    return rows

"""The records about single clients as tidy rows: forgetting matrices, local models, labels, beliefs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from eunoe.metrics import forgetting
from eunoe.records.reader import RunRecords, numbers
from eunoe.report.rows import by_label, first_seeds, kept_classes
from eunoe.report.theme import MOST_CELLS, MOST_CLASSES, MOST_CLIENTS, MOST_PROBES, Row, thinned


def probed(runs: Sequence[RunRecords], probe: str, most: int = MOST_PROBES) -> list[int]:
    """The rounds that the slider goes over: those that every label has been probed in, thinned."""
    rounds = [{int(record["round"]) for record in seeds[0].probe(probe)} for seeds in by_label(runs).values()]
    measured = [found for found in rounds if found]
    return thinned(sorted(set.intersection(*measured)), most) if measured else []


def matrices(runs: Sequence[RunRecords]) -> list[Row]:
    """Each cell of the client forgetting matrix of each label's first seed; F_k is the column named "F_k"."""
    rounds, rows = probed(runs, "client_matrix"), list[Row]()
    for label, seeds in by_label(runs).items():
        for record in seeds[0].probe("client_matrix"):
            if int(record["round"]) not in rounds:
                continue
            start, after = numbers(record["start"]), numbers(record["after"])
            models, data = record["models"], record["data"]
            lost = forgetting.client_forgetting(start, after, models, data)
            common = {
                "run": label,
                "probe": rounds.index(int(record["round"])),
                "round": int(record["round"]),
            }
            shown = list(enumerate(models))[:MOST_CLIENTS]
            columns = _columns([model for _, model in shown], data)
            for i, model in shown:
                for k, owner in columns:
                    if not np.isnan(lost.matrix[i, k]):
                        rows.append(
                            {
                                **common,
                                "model": str(model),
                                "data": str(owner),
                                "own": int(model == owner),
                                "before": float(start[k]),
                                "after": float(after[i, k]),
                                "lost": float(lost.matrix[i, k]),
                            }
                        )
                if not np.isnan(lost.by_model[i]):
                    mean = {"before": None, "after": None, "lost": float(lost.by_model[i])}
                    rows.append({**common, "model": str(model), "data": "F_k", "own": 0, **mean})
    return rows


def _columns(models: Sequence[int], data: Sequence[int]) -> list[tuple[int, int]]:
    """The data that are shown, in their order: the models' own, and of the others as many as fit."""
    own_first = sorted(enumerate(data), key=lambda column: column[1] not in models)
    return sorted(own_first[: 2 * MOST_CLIENTS])


def client_means(runs: Sequence[RunRecords]) -> list[Row]:
    """F_k of each model (mean over others' data) at every probed round, all seeds."""
    rows = []
    for label, seeds in by_label(runs).items():
        for seed, run in enumerate(seeds):
            for record in thinned(list(run.probe("client_matrix")), 2 * MOST_PROBES):
                lost = forgetting.client_forgetting(
                    numbers(record["start"]), numbers(record["after"]), record["models"], record["data"]
                )
                for model, mean in zip(record["models"], lost.by_model.tolist(), strict=True):
                    if not np.isnan(mean):
                        rows.append(
                            {"run": label, "seed": seed, "round": int(record["round"]), "client": str(model)}
                            | {"lost": mean}
                        )
    return rows


def local_models(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy of the start model, each local model and the merged model, per probed round."""
    groups = first_seeds(runs)
    cells = MOST_CLIENTS * max(1, sum(len(kept) for _, kept in groups.values()))
    rounds = probed(runs, "local_per_class", max(3, min(MOST_PROBES, MOST_CELLS // cells)))
    rows = list[Row]()
    for label, (run, kept) in groups.items():
        for record in run.probe("local_per_class"):
            if int(record["round"]) not in rounds:
                continue
            clients = list(enumerate(record["clients"]))[:MOST_CLIENTS]
            models: list[tuple[str, Any, Any]] = [("start", record["start"], None)]
            counts = record.get("counts") or [None] * len(record["clients"])
            models += [(f"client {client}", record["local"][i], counts[i]) for i, client in clients]
            models.append(("merged", record["merged"], None))
            names = run.names(len(record["start"]))
            common = {
                "run": label,
                "probe": rounds.index(int(record["round"])),
                "round": int(record["round"]),
            }
            for order, (model, per_class, labels) in enumerate(models):
                for c in kept:
                    if per_class[c] is not None:
                        cell = {"class": names[c], "accuracy": float(per_class[c])}
                        count = None if labels is None else int(labels[c])
                        rows.append({**common, "order": order, "model": model, **cell, "labels": count})
    return rows


def one_client(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy over time, and label counts, of the client that took part most often."""
    run = runs[0]
    records = [record for record in run.probe("local_per_class") if record.get("counts")]
    taken = Counter(client for record in records for client in record["clients"])
    if not taken:
        return []
    client = max(taken, key=lambda name: (taken[name], -int(name)))
    mine = thinned([record for record in records if client in record["clients"]], 4 * MOST_PROBES)
    rows, kept = [], kept_classes(runs, run)
    for record in mine:
        at = record["clients"].index(client)
        names = run.names(len(record["start"]))
        for c in kept:
            if (value := record["local"][at][c]) is not None:
                rows.append(
                    {
                        "client": str(client),
                        "round": int(record["round"]),
                        "class": names[c],
                        "accuracy": float(value),
                        "labels": int(record["counts"][at][c]),
                    }
                )
    return rows


def probabilities(runs: Sequence[RunRecords]) -> list[Row]:
    """Mean output probability of a class against its count at the client; first seed of each label."""
    rows = []
    for label, seeds in by_label(runs).items():
        for record in thinned(list(seeds[0].probe("probability")), MOST_PROBES):
            result = forgetting.probability_by_count(
                numbers(record["probability"]), numbers(record["counts"])
            )
            names = seeds[0].names(result.probability.shape[1])
            for i, client in list(enumerate(record["clients"]))[:MOST_CLIENTS]:
                for c, name in enumerate(names):
                    share, probability = float(result.count_share[i, c]), float(result.probability[i, c])
                    if not np.isnan(share + probability):
                        rows.append(
                            {
                                "run": label,
                                "round": int(record["round"]),
                                "client": str(client),
                                "class": name,
                            }
                            | {"share": share, "probability": probability}
                        )
    return thinned(rows, MOST_CELLS // 8)


def partition(runs: Sequence[RunRecords]) -> list[Row]:
    """Train label counts of the first clients; each of up to four partitions, under its first label."""
    rows, seen = list[Row](), list[Any]()
    for label, seeds in by_label(runs).items():
        counts = seeds[0].label_counts
        if counts is not None and not any(np.array_equal(counts, other) for other in seen):
            seen.append(counts)
            first = counts[: 2 * MOST_CLIENTS if counts.shape[1] <= MOST_CLASSES else 10].astype(np.int64)
            rows.append({"run": label, "counts": first, "names": seeds[0].names(counts.shape[1])})
    return rows[:4]

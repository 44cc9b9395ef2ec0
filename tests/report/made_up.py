"""Made-up records of runs, for tests of the figures and the report."""

from typing import Any

import numpy as np

from eunoe.metrics import forgetting
from eunoe.store.run_records import RunRecords
from eunoe.system.files import plain


def made_up_run(
    label: str = "fedavg",
    seed: int = 0,
    rounds: int = 5,
    classes: int = 3,
    clients: int = 4,
    probe_every: int = 2,
    **options: Any,
) -> RunRecords:
    """A run that measured everything; the last class has no test data."""
    random = np.random.default_rng(seed)
    metrics, probes, history = [], [], []
    ids = [10 * k for k in range(clients)]
    counts = random.integers(0, 5, (clients, classes))
    for number in range(1, rounds + 1):
        accuracy = random.uniform(0, 1, (clients + 2, classes))
        accuracy[:, -1] = np.nan
        start, local, merged = (accuracy[0], accuracy[2:], accuracy[1])
        lost = forgetting.round_forgetting(history[-1], merged) if history else None
        history.append(merged)
        measured = {"accuracy": float(np.nanmean(merged)), "loss": 1 / number, "per_class": plain(merged)}
        common = {"schema": 1, "round": number}
        own = np.random.default_rng([seed, number]).uniform(0, 1, clients).tolist()
        measured["by_client"] = {
            "clients": list(range(clients)),
            "samples": [10] * clients,
            "accuracy": own,
            "loss": [1.0] * clients,
        }
        metrics.append(
            {**common, "clients": ids, "dropped": [], "bytes_up": 100, "bytes_down": 200, "test": measured}
            | {"retention": {"share": 1 - 0.01 * number, "forgetting": 0.01 * number}}
            | {"privacy": {"epsilon": 0.5 * number**0.5, "delta": 1e-5, "merges": number}}
            | {"forgetting": {"round": lost, "fedntd": plain(forgetting.fedntd_score(history))}}
        )
        if number % probe_every:
            continue
        losses = {"start": 1.0, "local": [2.0] * clients, "merged": 0.9}
        steps = {"clients": ids, "start": plain(start), "local": plain(local), "merged": plain(merged)}
        matrix = {"models": ids, "data": ids, "start": plain(random.uniform(0, 1, clients))}
        probes += [
            {**common, "probe": "local_per_class", **steps, "counts": counts.tolist(), "loss": losses},
            {
                **common,
                "probe": "client_matrix",
                **matrix,
                "after": plain(random.uniform(0, 1, (clients, clients))),
            },
            {
                **common,
                "probe": "drift",
                "clients": ids,
                "from_start": [1.0] * clients,
                "apart": 1.4,
                "cosine": 0.1,
            },
            {**common, "probe": "probability", "clients": ids, "probability": plain(np.nan_to_num(local))}
            | {"counts": counts.tolist()},
        ]
    values: dict[str, Any] = {
        "timings": [{"round": number, "train": 2.0, "evaluate": 0.5} for number in range(1, rounds + 1)],
        "config": {"method": {"name": label}, "seed": seed},
        "environment": {"torch": "2"},
        "label_counts": counts.astype(np.float64),
    }
    return RunRecords(label, metrics, probes, **(values | options))

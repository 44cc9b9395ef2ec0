"""What local training and aggregation each take: the rows of two figures."""

from collections.abc import Sequence

import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import by_label, later
from eunoe.report.theme import MOST_POINTS, Row, thinned
from eunoe.store.run_records import RunRecords, numbers


def parts(runs: Sequence[RunRecords]) -> list[Row]:
    """The signed account and the knowledge lost, mean over classes and seeds, per probed round and step."""
    found = []
    for label, seeds in by_label(runs).items():
        probed: dict[int, list[tuple[float, float, float, float]]] = {}
        for run in seeds:
            for probe in run.probe("local_per_class"):
                step = numbers(probe["start"]), numbers(probe["local"]), numbers(probe["merged"])
                signed, lost = forgetting.accounting(*step), forgetting.knowledge_lost(*step)
                local, merge = forgetting.known_mean(signed.local), forgetting.known_mean(signed.merge)
                probed.setdefault(int(probe["round"]), []).append((local, merge, lost.local, lost.merge))
        for number in thinned(sorted(probed), MOST_POINTS):
            local, merge, lost_local, lost_aggregation = np.mean(probed[number], axis=0).tolist()
            common = {"run": label, "round": number}
            found.append({**common, "step": "local training", "signed": local, "lost": lost_local})
            found.append({**common, "step": "merge", "signed": merge, "lost": lost_aggregation})
    return found


def mean_of(rows: Sequence[Row], label: str, step: str, field: str) -> float:
    """The mean of a field over the rounds of a run but the first, for one step, in points."""
    values = [row[field] for row in later(rows) if row["run"] == label and row["step"] == step]
    return 100 * float(sum(values)) / len(values)

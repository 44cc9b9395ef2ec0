"""All figures of runs, in the order of the report; a figure without data is omitted."""

from collections.abc import Sequence

from eunoe.report.figures import (
    accuracy,
    client_matrices,
    client_means,
    clients,
    costs,
    distribution,
    drift,
    knowledge_lost,
    local_models,
    loss,
    one_client,
    own_metrics,
    partition,
    per_class,
    phases,
    privacy_spent,
    probabilities,
    round_forgetting,
    saw_tooth,
    signed_parts,
)
from eunoe.report.figures.common import ROUNDS, SETTING, WHO, by_label, slider_rounds
from eunoe.report.theme import Figure, colored_alike
from eunoe.report.wording import reworded
from eunoe.store.main_metric import common_task
from eunoe.store.run_records import RunRecords

KINDS = (
    accuracy.FIGURE,
    loss.FIGURE,
    round_forgetting.FIGURE,
    distribution.FIGURE,
    phases.FIGURE,
    client_matrices.FIGURE,
    client_means.FIGURE,
    per_class.FIGURE,
    local_models.FIGURE,
    one_client.FIGURE,
    signed_parts.FIGURE,
    knowledge_lost.FIGURE,
    saw_tooth.FIGURE,
    partition.FIGURE,
    probabilities.FIGURE,
    drift.FIGURE,
    privacy_spent.FIGURE,
    clients.FIGURE,
    costs.FIGURE,
)


def all_figures(runs: Sequence[RunRecords], names: Sequence[str] = ()) -> list[Figure]:
    """All figures for which these runs have records, or only the named ones."""
    first = [kind for kind in KINDS if kind.section == ROUNDS]
    kinds = [*first, *own_metrics.kinds(runs), *(kind for kind in KINDS if kind not in first)]
    task = common_task([run.task for run in runs])
    with colored_alike(list(by_label(runs))):
        return [
            reworded(
                Figure(
                    kind.name,
                    kind.title(found),
                    kind.caption,
                    kind.draw(found),
                    kind.section,
                    kind.panels,
                    slider_rounds(found) if "probe" in found[0] else [],
                ),
                task,
                kind.section in (WHO, SETTING),
            )
            for kind in kinds
            if (not names or kind.name in names) and (found := kind.rows(runs))
        ]

"""All figures of runs, in the order of the report; a figure without data is omitted.

A `Kind` of figure has `rows(runs)`, its data, `draw(rows, display)`, the figure, and `shows(rows)`. `charts`
has what they share, and `series` selects and averages records.
"""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.report.figures import classes, client_forgetting, clients, curves, partition, steps
from eunoe.report.figures.charts import Display, Figure, Kind, slider_rounds
from eunoe.store.run_records import RunRecords

CUSTOM, SUMMARY = "Custom metrics", "Summary"
SECTIONS: dict[str, Sequence[Kind]] = {
    SUMMARY: (curves.ACCURACY, curves.ROUND_FORGETTING),
    "Over the rounds": (curves.LOSS, curves.RETENTION, curves.DISTRIBUTION, curves.PHASES),
    CUSTOM: (),
    "Whose knowledge is lost": (client_forgetting.MATRICES, client_forgetting.MEANS),
    "Which {units} are lost": (classes.PER_CLASS, classes.LOCAL_MODELS, classes.ONE_CLIENT),
    "In which step it is lost": (steps.SIGNED, steps.LOST, steps.SAW_TOOTH),
    "Clients and costs": (
        partition.KIND,
        clients.PROBABILITIES,
        clients.DRIFT,
        curves.PRIVACY,
        clients.CLIENTS,
        clients.COSTS,
    ),
}
KINDS = [kind for kinds in SECTIONS.values() for kind in kinds]


def all_figures(runs: Sequence[RunRecords], names: Sequence[str] = ()) -> list[Figure]:
    """Draw all figures for which these runs have records, or only the named ones."""
    display, figures = Display.of(runs), []
    for section, kinds in SECTIONS.items():
        for kind in curves.custom_metrics(runs) if section == CUSTOM else kinds:
            if (not names or kind.name in names) and kind.shows(rows := kind.rows(runs)):
                figure = kind.draw(rows, display)
                figures.append(
                    replace(
                        figure,
                        chart=figure.chart.properties(description=figure.text),
                        name=kind.name,
                        section=section.format(units=display.task.units),
                        rounds=slider_rounds(rows) if "probe" in rows[0] else (),
                    )
                )
    return figures

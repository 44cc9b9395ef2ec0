"""The metrics that a config names, and those that every run has."""

import re
from collections.abc import Iterable

from eunoe.config import registry
from eunoe.config.options import STANDARD_PROBES, Named, Probe
from eunoe.core.tasks import CLASSIFICATION, Task, check_task, supports
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.metrics.base import Metric
from eunoe.store.schema import BY_SET, RECORDED

# Computed for every evaluated model if they support its task.
STANDARD = (*BY_SET, "forgetting")


def round_metrics(
    wanted: Iterable[Named | str | Metric] = (), task: Task = CLASSIFICATION
) -> dict[str, Metric]:
    """Build the standard metrics of a task and the wanted ones, by the names they are recorded under."""
    metrics: dict[str, Metric] = {name: registry.build("metric", name, {}) for name in STANDARD}
    metrics = {name: metric for name, metric in metrics.items() if supports(metric, task)}
    for section in wanted:
        metric, name = _build(section)
        check_task(metric, task, "metric", name)
        if metric.sees != ("global",):
            raise InputError(f"metric {name!r} measures clients' models: name it in probes, with its rounds")
        # A standard metric with options replaces the one without.
        if name in metrics and (name not in STANDARD or metric == metrics[name]):
            raise InputError(f"metric {name!r} is already measured: leave it out")
        if name in RECORDED - {"forgetting"}:
            raise InputError(f"the record of a round has another key {name!r}: rename your metric")
        metrics[name] = metric
    return metrics


def _build(section: Named | str | Metric) -> tuple[Metric, str]:
    """Return a metric and the name under which it is recorded."""
    if isinstance(section, Metric):
        return section, recorded_name(":", section)
    name, options = (section, {}) if isinstance(section, str) else (section.name, section.options)
    metric: Metric = registry.build("metric", name, options)
    return metric, recorded_name(name, metric)


def probe_metric(probe: Probe) -> tuple[str, Metric]:
    """Return the name under which a probe is recorded, and its metric."""
    metric: Metric = registry.build("metric", probe.metric, {}, data=probe.data, samples=probe.samples)
    if "local" not in metric.sees:
        raise InputError(f"metric {probe.metric!r} does not measure clients' models: name it in metrics")
    return recorded_name(probe.metric, metric), metric


def check_metrics(sections: Iterable[Named], probes: Iterable[Probe], task: Task = CLASSIFICATION) -> None:
    """Refuse metrics that cannot be built or do not support the task, before anything is trained."""
    round_metrics(sections, task)
    for probe in probes:
        name, metric = probe_metric(probe)
        # The standard probes measure what they can.
        if probe not in STANDARD_PROBES:
            check_task(metric, task, "metric", name)


def can_measure(metric: Metric, federation: Federation) -> bool:
    """Return whether a metric supports the task of a federation and can measure anything on its data."""
    return supports(metric, federation.task) and metric.possible(federation)


def recorded_name(name: str, metric: Metric) -> str:
    """Return a metric's name in records: that of the config, or of the user's class (MacroF1 is macro_f1)."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(metric).__name__)
    return words.lower() if ":" in name else name

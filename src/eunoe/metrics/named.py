"""The metrics that a config names, and those that every run has."""

import re
from collections.abc import Iterable

from eunoe.config import registry
from eunoe.config.options import STANDARD_PROBES, Probe
from eunoe.config.schema import Named
from eunoe.core.tasks import CLASSIFICATION, Task, refuse_unless_serving, serves
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.metrics.base import Metric

# Recorded in the section of each place, as in test.accuracy; all others have a section of their own.
BY_PLACE = (
    "accuracy",
    "f1",
    "subset_accuracy",
    "hamming_loss",
    "r2",
    "rmse",
    "mae",
    "loss",
    "per_class",
    "clients",
    "by_client",
)
# Measured of every evaluated model, as far as they serve its task.
STANDARD = (*BY_PLACE, "forgetting")
# Other names in the record of a round.
RECORDED = frozenset(
    [
        "schema",
        "round",
        "lr",
        "clients",
        "sizes",
        "steps",
        "loss_before",
        "loss_after",
        "update_norms",
        "means",
        "forwards",
        "backwards",
        "dropped",
        "bytes_up",
        "bytes_down",
        "server",
        "warnings",
        "validation",
        "client_test",
        "test",
        "personal",
        "sent",
        "participants",
        "privacy",
    ]
)


def round_metrics(
    wanted: Iterable[Named | str | Metric] = (), task: Task = CLASSIFICATION
) -> dict[str, Metric]:
    """The standard metrics of a task and these, by the names under which they are recorded."""
    made: dict[str, Metric] = {name: registry.build("metric", name, {}) for name in STANDARD}
    made = {name: metric for name, metric in made.items() if serves(metric, task)}
    for one in wanted:
        metric, name = _built(one)
        refuse_unless_serving(metric, task, "metric", name)
        if metric.sees != ("merged",):
            raise InputError(f"metric {name!r} measures clients' models: name it in probes, with its rounds")
        # With options a standard one takes the place of the one without.
        if name in made and (name not in STANDARD or metric == made[name]):
            raise InputError(f"metric {name!r} is already measured: leave it out")
        if name in RECORDED:
            raise InputError(f"the record of a round has something else called {name!r}: rename your metric")
        made[name] = metric
    return made


def _built(one: Named | str | Metric) -> tuple[Metric, str]:
    """A metric, and the name under which it is recorded."""
    if isinstance(one, Metric):
        return one, recorded_name(":", one)
    name, options = (one, {}) if isinstance(one, str) else (one.name, one.options)
    metric: Metric = registry.build("metric", name, options)
    return metric, recorded_name(name, metric)


def probe_metric(probe: Probe) -> tuple[str, Metric]:
    """The metric of a probe, and the name under which it is recorded."""
    metric: Metric = registry.build("metric", probe.metric, {}, data=probe.data, samples=probe.samples)
    if "local" not in metric.sees:
        raise InputError(
            f"metric {probe.metric!r} measures no client's model: name it in metrics, not in probes"
        )
    return recorded_name(probe.metric, metric), metric


def check_metrics(sections: Iterable[Named], probes: Iterable[Probe], task: Task = CLASSIFICATION) -> None:
    """Refuse metrics that cannot be built or do not serve the task, before anything is trained."""
    round_metrics(sections, task)
    for probe in probes:
        name, metric = probe_metric(probe)
        # The standard probes measure what they can.
        if probe not in STANDARD_PROBES:
            refuse_unless_serving(metric, task, "metric", name)


def measures(metric: Metric, federation: Federation) -> bool:
    """Whether a metric serves the task of some data and they let it measure anything."""
    return serves(metric, federation.task) and metric.possible(federation)


def recorded_name(name: str, metric: Metric) -> str:
    """A metric's name in records: that of the config, or of the user's own class (MacroF1 is macro_f1)."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(metric).__name__)
    return words.lower() if ":" in name else name

"""Secure aggregation in a run: what is summed, what is refused before round 1, what is still shown."""

from collections.abc import Sequence
from dataclasses import replace

from eunoe.config.options import STANDARD_PROBES, Probe
from eunoe.config.schema import Config
from eunoe.engines.secure_sum import fixed_point
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError


def summed(config: Config, simulation: Simulation) -> Simulation:
    """The simulation with how its updates are summed."""
    options, method, context = config.secure_aggregation, simulation.method, simulation.context
    assert options is not None
    if not method.trains_clients:
        raise InputError(
            f"method {config.method.name!r} trains no client, so there is nothing to sum: "
            "leave secure_aggregation out"
        )
    kept = [name for name, upload in method.uploads(context).items() if upload.combine == "keep"]
    if method.keeps_models or kept:
        what = "model" if method.keeps_models else kept[0]
        raise InputError(
            f"method {config.method.name!r} needs every client's {what}, and secure_aggregation shows the "
            "server nothing but sums: leave one of them out"
        )
    if context.aggregation.needs_all:
        raise InputError(
            f"aggregation {config.aggregation.name!r} compares clients' changes, and secure_aggregation "
            "shows the server nothing but their sum: leave one of them out"
        )
    if context.training.single_class == "skip":
        raise InputError(
            "training.single_class = 'skip' tells the server who has one class only, which "
            "secure_aggregation is to hide: set it to 'train' or 'no_decay'"
        )
    most = options.max_samples or int(simulation.federation.sizes.max())
    # Without a stream there are no earlier samples.
    memory = config.replay.memory if config.replay is not None and config.stream else 0
    return replace(
        simulation,
        fixed_point=fixed_point(options, method, context, most, memory),
        threshold=options.least(context.participants),
    )


def check_secure_aggregation(config: Config, simulation: Simulation) -> list[str]:
    """Refuse what cannot be measured of sums; a warning says what is not."""
    if simulation.fixed_point is None:
        return []
    if config.probes and config.probes != STANDARD_PROBES:
        raise InputError(
            "probes measure clients' models, and secure_aggregation shows the server nothing but their sum: "
            "set probes = []"
        )
    _check_streams(config)
    most = simulation.fixed_point.max_samples
    if (largest := int(simulation.federation.sizes.max())) > most:
        raise InputError(
            f"secure_aggregation.max_samples = {most}, and a client has {largest}: raise it to that"
        )
    return [
        "secure_aggregation: the server sees no client's model, so only round forgetting and what clients "
        "measure themselves is shown, and no single update is checked or its norm compared"
    ]


def _check_streams(config: Config) -> None:
    """Refuse streams that keep clients away from a round, and growing clients without a limit."""
    assert config.secure_aggregation is not None
    for name in (section.name for section in config.stream):
        if name in ("arrival", "classes"):
            raise InputError(
                f"stream {name!r} keeps clients away, and secure_aggregation ends a run in a round with "
                "fewer than its threshold: leave one of them out"
            )
        if name == "label_drift" and config.secure_aggregation.max_samples is None:
            raise InputError(
                "stream 'label_drift' changes how many samples clients have: set "
                "secure_aggregation.max_samples to more than any ever has"
            )


def shown_probes(config: Config) -> Sequence[Probe]:
    """The probes that a run can measure."""
    hidden = config.secure_aggregation is not None or config.privacy is not None
    return () if hidden else config.probes

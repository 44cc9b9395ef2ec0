"""Which options go together: one table of rules, checked before round 1.

A rule has a message, in compatibility.toml, and a condition, here. What a single component needs
(`Method.check`, `Aggregation.check`, `ServerOptimizer.check`) stands with the component; whether a model fits
the data is tried in build.py. docs/compatibility.md is made from this table.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch

from eunoe.config import registry
from eunoe.config.options import STANDARD_PROBES
from eunoe.config.schema import Config
from eunoe.core.compression import part_bytes
from eunoe.core.tasks import check_task
from eunoe.data.federation import Federation
from eunoe.engines.attacks import bad_clients
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.errors import InputError
from eunoe.metrics.named import check_metrics, probe_metric
from eunoe.server.optimizers import SGD
from eunoe.server.privacy import Accountant
from eunoe.system.machine import WITHOUT_AMX, bf16_crashes
from eunoe.text import fill_template

# Test samples that are drawn for all clients together; their rows and owners take 16 bytes each.
MOST_PERSONAL = 100_000_000


class Setup:
    """What rules see: a configuration, and the simulation that was built from it."""

    def __init__(self, config: Config, simulation: Simulation) -> None:
        self.config, self.simulation = config, simulation
        self.method, self.context = simulation.method, simulation.context
        self.federation = simulation.federation
        self.shift, self.robust = self.federation.shift, self.context.aggregation.needs_all

    def has(self, option: str) -> bool:
        """Return whether an option is set, or has a value or component ("stream 'domain'", "x.y = 'z'")."""
        key, _, name = option.partition(" ")
        value = attrgetter(key)(self.config)
        if key == "probes":
            return value not in (STANDARD_PROBES, ())
        if name:
            values = value if isinstance(value, tuple) else (value,)
            return any(repr(getattr(each, "name", each)) == name.removeprefix("= ") for each in values)
        return bool(value)

    def on_cpu(self, precision: str) -> bool:
        """Return whether clients train on a CPU in this precision."""
        devices = str(self.config.engine.options.get("devices") or self.config.engine.device)
        return self.config.training.precision == precision and devices.startswith("cpu")

    @cached_property
    def accountant(self) -> Accountant | None:
        """What computes the epsilon of rounds; None without privacy or its noise."""
        context = self.context
        if context.privacy is None:
            return None
        schedule = self.simulation.participation
        return context.privacy.accountant(context.data.clients, context.participants, schedule)

    def values(self) -> Mapping[str, Any]:
        """Return the values of a message's placeholders."""
        named = ("method", "loss", "aggregation", "server_optimizer")
        return {
            **{key: repr(getattr(self.config, key).name) for key in named},
            "precision": repr(self.config.training.precision),
            "task": self.federation.task.name,
            "clients": self.context.data.clients,
        }


Condition = Callable[[Setup], Any]


class Rule(NamedTuple):
    """A condition under which options do not go together, and the error message."""

    broken: Condition
    message: str


def unowned_test(setup: Setup) -> bool:
    """Return whether no sample of the test set belongs to a client."""
    return setup.federation.test_owners is None


def unused_loss(setup: Setup) -> bool:
    """Return whether another loss than the default is set for a method that trains no client."""
    default = registry.build("loss", setup.federation.task.loss, {})
    return not setup.method.trains_clients and setup.simulation.loss != default


def unused_weighting(setup: Setup) -> bool:
    """Return whether another weighting than the default is set for a method that trains no client."""
    default = type(setup.method).model_fields["weighting"].default
    return not setup.method.trains_clients and setup.method.weighting != default


def kept_vector(setup: Setup) -> str:
    """Return what a method keeps of every client; empty if sums suffice."""
    kept = [name for name, upload in setup.method.uploads(setup.context).items() if upload.combine == "keep"]
    return "model" if setup.method.keeps_models else (kept[0] if kept else "")


def unclipped(setup: Setup) -> str:
    """Return what a method needs of a client that clipping and noise would change; empty if nothing."""
    uploads = [
        name
        for name, upload in setup.method.uploads(setup.context).items()
        if upload.combine not in ("sum", "uniform") or upload.lowest is not None or upload.highest is not None
    ]
    exact = uploads and setup.method.weighting == "uniform"
    if setup.method.keeps_models or not setup.method.takes_aggregation or exact:
        return f"the upload {uploads[0]!r}" if uploads else "what clients send"
    return ""


def impossible_probe(setup: Setup) -> str:
    """Return a probe whose data are missing, and which; the standard probes measure what they can."""
    for probe in setup.config.probes:
        if probe not in STANDARD_PROBES and not probe_metric(probe)[1].possible(setup.federation):
            return f"{probe.metric!r} needs a {'public' if probe.metric == 'probability' else 'test'} set"
    return ""


def expanded(setup: Setup) -> float | None:
    """Return the share of parameters that compression sends if that makes updates larger."""
    compression, model = setup.config.compress, setup.context.model
    if compression is None or compression.sends_all:
        return None
    size = part_bytes(compression, model.parameters, model.dtype)
    return compression.share if size >= model.parameters * model.dtype.itemsize else None


def absent_clients(setup: Setup) -> str:
    """Return the name of a stream that keeps clients away; empty if there is none."""
    names = (section.name for section in setup.config.stream)
    return next((name for name in names if name in ("arrival", "classes")), "")


def too_few_samples(setup: Setup) -> str:
    """Return how many samples a client has above `secure_aggregation.max_samples`; empty if none."""
    if setup.simulation.secure is None:
        return ""
    most, largest = setup.simulation.secure.fixed_point.max_samples, int(setup.federation.sizes.max())
    return f"{most} is too small: a client has {largest} samples" if largest > most else ""


def personal_samples(setup: Setup) -> int:
    """Return how many samples `evaluation.personal` draws if they are too many; else 0."""
    total = setup.config.evaluation.personal * len(setup.federation)
    return total if total > MOST_PERSONAL else 0


def single_sample(setup: Setup) -> bool:
    """Return whether batch normalization would see a batch of one sample."""
    training, federation = setup.context.training, setup.federation
    alone = training.batch_size == 1 or int(federation.sizes.min()) == 1
    first = torch.zeros(1, dtype=torch.int64)
    return alone and not setup.simulation.model.trains_on(federation.inputs("clients", first))


def first_epsilon(setup: Setup) -> str:
    """Return what one round spends if the privacy budget allows none."""
    accountant = setup.accountant
    if accountant is None or accountant.affordable(setup.config.rounds):
        return ""
    return f"{accountant.epsilon(1):.3g}, above the budget of {accountant.privacy.epsilon:g}"


# By the names in compatibility.toml; those at the end are of what several options exclude.
CONDITIONS: dict[str, Condition] = {
    "single_class": lambda s: s.config.training.single_class != "train",
    "matrix_on_test": lambda s: any(probe.data == "test" for probe in s.config.probes),
    "shifted_features": lambda s: s.shift and s.federation.data.backbone,
    "shifted_structure": lambda s: s.shift and s.context.data.structured,
    "shifted_integers": lambda s: s.shift and s.context.data.integers,
    "empty_clients": lambda s: int((s.federation.sizes == 0).sum()),
    "single_sample": single_sample,
    "no_changes": lambda s: s.federation.changes is None,
    "no_clients": lambda s: not s.method.trains_clients,
    "unused_loss": unused_loss,
    "unused_weighting": unused_weighting,
    "no_global_model": lambda s: not s.method.aggregates,
    "newest_only": lambda s: s.method.keeps_models or not s.method.takes_stale,
    "whole_models": lambda s: s.method.keeps_models or not s.method.takes_private,
    "no_private": lambda s: not s.has("private"),
    "own_vectors": lambda s: s.method.uploads(s.context) or s.method.client_state(s.context),
    "no_tested_model": lambda s: not s.method.aggregates and s.config.stop.test_target and unowned_test(s),
    "no_uploads": lambda s: not s.method.uploads(s.context),
    "unused_optimizer": lambda s: not s.method.takes_server_optimizer and s.context.server_optimizer != SGD(),
    "unprotected_uploads": lambda s: s.robust and (s.method.keeps_models or not s.method.takes_aggregation),
    "unprotected_means": lambda s: s.robust and s.context.server_optimizer.derived(),
    "double_autocast": lambda s: "float32" not in (s.config.training.precision, s.config.model.dtype),
    "fp16_on_cpu": lambda s: s.on_cpu("fp16"),
    "bf16_crashes": lambda s: s.on_cpu("bf16") and bf16_crashes(),
    "impossible_probe": impossible_probe,
    "no_test_set": lambda s: not len(s.federation.data.test),
    "personal_samples": personal_samples,
    "kept_vector": kept_vector,
    "unclipped": unclipped,
    "expanded": expanded,
    "absent_clients": absent_clients,
    "drifting_sizes": lambda s: (
        s.config.secure_aggregation
        and s.has("stream 'label_drift'")
        and not s.has("secure_aggregation.max_samples")
    ),
    "too_few_samples": too_few_samples,
    "weighted": lambda s: s.method.weighting != "uniform",
    "large_delta": lambda s: s.config.privacy and s.config.privacy.delta * s.context.data.clients >= 1,
    "first_epsilon": first_epsilon,
    "aggregation={aggregation}": lambda s: s.robust,
    "server_optimizer={server_optimizer} (or its gma)": lambda s: s.context.server_optimizer.derived(),
    "batch normalization": lambda s: s.context.model.float_buffers or s.context.model.int_buffers,
}


def make_rules(entry: Mapping[str, Any]) -> Iterator[Rule]:
    """Yield the rules of an entry of compatibility.toml."""
    when = CONDITIONS[entry["when"]] if "when" in entry else None
    if when and "message" in entry:
        yield Rule(when, entry["message"])
    need, excluded = entry.get("requires", ""), entry.get("excludes", {})
    for option in entry.get("options", ()):
        is_set: Condition = partial(Setup.has, option=option)
        if need == "classification":
            message = f"{option} requires classification, and the data are for {{task}}: leave it out"
            yield Rule(_both(lambda s: s.federation.task.name != need, when or is_set), message)
        elif need and when:
            yield Rule(_both(is_set, when), f"{option} requires {need}")
        for other, reason in excluded.items():
            condition = when or CONDITIONS.get(other) or partial(Setup.has, option=other)
            yield Rule(_both(is_set, condition), f"{option} cannot be combined with {other}: {reason}")


def _both(first: Condition, second: Condition) -> Condition:
    return lambda setup: first(setup) and second(setup)


_VALUES = {"most_personal": MOST_PERSONAL, "without_amx": WITHOUT_AMX}
_ENTRIES = tomllib.loads(fill_template("eunoe.simulation", "compatibility.toml", _VALUES))["rule"]
RULES: list[Rule] = [rule for entry in _ENTRIES for rule in make_rules(entry)]


def check_compatibility(config: Config, simulation: Simulation) -> list[str]:
    """Raise InputError if options do not go together; return warnings to show before round 1."""
    setup, context, task = Setup(config, simulation), simulation.context, simulation.federation.task
    check_task(simulation.loss, task, "loss", config.loss.name)
    check_task(simulation.method, task, "method", config.method.name)
    for rule in RULES:
        if value := rule.broken(setup):
            raise InputError(rule.message.format(**setup.values(), value=value))
    if setup.robust:
        for participants in config.participant_range(context.data.clients):
            context.aggregation.check(participants)
    if config.attack is not None:
        bad_clients(config.attack, context.data.clients, context.seed)
    check_metrics(config.metrics, config.probes, task)
    return [*simulation.method.check(context), *context.server_optimizer.check(), *_warnings(setup)]


def check_targets(config: Config, federation: Federation) -> None:
    """Raise InputError for a stopping target on an accuracy that will not be measured."""
    if not len(federation.pooled("validation")[0]):
        if config.stop.target is not None:
            raise InputError("stop.target requires validation data: set split.validation or stop.test_target")
        if config.stop.patience is not None:
            raise InputError("stop.patience requires validation data: set split.validation")
    if config.stop.test_target is not None and not len(federation.data.test.y):
        raise InputError("stop.test_target is a test accuracy and there is no test set: set stop.target")


def _warnings(setup: Setup) -> Iterator[str]:
    """Yield warnings about combinations that work but may surprise."""
    config, federation = setup.config, setup.federation
    no_test = unowned_test(setup) and not len(federation.pooled("test")[0])
    if not setup.method.aggregates and config.evaluation.test and no_test:
        yield "no client has test samples of its own: set split.test here and in the run to compare with"
    if alone := _single_class_clients(setup):
        yield (
            f"{alone} of {len(federation)} clients have one class only, from which this loss learns nothing: "
            "weight decay shrinks their models; set training.single_class to 'no_decay' or 'skip'"
        )
    if setup.has("secure_aggregation"):
        yield (
            "secure_aggregation: the server sees no client's model, so only round forgetting and clients' "
            "own measurements are recorded, and no single update is checked"
        )
    if config.privacy is None:
        return
    if setup.accountant is None:
        yield "privacy: noise = 0 guarantees nothing"
        return
    if (affordable := setup.accountant.affordable(config.rounds)) < config.rounds:
        yield f"privacy: the budget ends the run after round {affordable} of {config.rounds}"
    if parts := [part for part in ("validation", "test") if len(federation.pooled(part)[0])]:
        names = " and ".join(parts)
        yield f"privacy: metrics on the clients' {names} parts have no noise and lie outside the guarantee"


def _single_class_clients(setup: Setup) -> int:
    """Return how many clients' training can only shrink the model."""
    training = setup.context.training
    if not (training.weight_decay and training.single_class == "train"):
        return 0
    alone = np.flatnonzero((setup.federation.all_counts() > 0).sum(1) == 1)
    if not len(alone):
        return 0
    counts = ClientData(setup.simulation, int(alone[0])).loss_counts
    return 0 if setup.simulation.loss.learns_from(counts) else len(alone)

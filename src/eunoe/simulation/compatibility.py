"""Which options go together: one table of rules, checked before round 1.

A rule has a condition and a message. What a single component needs (`Method.check`, `Aggregation.check`,
`ServerOptimizer.check`) stands with the component; whether a model fits the data is tried in build.py.
docs/compatibility.md is made from this table.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
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
        return context.privacy.accountant(
            context.data.clients, context.participants, self.simulation.participation
        )

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


def excludes(option: str, other: str, reason: str, when: Condition | None = None) -> Rule:
    """Return the rule that an option cannot be combined with another one, set or as the condition says."""
    when = when or EXCLUDED.get(other) or (lambda setup: setup.has(other))
    message = f"{option} cannot be combined with {other}: {reason}"
    return Rule(lambda setup: setup.has(option) and when(setup), message)


def requires(option: str, need: str, missing: Condition) -> Rule:
    """Return the rule that an option has a requirement."""
    return Rule(lambda setup: setup.has(option) and missing(setup), f"{option} requires {need}")


def needs_classes(option: str, when: Condition | None = None) -> Rule:
    """Return the rule that an option, set or as the condition says, is for classification only."""
    when = when or (lambda setup: setup.has(option))
    message = f"{option} requires classification, and the data are for {{task}}: leave it out"
    return Rule(lambda setup: setup.federation.task.name != "classification" and when(setup), message)


def unowned_test(setup: Setup) -> bool:
    """Return whether no sample of the test set belongs to a client."""
    return setup.federation.test_owners is None


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


# Conditions of what several options exclude, by its name in messages.
EXCLUDED: dict[str, Condition] = {
    "aggregation={aggregation}": lambda s: s.robust,
    "server_optimizer={server_optimizer} (or its gma)": lambda s: s.context.server_optimizer.derived(),
    "batch normalization": lambda s: s.context.model.float_buffers or s.context.model.int_buffers,
}
# Options that change what clients send.
OF_UPDATES = ("attack", "compress", "staleness", "private", "secure_aggregation", "privacy")
# Pairs of options that cannot be combined, and why.
PAIRS: dict[str, dict[str, str]] = {
    "attack 'label_flip'": {"stream 'label_drift'": "flipped labels would drift to other clients"},
    "compress": {
        "secure_aggregation": "sums have an entry for every parameter",
        "aggregation={aggregation}": "it compares changes entry by entry, most of which would be 0",
        "server_optimizer={server_optimizer} (or its gma)": "it needs signs or norms of whole changes",
    },
    "private": {
        "compress": "it would send the private part's entries too",
        "secure_aggregation": "sums have an entry for every parameter",
        "privacy": "noise would be added to what nobody sends",
        "attack 'noise'": "it would add noise to what nobody sends",
        "probes": "they need every client's whole model; set probes = []",
    },
    "secure_aggregation": {
        "training.single_class = 'skip'": "it reveals who has one class only; set 'train' or 'no_decay'",
        "probes": "they need every client's model; set probes = []",
    },
    "privacy": {
        "server_optimizer={server_optimizer} (or its gma)": "it needs means without clipping",
        "stream": "epsilon is computed for samples of all clients, and a stream keeps some away",
        "batch normalization": "noise would make variances negative; use GroupNorm, LayerNorm or none",
        "probes": "they need every client's model; set probes = []",
    },
}

# In the order in which they are checked: a later rule may rely on an earlier one.
RULES: list[Rule] = [
    # The task of the data.
    needs_classes("attack 'label_flip'"),
    needs_classes("replay"),
    needs_classes("evaluation.personal"),
    needs_classes("model.classifier 'etf'"),
    needs_classes("training.single_class", lambda s: s.config.training.single_class != "train"),
    needs_classes("a client_matrix on test data", lambda s: any(p.data == "test" for p in s.config.probes)),
    # Data.
    Rule(
        lambda s: s.shift and s.federation.data.backbone,
        "shift cannot be combined with backbone: features are computed once for all clients",
    ),
    Rule(
        lambda s: s.shift and s.context.data.structured,
        "shift supports single-tensor inputs of fixed length only",
    ),
    Rule(
        lambda s: s.shift and s.context.data.integers,
        "shift supports real-valued inputs only, not integers such as token ids",
    ),
    Rule(
        lambda s: int((s.federation.sizes == 0).sum()),
        "{value} clients have no training sample; use fewer clients or another partition",
    ),
    Rule(
        single_sample,
        "batch normalization cannot train on a single sample: use larger batches or clients, or GroupNorm",
    ),
    *(
        requires(
            option, "a stream: label counts do not change without one", lambda s: s.federation.changes is None
        )
        for option in ("stale_counts", "training.label_counts = 'seen'")
    ),
    # Methods that train no client, or have no global model.
    Rule(
        lambda s: (
            not s.method.trains_clients
            and s.simulation.loss != registry.build("loss", s.federation.task.loss, {})
        ),
        "loss has no effect with method={method}, which trains no client: leave it out",
    ),
    Rule(
        lambda s: (
            not s.method.trains_clients
            and s.method.weighting != type(s.method).model_fields["weighting"].default
        ),
        "weighting has no effect with method={method}, which trains no client: leave it out",
    ),
    *(
        excludes(option, "method={method}", "it trains no client", lambda s: not s.method.trains_clients)
        for option in ("stream", "replay", *OF_UPDATES)
    ),
    *(
        excludes(option, "method={method}", "it has no global model", lambda s: not s.method.aggregates)
        for option in ("averaging", "probes", *OF_UPDATES)
    ),
    excludes(
        "staleness",
        "method={method}",
        "it needs what clients trained, or sent last, in terms of the newest model",
        lambda s: s.method.keeps_models or not s.method.takes_stale,
    ),
    excludes(
        "private",
        "method={method}",
        "it needs whole models, or changes how the private part is trained",
        lambda s: s.method.keeps_models or not s.method.takes_private,
    ),
    requires("training.head_epochs", "private", lambda s: not s.has("private")),
    excludes(
        "training.head_epochs",
        "method={method}",
        "all of its steps must train the whole model",
        lambda s: s.method.uploads(s.context) or s.method.client_state(s.context),
    ),
    excludes(
        "stream 'domain'",
        "method={method}",
        "it selects by accuracies that a growing shift changes",
        lambda s: not s.method.aggregates,
    ),
    Rule(
        lambda s: not s.method.aggregates and s.config.stop.test_target is not None and unowned_test(s),
        "stop.test_target cannot be combined with method={method}: it has no global model; set stop.target",
    ),
    excludes(
        "attack 'upload_lie'",
        "method={method}",
        "its clients send nothing but weights",
        lambda s: not s.method.uploads(s.context),
    ),
    # The server's step.
    Rule(
        lambda s: not s.method.takes_server_optimizer and s.context.server_optimizer != SGD(),
        "server_optimizer cannot be combined with method={method}: it computes the new weights itself",
    ),
    Rule(
        lambda s: s.robust and (s.method.keeps_models or not s.method.takes_aggregation),
        "aggregation={aggregation} cannot be combined with method={method}, whose uploads it cannot protect",
    ),
    Rule(
        lambda s: s.robust and s.context.server_optimizer.derived(),
        "aggregation={aggregation} cannot be combined with server_optimizer={server_optimizer} (or its gma): "
        "it does not protect the further means that the optimizer needs",
    ),
    # Precision.
    Rule(
        lambda s: s.config.training.precision != "float32" and s.config.model.dtype != "float32",
        "training.precision={precision} requires model.dtype = 'float32'",
    ),
    Rule(lambda s: s.on_cpu("fp16"), "training.precision='fp16' requires a GPU; 'bf16' works on a CPU too"),
    Rule(
        lambda s: s.on_cpu("bf16") and bf16_crashes(),
        "training.precision='bf16' would end in an illegal instruction: this processor announces AMX units "
        f"and does not run them; set {WITHOUT_AMX} in the environment",
    ),
    excludes(
        "training.precision = 'fp16'",
        "engine 'vectorized'",
        "each client needs a loss scale of its own; use engine 'serial' or precision 'bf16'",
    ),
    # Evaluation.
    Rule(impossible_probe, "probe {value} and there is none: leave it out"),
    requires("evaluation.personal", "a test set: leave it out", lambda s: not len(s.federation.data.test)),
    Rule(
        personal_samples,
        f"evaluation.personal: {{value}} samples, and at most {MOST_PERSONAL} can be evaluated",
    ),
    # Compression, secure aggregation and privacy.
    excludes("secure_aggregation", "method={method}", "it needs every client's {value}", kept_vector),
    excludes("privacy", "method={method}", "it needs {value} without clipping and noise", unclipped),
    *(
        requires(option, "aggregation='mean', not {aggregation}", lambda s: s.robust)
        for option in ("secure_aggregation", "privacy")
    ),
    *(excludes(option, other, why) for option, others in PAIRS.items() for other, why in others.items()),
    Rule(
        expanded, "compress.share={value} makes updates larger, with their indices: lower it, or set it to 1"
    ),
    excludes(
        "secure_aggregation",
        "stream '{value}'",
        "it keeps clients away, and a round with fewer clients than the threshold ends the run",
        lambda s: next((each.name for each in s.config.stream if each.name in ("arrival", "classes")), ""),
    ),
    Rule(
        lambda s: (
            s.config.secure_aggregation
            and s.has("stream 'label_drift'")
            and not s.has("secure_aggregation.max_samples")
        ),
        "stream 'label_drift' changes how many samples clients have: set secure_aggregation.max_samples to "
        "more than any client ever has",
    ),
    Rule(too_few_samples, "secure_aggregation.max_samples={value}"),
    requires("privacy", "method.weighting = 'uniform'", lambda s: s.method.weighting != "uniform"),
    Rule(
        lambda s: s.config.privacy is not None and s.config.privacy.delta * s.context.data.clients >= 1,
        "privacy.delta must be below 1 / clients, here 1 / {clients}; above it a client is not protected",
    ),
    Rule(
        first_epsilon,
        "privacy: one round spends epsilon = {value}: raise noise, lower participation or raise epsilon",
    ),
]


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

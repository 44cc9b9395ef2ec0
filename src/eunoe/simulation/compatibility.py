"""What does not fit a run, or would do nothing in it, is refused before round 1."""

from eunoe.config.options import STANDARD_PROBES
from eunoe.config.schema import Config
from eunoe.core.compression import part_bytes
from eunoe.engines.attacks import bad_clients
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.metrics.named import probe_metric
from eunoe.system.machine import WITHOUT_AMX, bf16_crashes

# Test samples that are drawn for all clients together; their rows and owners take 16 bytes each.
MOST_PERSONAL = 100_000_000


def refuse(config: Config, simulation: Simulation) -> None:
    """Raise InputError if options do not go together."""
    check_aggregation(config, simulation)
    check_attack(simulation)
    check_stream(config, simulation)
    check_precision(config)
    check_compression(config, simulation)
    check_effects(config, simulation)


def check_aggregation(config: Config, simulation: Simulation) -> None:
    """Refuse an aggregation that cannot protect this run."""
    context, aggregation = simulation.context, simulation.context.aggregation
    if not aggregation.needs_all:
        return
    if not simulation.method.takes_aggregation:
        raise InputError(
            f"method {config.method.name!r} uses what clients send in ways that aggregation "
            f"{config.aggregation.name!r} cannot protect: leave aggregation out"
        )
    if context.server_optimizer.derived():
        raise InputError(
            f"server_optimizer {config.server_optimizer.name!r} (or its gma) needs means over all clients, "
            f"which aggregation {config.aggregation.name!r} does not protect: leave one of them out"
        )
    aggregation.check(context.participants)


def check_own_models(config: Config, simulation: Simulation) -> list[str]:
    """Refuse what needs a global model where each client keeps its own; return warnings."""
    if simulation.method.aggregates:
        return []
    name, evaluation, federation = config.method.name, config.evaluation, simulation.federation
    wanted = {
        "averaging": config.averaging is not None,
        "attack": config.attack is not None,
        "secure_aggregation": config.secure_aggregation is not None,
        "probes": config.probes not in (STANDARD_PROBES, ()),
    }
    for option in (option for option, found in wanted.items() if found):
        raise InputError(f"method {name!r} has no global model, which {option} is about: leave it out")
    if config.stop.test_target is not None and federation.test_owners is None:
        raise InputError(
            f"stop.test_target is an accuracy on the test set, which is no client's own, and method {name!r} "
            "has no global model: name stop.target"
        )
    if evaluation.test and federation.test_owners is None and not len(federation.pooled("test")[0]):
        return [
            "no client has a test part to be compared on: set split.test, for example to 0.2, here and in "
            "the run to compare with"
        ]
    return []


def check_stream(config: Config, simulation: Simulation) -> None:
    """Refuse a stream or a memory of clients that do not train, and a stream that does not fit the rest."""
    names = [section.name for section in config.stream]
    if "label_drift" in names and config.attack is not None and config.attack.name == "label_flip":
        raise InputError("attack: flipped labels would drift to other clients; name another attack or stream")
    if "domain" in names and not simulation.method.aggregates:
        raise InputError(
            f"stream: method {config.method.name!r} selects by accuracies that a growing shift changes; "
            "name another stream"
        )
    if config.stream and config.privacy is not None:
        raise InputError(
            "stream: what privacy spends is counted for samples of all clients, and a stream keeps some "
            "away; leave one of them out"
        )
    if not simulation.method.trains_clients:
        for key, wanted in (("stream", config.stream), ("replay", config.replay)):
            if wanted:
                raise InputError(f"{key}: method {config.method.name!r} trains no client; leave it out")


def check_precision(config: Config) -> None:
    """Refuse a precision that the devices of a run do not have, or that its weights exceed."""
    precision, engine = config.training.precision, config.engine
    if precision == "float32":
        return
    if config.model.dtype != "float32":
        raise InputError(f"training.precision = {precision!r} goes with model.dtype = 'float32'")
    devices = str(engine.options.get("devices") or engine.device)
    if precision == "fp16" and devices.startswith("cpu"):
        raise InputError("training.precision = 'fp16' needs a GPU; 'bf16' works on a CPU too")
    if precision == "bf16" and devices.startswith("cpu") and bf16_crashes():
        raise InputError(
            "training.precision = 'bf16' would end in an illegal instruction: this processor announces AMX "
            f"units and does not run them; set {WITHOUT_AMX} in the environment"
        )
    if precision == "fp16" and engine.name == "vectorized":
        raise InputError("fp16 needs a loss scale for each client: use engine 'serial', or precision 'bf16'")


def check_attack(simulation: Simulation) -> None:
    """Refuse an attack without bad clients, and one that changes nothing."""
    attack, context = simulation.attack, simulation.context
    if attack is None:
        return
    if not simulation.method.trains_clients:
        raise InputError("attack: this method trains no client that could be bad: leave it out")
    bad_clients(attack, context.clients, context.seed)
    if attack.name == "upload_lie" and not simulation.method.uploads(context):
        raise InputError("attack: this method's clients send nothing but weights to lie about: name another")


def check_compression(config: Config, simulation: Simulation) -> None:
    """Refuse smaller updates where nothing is sent, where they are larger, or where all must be sent."""
    compression, context = config.compress, simulation.context
    if compression is None:
        return
    if not (simulation.method.trains_clients and simulation.method.aggregates):
        raise InputError(f"compress: method {config.method.name!r} sends no update: leave it out")
    if config.secure_aggregation is not None:
        raise InputError(
            "compress: sums under secure_aggregation have an entry for every parameter of every client: "
            "leave one of them out"
        )
    if context.aggregation.needs_all:
        raise InputError(
            f"compress: aggregation {config.aggregation.name!r} compares changes entry by entry, most of "
            "which would be 0: leave one of them out"
        )
    if context.server_optimizer.derived():
        raise InputError(
            f"compress: server_optimizer {config.server_optimizer.name!r} (or its gma) counts signs or norms "
            "of whole changes: leave one of them out"
        )
    whole = context.parameters * context.dtype.itemsize
    size = part_bytes(compression, context.parameters, context.dtype)
    if not compression.sends_all and size >= whole:
        raise InputError(
            f"compress.share = {compression.share:g} makes {size} bytes with its indices, and the whole has "
            f"{whole}: lower it, or set it to 1"
        )


def check_effects(config: Config, simulation: Simulation) -> None:
    """Refuse options that would do nothing, and one that would fail in the last round."""
    method, federation = simulation.method, simulation.federation
    if not method.trains_clients and method.weighting != type(method).model_fields["weighting"].default:
        raise InputError(
            f"method {config.method.name!r} trains no client, so weighting has no effect: leave it out"
        )
    for probe in config.probes:
        # The standard probes measure what they can; one that was asked for must be possible.
        if probe not in STANDARD_PROBES and not probe_metric(probe)[1].possible(federation):
            needed = "a public set" if probe.metric == "probability" else "a test set"
            raise InputError(f"probe {probe.metric!r} needs {needed} and there is none: leave it out")
    if samples := config.evaluation.personal:
        if not len(federation.data.test):
            raise InputError("evaluation.personal draws from the test set and there is none: leave it out")
        if (rows := samples * len(federation)) > MOST_PERSONAL:
            raise InputError(
                f"evaluation.personal: {samples} samples for each of {len(federation)} clients are {rows}; "
                f"at most {MOST_PERSONAL} can be evaluated"
            )

"""Builds the simulation of a configuration: data, model and components."""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eunoe.config import registry
from eunoe.config.options import Named, Participation
from eunoe.config.schema import Config
from eunoe.core.fields import Fields, Input, describe_input, leaves
from eunoe.core.flat_model import FlatModel, load_state
from eunoe.core.rng import global_stream
from eunoe.core.tasks import Task
from eunoe.data.federation import Federation
from eunoe.data.partitions.base import Division
from eunoe.data.samples import DataSet
from eunoe.data.transforms import augment_batch
from eunoe.engines.attacks import flip_labels
from eunoe.engines.devices import usable_device
from eunoe.engines.memory import MemoryOptions
from eunoe.engines.private import PrivatePart
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError, first_line
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.methods.context import DataInfo, ModelInfo, RoundContext
from eunoe.models.base import Classifier
from eunoe.models.classifiers import add_head, fix_classifier, remove_bias
from eunoe.server.optimizers import ServerOptimizer
from eunoe.server.privacy import ClientPrivacy
from eunoe.server.robust import Aggregation
from eunoe.server.secure_sum import SecureSums, make_fixed_point
from eunoe.server.trainer import ServerTrainer
from eunoe.simulation.compatibility import check_compatibility
from eunoe.simulation.streams import apply_stream


@dataclass(frozen=True)
class UserObjects:
    """User-provided objects, passed instead of a name in the config."""

    federation: Federation | None = None
    model: nn.Module | None = None
    method: Method | None = None
    loss: Loss | None = None
    server_optimizer: ServerOptimizer | None = None


def assemble(config: Config, objects: UserObjects | None = None) -> tuple[Simulation, list[str]]:
    """Build and check the simulation of a configuration; also return warnings to show before round 1."""
    simulation = build_simulation(config, objects or UserObjects())
    return simulation, check_compatibility(config, simulation)


def build_simulation(config: Config, objects: UserObjects) -> Simulation:
    """Build the simulation of a configuration without the checks that need a whole federation."""
    federation = _prepare_federation(config, objects)
    model = build_model(config, federation, objects.model)
    chunk = config.evaluation.chunk
    if federation.task.name == "language_model":
        chunk = max(1, chunk // federation.form.numbers)
    context = RoundContext(
        data=DataInfo.of(federation, config.augment.active),
        model=ModelInfo.of(model),
        training=config.training,
        server_optimizer=objects.server_optimizer
        or _build("server_optimizer", config.server_optimizer, ServerOptimizer),
        seed=config.seed,
        participants=config.participants(len(federation)),
        aggregation=_build("aggregation", config.aggregation, Aggregation),
        privacy=None if config.privacy is None else ClientPrivacy(config.privacy),
        trainer=ServerTrainer(federation, model, config.seed, config.augment, chunk),
    )
    simulation = Simulation(
        federation=federation,
        model=model,
        loss=objects.loss or _build("loss", loss_section(config, federation.task), Loss),
        method=objects.method or build_method(config),
        context=context,
        augment=config.augment,
        evaluation_chunk=chunk,
        averaging=config.averaging,
        attack=config.attack,
        compression=config.compress,
        participation=config.participation if isinstance(config.participation, Participation) else None,
        private=None if config.private is None else PrivatePart.of(model, config.private),
        staleness=config.staleness if config.staleness and config.staleness.max else None,
        memory=MemoryOptions(
            replay=0 if config.replay is None else config.replay.memory,
            stale_counts=config.stale_counts,
            seen_labels=config.training.label_counts == "seen",
        ),
    )
    return replace(simulation, secure=_build_secure_sums(config, simulation))


def _prepare_federation(config: Config, objects: UserObjects) -> Federation:
    """Return the federation with the type, labels, preprocessing and streams of the configuration."""
    dtype = getattr(torch, config.model.dtype)
    federation = build_federation(config) if objects.federation is None else objects.federation
    if federation.dtype != dtype:
        federation = replace(federation, dtype=dtype)
    if config.attack is not None and config.attack.name == "label_flip":
        federation = flip_labels(federation, config.attack, config.seed)
    if (own := config.preprocessing) is not None:
        federation = replace(federation, data=replace(federation.data, mean=own.mean, std=own.std))
    partition = None if objects.federation else _build("partition", config.partition, Callable)
    references = {**federation.references, **_load_references(config, federation.data)}
    federation = replace(federation, references=references)
    return apply_stream(config, federation, partition)


def _load_references(config: Config, data: DataSet) -> dict[str, DataSet]:
    """Load the reference sets; raise InputError if the model cannot be evaluated on one."""
    loaded = {each.name: load_data(each.data, config.backbone) for each in config.retain}
    for name, other in loaded.items():
        ours, theirs = data.class_names, other.class_names
        facts = {
            "another task": (data.task.name, other.task.name),
            "other classes": (data.classes, other.classes),
            "other names of classes": (ours or theirs, theirs or ours),
            "other inputs": (describe_input(data.train.x), describe_input(other.train.x)),
            "another vocabulary or encoding": (_encoding(data), _encoding(other)),
        }
        for what, (wanted, found) in facts.items():
            if wanted != found:
                detail = f": {found} instead of {wanted}" if len(f"{found}{wanted}") < 100 else ""
                raise InputError(f"retain {name!r} has {what} than the clients' data{detail}")
        if not len(other.test):
            raise InputError(f"retain {name!r} has no test part: it is what is evaluated")
    return loaded


def _encoding(data: DataSet) -> dict[str, Any]:
    """Return how a table or text was encoded, but not which column it was."""
    return {key: value for key, value in (data.encoding or {}).items() if key != "column"}


def _build_secure_sums(config: Config, simulation: Simulation) -> SecureSums | None:
    options, context = config.secure_aggregation, simulation.context
    if options is None:
        return None
    aggregate = simulation.method.empty_aggregate(simulation.model.weights, context)
    max_samples = options.max_samples or int(simulation.federation.sizes.max())
    # Without a stream there are no earlier samples.
    memory = simulation.memory.replay if config.stream else 0
    for participants in config.participant_range(len(simulation.federation)):
        options.least(participants)
    return SecureSums(
        make_fixed_point(options, aggregate, context.training, context.participants, max_samples, memory),
        options.least(context.participants),
        simulation.model.variances,
        options,
    )


def loss_section(config: Config, task: Task) -> Named:
    """Return the loss of a configuration; the default 'ce' stands for the plain loss of the task."""
    return Named(name=task.loss) if config.loss == Config.model_fields["loss"].default else config.loss


def build_method(config: Config) -> Method:
    """Build the method of a configuration."""
    return _build("method", config.method, Method)


def load_data(named: Named, backbone: Named | None = None) -> DataSet:
    """Load the data set of a config section: a built-in name, a path or `hf:owner/name`; or its features."""
    from eunoe.data.loading import load

    key = repr((named, backbone))
    if _shared is not None and key in _shared:
        return _shared[key]
    data = load(named.name, **named.options)
    data = data if backbone is None else features_of(data, backbone)
    if _shared is not None:
        _shared[key] = data
    return data


# The data sets that were loaded in a block of `sharing_data`.
_shared: dict[str, DataSet] | None = None


@contextmanager
def sharing_data() -> Iterator[None]:
    """Load each data set once for all simulations that are built in the block."""
    global _shared
    before, _shared = _shared, {} if _shared is None else _shared
    try:
        yield
    finally:
        _shared = before


def features_of(data: DataSet, backbone: Named) -> DataSet:
    """Return the data set with the features of a config's backbone as inputs."""
    from eunoe.data.backbone import build_backbone, encode_data

    # Random weights of an encoder are the same for every seed.
    with global_stream(torch.device("cpu"), 0, "backbone"):
        module, about = build_backbone(backbone.name, backbone.options)
    return encode_data(data, module, about)


def build_federation(config: Config, partition: Callable[..., Division] | None = None) -> Federation:
    """Load the data and partition them, by the configuration's partition or another."""
    public = config.public
    _refuse_user_object("federation", config.data)
    return Federation.build(
        load_data(config.data, config.backbone),
        partition or _build("partition", config.partition, Callable),
        seed=config.seed,
        split=config.split,
        public=public,
        public_data=None if public.data is None else load_data(public.data, config.backbone),
        shift=config.shift,
        dtype=getattr(torch, config.model.dtype),
    )


def build_model(config: Config, federation: Federation, own: nn.Module | None) -> FlatModel:
    """Build the initial model and try it on a client's inputs."""
    section, device = config.model, usable_device(config.engine.device, "engine.device")
    form = federation.form
    if own is None and form.has_fields:
        check_takes_fields(section.name, form.shapes)
    if own is None and section.name == "hf":
        check_token_ids(federation.data, section.options.get("random", False))
    shape = dict(form.shapes) if form.has_fields else form.shape
    causal = section.head == "causal_lm"
    if causal != (section.name == "hf" and federation.task.name == "language_model"):
        raise InputError(
            "a language model of transformers needs data with task = 'language_model', model.name = 'hf' and "
            "model.head = 'causal_lm'"
        )
    supplied: dict[str, Any] = {"shape": shape, "classes": federation.classes, "causal_lm": causal}
    if federation.data.vocabulary is not None:
        supplied["vocabulary"] = federation.data.vocabulary
    with global_stream(torch.device("cpu"), config.seed, "model start"):
        # A copy: the user's module is left unchanged and may start another run.
        module = _build("model", section, nn.Module, **supplied) if own is None else copy.deepcopy(own)
        if section.head is True:
            module = add_head(module, federation.classes)
        if not section.classifier_bias:
            remove_bias(module)
        if section.classifier != "trained":
            fix_classifier(module, section.classifier, federation.classes)
    if section.start_from is not None:
        load_state(module, Path(section.start_from), section.partial)
    model = FlatModel(module, federation.dtype, device, PRECISIONS[config.training.precision])
    try_model(model, federation, config)
    return model


PRECISIONS = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def try_model(model: FlatModel, federation: Federation, config: Config) -> None:
    """Raise InputError if a model cannot take the inputs or has the wrong number of outputs."""
    name, form = config.model.name, federation.form
    # The inputs of client 0; compatibility.py refuses to shift these.
    unshifted = form.has_fields or form.ragged or federation.preprocess.integers
    x = federation.inputs("clients", torch.zeros(2, dtype=torch.int64), None if unshifted else 0)
    x = augment_batch(x, config.augment, torch.Generator(), federation.preprocess.black).to(model.device)
    _check_arguments(model, x, name)
    what = describe_input(federation.data.train.x) if isinstance(x, Fields) else f"shape {federation.shape}"
    # A module that takes one argument gets a dict or tuple of the fields, which it may not expect.
    unexpected = (TypeError, AttributeError) if isinstance(x, Fields) else ()
    with model.evaluating(), torch.no_grad():
        try:
            logits = model.forward(x)
        except (RuntimeError, ValueError, *unexpected) as error:
            raise InputError(f"model {name!r} cannot take inputs of {what}: {first_line(error)}") from None
    if not isinstance(logits, torch.Tensor):
        kind = type(logits).__name__
        raise InputError(f"model {name!r} must return a tensor or an object with `logits`, not {kind}")
    models = federation.task.name == "language_model"
    length = tuple(federation.data.train.y.shape[1:]) if models else ()
    if tuple(logits.shape[1:]) != (*length, federation.classes):
        use = ": use 'char_gpt', or 'hf' with head = 'causal_lm'" if models else ""
        places = f" at each of {length[0]} places" if models else ""
        raise InputError(
            f"model {name!r} returns outputs of shape {tuple(logits.shape[1:])}, "
            f"but the data have {federation.classes} {federation.task.outputs}{places}{use}"
        )
    model.has_features = model.has_features and _has_features(model, x, logits)


def check_takes_fields(name: str, fields: Iterable[str]) -> None:
    """Raise InputError if a named model takes one tensor and samples have several fields."""
    if ":" not in name and name not in registry.names("model"):
        return
    component = registry.find("model", name)
    if isinstance(component, type) and getattr(component, "forward", None) is Classifier.forward:
        names = ", ".join(fields)
        raise InputError(f"model {name!r} takes one tensor, not the fields {names}: use 'hf' or your own")


def check_token_ids(data: DataSet, random: bool) -> None:
    """Raise InputError if inputs of model 'hf' are not token ids of its own tokenizer."""
    encoding = data.encoding or {}
    own_words = encoding.get("kind") == "text" and "tokenizer" not in encoding and not random
    if own_words or leaves(data.train.x)[0].is_floating_point():
        what = "numbers of words in the training part" if own_words else describe_input(data.train.x)
        raise InputError(f"model 'hf' takes token ids, not {what}: set the data's tokenizer to the model's")


def _check_arguments(model: FlatModel, x: Input, name: str) -> None:
    """Raise InputError if a model's `forward` does not take the fields of samples."""
    if not isinstance(x, Fields):
        return
    args, named = model.arguments_of(x)
    signature = inspect.signature(model.module.forward)
    try:
        signature.bind(*args, **named)
    except TypeError:
        raise InputError(f"model {name!r} takes {signature}, not the fields {', '.join(x.labels)}") from None


def _has_features(model: FlatModel, x: Input, logits: torch.Tensor) -> bool:
    """Return whether the logits are the model's classifier applied to its features."""
    with model.evaluating(), torch.no_grad():
        try:
            return torch.allclose(model.features_at(None, x)[1], logits, equal_nan=True)
        except Exception:
            # A user's `features` and `classifier` may mean anything, and so may fail in any way.
            return False


def _build(kind: str, section: Named, wanted: Any, **supplied: Any) -> Any:
    """Build the named component of a section and check its type."""
    _refuse_user_object(kind, section)
    component = registry.build(kind, section.name, section.options, **supplied)
    if not isinstance(component, wanted):
        name = type(component).__name__
        raise InputError(f"{kind} {section.name!r} returned a {name}; it must return a {wanted.__name__}")
    return component


def is_user_object(section: Named) -> bool:
    """Return whether a section stands for a user-provided object."""
    return section.name.split(":")[0] == "given"


def _refuse_user_object(key: str, section: Named) -> None:
    if is_user_object(section):
        raise InputError(f"this run's {key} was a user-provided object: pass it again as {key}=...")

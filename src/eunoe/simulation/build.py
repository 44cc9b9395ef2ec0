"""Builds the simulation of a configuration and checks that its components fit together."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from eunoe.config import registry
from eunoe.config.schema import Config, Named
from eunoe.core.flat_model import FlatModel, load_state
from eunoe.core.rng import global_stream
from eunoe.core.tasks import Task
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet
from eunoe.engines.attacks import with_flipped_labels
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError, first_line
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.metrics.named import check_metrics
from eunoe.models.classifiers import add_head, fix_classifier, remove_bias
from eunoe.server.optimizers import SGD, ServerOptimizer
from eunoe.server.robust import Aggregation
from eunoe.server.trainer import ServerTrainer
from eunoe.simulation.compatibility import check_own_models, refuse
from eunoe.simulation.model_check import takes_fields, takes_ids, try_model
from eunoe.simulation.privacy import check_privacy
from eunoe.simulation.secure_aggregation import check_secure_aggregation, summed
from eunoe.simulation.streams import streamed
from eunoe.simulation.task_check import refuse_other_tasks

# Arguments that the library passes to a model besides the user's options.
SUPPLIED_TO_MODEL = ("shape", "classes", "vocabulary")


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
    context = simulation.context
    refuse_other_tasks(config, simulation)
    _check_clients(simulation)
    refuse(config, simulation)
    hidden = check_secure_aggregation(config, simulation)
    outside = check_privacy(config, simulation)
    check_metrics(config.metrics, config.probes, simulation.federation.task)
    return simulation, [
        *simulation.method.check(context),
        *check_own_models(config, simulation),
        *context.server_optimizer.check(),
        *_single_classes(simulation),
        *hidden,
        *outside,
    ]


def build_simulation(config: Config, objects: UserObjects) -> Simulation:
    """Build the simulation of a configuration without the checks that only hold for a whole federation."""
    dtype = getattr(torch, config.model.dtype)
    federation = build_federation(config) if objects.federation is None else objects.federation
    if federation.dtype != dtype:
        federation = replace(federation, dtype=dtype)
    if config.attack is not None and config.attack.name == "label_flip":
        federation = with_flipped_labels(federation, config.attack, config.seed)
    if (own := config.preprocessing) is not None:
        federation = replace(federation, data=replace(federation.data, mean=own.mean, std=own.std))
    partition = None if objects.federation else _build("partition", config.partition, Callable)
    federation = streamed(config, federation, partition)
    _check_integers(federation)
    model = build_model(config, federation, objects.model)
    method = objects.method or build_method(config)
    plain = registry.build("loss", federation.task.loss, {})
    loss = objects.loss or _build("loss", loss_section(config, federation.task), Loss)
    step = objects.server_optimizer or _build("server_optimizer", config.server_optimizer, ServerOptimizer)
    if not method.takes_server_optimizer and step != SGD():
        raise InputError(
            f"method {config.method.name!r} computes the new weights itself: leave server_optimizer out"
        )
    if not method.trains_clients and loss != plain:
        raise InputError(
            f"method {config.method.name!r} trains no client, so a loss has no effect: leave loss out"
        )
    context = RoundContext(
        clients=len(federation),
        participants=config.participants(len(federation)),
        classes=federation.classes,
        parameters=model.parameters.numel(),
        float_buffers=model.float_buffers.numel(),
        int_buffers=model.int_buffers.numel(),
        mean_size=float(federation.sizes.mean()),
        training=config.training,
        server_optimizer=step,
        aggregation=_build("aggregation", config.aggregation, Aggregation),
        privacy=config.privacy,
        seed=config.seed,
        dtype=dtype,
        task=federation.task,
        augmented=config.augment.active,
        has_features=model.has_features,
        has_batch_norm=model.has_batch_norm,
        integer_inputs=federation.preprocess.integers,
        structured_inputs=federation.form.has_fields or federation.form.ragged,
        trainer=ServerTrainer(federation, model, config.seed, config.augment, config.evaluation.chunk),
    )
    chunk = config.evaluation.chunk
    simulation = Simulation(
        federation,
        model,
        loss,
        method,
        config.augment,
        context,
        chunk,
        config.averaging,
        config.attack,
        config.replay,
        config.compress,
        config.stale_counts,
    )
    return simulation if config.secure_aggregation is None else summed(config, simulation)


def loss_section(config: Config, task: Task) -> Named:
    """The loss of a configuration: 'ce', the default, stands for the plain loss of the data's task."""
    return Named(name=task.loss) if config.loss == Config.model_fields["loss"].default else config.loss


def build_method(config: Config) -> Method:
    """The method of a configuration."""
    method: Method = _build("method", config.method, Method)
    return method


def load_data(named: Named, backbone: Named | None = None) -> DataSet:
    """Load the data set of a config section: a built-in name, a path or `hf:owner/name`; or its features."""
    from eunoe.data.loading import load

    data = load(named.name, **named.options)
    return data if backbone is None else features_of(data, backbone)


def features_of(data: DataSet, backbone: Named) -> DataSet:
    """The data set with the features of a config's backbone as inputs."""
    from eunoe.data.backbone import build_backbone, encode_data

    # Random weights, where an encoder has some, are the same for every seed.
    with global_stream(torch.device("cpu"), 0, "backbone"):
        module, about = build_backbone(backbone.name, backbone.options)
    return encode_data(data, module, about)


def build_federation(config: Config) -> Federation:
    """Load the data and partition them."""
    public = config.public
    _refuse_user_object("federation", config.data)
    return Federation.build(
        load_data(config.data, config.backbone),
        _build("partition", config.partition, Callable),
        seed=config.seed,
        split=config.split,
        public=public,
        public_data=None if public.data is None else load_data(public.data, config.backbone),
        shift=config.shift,
        dtype=getattr(torch, config.model.dtype),
    )


def build_model(config: Config, federation: Federation, own: nn.Module | None) -> FlatModel:
    """Build the initial model and try it on what a client would train on."""
    section, device = config.model, usable_device(config.engine.device)
    form = federation.form
    if own is None and form.has_fields:
        takes_fields(section.name, form.shapes)
    if own is None and section.name == "hf":
        takes_ids(federation.data, section.options.get("random", False))
    shape = dict(form.shapes) if form.has_fields else form.shape
    supplied: dict[str, Any] = {"shape": shape, "classes": federation.classes}
    if federation.data.vocabulary is not None:
        supplied["vocabulary"] = federation.data.vocabulary
    with global_stream(torch.device("cpu"), config.seed, "model start"):
        # A copy: the user's module is left unchanged and may start another run.
        module = _build("model", section, nn.Module, **supplied) if own is None else copy.deepcopy(own)
        if section.head:
            module = add_head(module, federation.classes)
        if not section.classifier_bias:
            remove_bias(module)
        if section.classifier != "trained":
            fix_classifier(module, section.classifier, federation.classes)
    if section.start_from is not None:
        from pathlib import Path

        load_state(module, Path(section.start_from), section.partial)
    model = FlatModel(module, federation.dtype, device, PRECISIONS[config.training.precision])
    try_model(model, federation, config)
    return model


PRECISIONS = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def usable_device(name: str) -> str:
    """Return the name of a torch device if it can be used on this machine."""
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"engine.device: {name!r} cannot be used: {first_line(error)}") from None
    return name


def check_targets(config: Config, federation: Federation) -> None:
    """Refuse a stopping target on an accuracy that will not be measured."""
    if config.stop.target is not None and not len(federation.pooled("validation")[0]):
        raise InputError(
            "stop.target is a validation accuracy and no client has a validation part: set split.validation "
            "(for example to 0.1), or name a test accuracy as stop.test_target"
        )
    if config.stop.test_target is not None and not len(federation.data.test.y):
        raise InputError("stop.test_target is a test accuracy and there is no test set: name stop.target")


def _check_integers(federation: Federation) -> None:
    """Refuse a change of inputs that only real numbers can have."""
    if federation.shift is not None and federation.data.backbone is not None:
        raise InputError("a backbone's features are computed once for all clients: leave shift out")
    if federation.shift is not None and (federation.form.has_fields or federation.form.ragged):
        raise InputError("shift changes inputs of one tensor and one length, and these are others")
    if federation.shift is not None and federation.preprocess.integers:
        raise InputError("shift changes real numbers, and these inputs are integers (token ids, say)")


def _check_clients(simulation: Simulation) -> None:
    """Refuse clients that cannot train."""
    sizes, training = simulation.federation.sizes, simulation.context.training
    if empty := int((sizes == 0).sum()):
        raise InputError(f"{empty} clients have no training sample; use fewer clients or another partition")
    alone = training.batch_size == 1 or int(sizes.min()) == 1
    first = torch.zeros(1, dtype=torch.int64)
    if alone and not simulation.model.trains_on(simulation.federation.inputs("clients", first)):
        raise InputError(
            "batch normalization cannot train on a single sample: use a larger batch_size, "
            "a partition with larger clients or a model with another normalization"
        )


def _single_classes(simulation: Simulation) -> list[str]:
    """A warning if some clients' training can only shrink the model."""
    training = simulation.context.training
    if not (training.weight_decay and training.single_class == "train"):
        return []
    counts = simulation.federation.all_counts()
    alone = np.flatnonzero((counts > 0).sum(1) == 1)
    if not len(alone) or simulation.loss.learns_from(simulation.loss_counts(int(alone[0]))):
        return []
    return [
        f"{len(alone)} of {len(counts)} clients have one class only, from which this loss learns nothing: "
        "weight decay shrinks their models; set training.single_class to 'no_decay' or 'skip'"
    ]


def _build(kind: str, section: Named, wanted: Any, **supplied: Any) -> Any:
    """Build the named component of a section and check its type."""
    _refuse_user_object(kind, section)
    made = registry.build(kind, section.name, section.options, **supplied)
    if not isinstance(made, wanted):
        raise InputError(
            f"{kind} {section.name!r} returned a {type(made).__name__}; it must return a {wanted.__name__}"
        )
    return made


def is_user_object(section: Named) -> bool:
    return section.name.split(":")[0] == "given"


def _refuse_user_object(key: str, section: Named) -> None:
    if is_user_object(section):
        raise InputError(f"this run's {key} was a user-provided object: pass it again as {key}=...")

"""From a configuration to a simulation: build every named thing and check that they fit together."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from eunoe.config import registry
from eunoe.config.paths import placed
from eunoe.config.schema import Config, Named
from eunoe.core.flat_model import FlatModel, load_state
from eunoe.core.rng import global_stream
from eunoe.data.federation import Federation
from eunoe.data.samples import DataSet
from eunoe.data.transforms import augment_batch
from eunoe.errors import InputError, first_line
from eunoe.losses.base import Loss
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.metrics.named import check_metrics
from eunoe.models.base import remove_bias
from eunoe.runs.refusals import check_attack, check_merge
from eunoe.server.optimizers import SGD, ServerOptimizer
from eunoe.server.robust import Merge
from eunoe.server.trainer import ServerTrainer
from eunoe.training.attacks import with_flipped_labels
from eunoe.training.simulation import Simulation

# What the library gives to a model besides the user's options.
SUPPLIED_TO_MODEL = ("shape", "classes")


@dataclass(frozen=True)
class Given:
    """Objects that a Python user hands over instead of naming them."""

    federation: Federation | None = None
    model: nn.Module | None = None
    method: Method | None = None
    loss: Loss | None = None
    server_optimizer: ServerOptimizer | None = None


def assemble(config: Config, given: Given | None = None) -> tuple[Simulation, list[str]]:
    """The simulation of a configuration, and what it warns of before round 1."""
    simulation = build_job(config, given or Given())
    context = simulation.context
    _check_clients(simulation)
    check_merge(config, simulation)
    check_attack(simulation)
    check_metrics(config.metrics, config.probes)
    return simulation, [
        *simulation.method.check(context),
        *context.server_optimizer.check(),
        *_single_classes(simulation),
    ]


def build_job(config: Config, given: Given) -> Simulation:
    """The simulation of a configuration, not yet checked: a lone client has not all that a run needs."""
    dtype = getattr(torch, config.model.dtype)
    federation = build_federation(config) if given.federation is None else given.federation
    if federation.dtype != dtype:
        federation = replace(federation, dtype=dtype)
    if config.attack is not None and config.attack.name == "label_flip":
        federation = with_flipped_labels(federation, config.attack, config.seed)
    model = build_model(config, federation, given.model)
    method = given.method or _build("method", config.method, Method)
    loss = given.loss or _build("loss", config.loss, Loss)
    step = given.server_optimizer or _build("server_optimizer", config.server_optimizer, ServerOptimizer)
    if not method.takes_server_optimizer and step != SGD():
        raise InputError(
            f"method {config.method.name!r} computes the new weights itself: leave server_optimizer out"
        )
    if not method.trains_clients and loss != CrossEntropy():
        raise InputError(
            f"method {config.method.name!r} trains no client, whose loss could be chosen: leave loss out"
        )
    context = RoundContext(
        clients=len(federation),
        participants=config.participants(len(federation)),
        classes=federation.classes,
        parameters=model.parameters.numel(),
        float_buffers=model.float_buffers.numel(),
        mean_size=float(federation.sizes.mean()),
        training=config.training,
        server_optimizer=step,
        merge=_build("merge", config.merge, Merge),
        seed=config.seed,
        dtype=dtype,
        augmented=config.augment.active,
        has_features=model.has_features,
        has_batch_norm=model.has_batch_norm,
        trainer=ServerTrainer(federation, model, config.seed, config.augment, config.evaluation.chunk),
    )
    chunk = config.evaluation.chunk
    return Simulation(federation, model, loss, method, config.augment, context, chunk, config.attack)


def load_data(named: Named) -> DataSet:
    """The data set of a config section; a path or `hf:owner/name` is the user's own."""
    from eunoe.data.loading import load

    return load(named.name, **named.options)


def build_federation(config: Config) -> Federation:
    """Load the data and divide them."""
    public = config.public
    _not_given("federation", config.data)
    return Federation.build(
        load_data(config.data),
        _build("partition", config.partition, Callable),
        seed=config.seed,
        split=config.split,
        public=public,
        public_data=None if public.data is None else load_data(public.data),
        shift=config.shift,
        dtype=getattr(torch, config.model.dtype),
    )


def build_model(config: Config, federation: Federation, given: nn.Module | None) -> FlatModel:
    """The model at its start, tried on what a client would train on."""
    section, device = config.model, usable_device(config.engine.device)
    supplied = {"shape": federation.shape, "classes": federation.classes}
    with global_stream(torch.device("cpu"), config.seed, "model start"):
        # A copy of the user's own, which stays as it is and may begin another run.
        module = _build("model", section, nn.Module, **supplied) if given is None else copy.deepcopy(given)
        if section.head:
            from eunoe.models.head import with_head

            module = with_head(module, federation.classes)
        if not section.classifier_bias:
            remove_bias(module)
        if section.classifier != "trained":
            from eunoe.models.classifier import fix_classifier

            fix_classifier(module, section.classifier, federation.classes)
    if section.start_from is not None:
        from pathlib import Path

        load_state(module, Path(section.start_from), section.partial)
    model = FlatModel(module, federation.dtype, device)
    _try(model, federation, config)
    return model


def usable_device(name: str) -> str:
    """The name of a torch device, if it can be used here."""
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"engine.device: {name!r} cannot be used: {first_line(error)}") from None
    return name


def resolved(config: Config, given: Given | None = None) -> dict[str, Any]:
    """The configuration with the defaults of all named things written out and paths made absolute."""
    values = config.model_dump(mode="json", exclude_none=True)
    sections: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "partition": ("partition", ()),
        "model": ("model", SUPPLIED_TO_MODEL),
        "loss": ("loss", ()),
        "method": ("method", ()),
        "server_optimizer": ("server_optimizer", ()),
        "merge": ("merge", ()),
    }
    for key, (kind, supplied) in sections.items():
        section: Named = getattr(config, key)
        handed = getattr(given, "federation" if key == "partition" else key, None)
        if handed is not None or _is_given(section):
            continue
        own = {
            name: values[key][name] for name in values[key] if name not in section.options and name != "name"
        }
        full = registry.defaults(kind, section.name, section.options, supplied)
        values[key] = {"name": section.name, **own, **{k: v for k, v in full.items() if v is not None}}
    return placed(values)


def with_cohort(config: Config, simulation: Simulation) -> Config:
    """The configuration with the number of clients that train at once, which follows from the model."""
    engine = config.engine
    if engine.name != "vectorized" or engine.options.get("cohort") is not None:
        return config
    from eunoe.engines.vectorized.engine import cohort_of

    cohort = cohort_of(simulation.model.parameters.numel())
    return config.model_copy(update={"engine": engine.model_copy(update={"cohort": cohort})})


def check_targets(config: Config, federation: Federation) -> None:
    """Refuse to wait for an accuracy that will not be measured."""
    if config.stop.target is not None and not len(federation.pooled("validation")[0]):
        raise InputError(
            "stop.target is a validation accuracy and no client has a validation part: set split.validation "
            "(to 0.1, say), or name a test accuracy as stop.test_target"
        )
    if config.stop.test_target is not None and not len(federation.data.test.y):
        raise InputError("stop.test_target is a test accuracy and there is no test set: name stop.target")


def _try(model: FlatModel, federation: Federation, config: Config) -> None:
    section, x = config.model, federation.inputs("clients", torch.zeros(2, dtype=torch.int64), 0)
    x = augment_batch(x, config.augment, torch.Generator(), federation.preprocess.black).to(model.device)
    with model.evaluating(), torch.no_grad():
        try:
            logits = model.forward(x)
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"model {section.name!r} cannot take inputs of shape {federation.shape}: {first_line(error)}"
            ) from None
    if not isinstance(logits, torch.Tensor):
        raise InputError(f"model {section.name!r} gives a {type(logits).__name__}; it must give a tensor")
    if logits.ndim != 2 or logits.shape[1] != federation.classes:
        raise InputError(
            f"model {section.name!r} gives outputs of shape {tuple(logits.shape[1:])}, "
            f"but the data have {federation.classes} classes"
        )
    model.has_features = model.has_features and _composed(model, x, logits)


def _composed(model: FlatModel, x: torch.Tensor, logits: torch.Tensor) -> bool:
    """Whether the model's features and classifier are what it computes its logits by."""
    with model.evaluating(), torch.no_grad():
        try:
            return torch.allclose(model.features_at(None, x)[1], logits, equal_nan=True)
        except Exception:
            # Names that mean something else, such as features that are flattened before they are classified.
            return False


def _check_clients(simulation: Simulation) -> None:
    """Refuse clients that cannot train."""
    sizes, training = simulation.federation.sizes, simulation.context.training
    if empty := int((sizes == 0).sum()):
        raise InputError(f"{empty} clients have no training sample; take fewer clients or another partition")
    alone = training.batch_size == 1 or int(sizes.min()) == 1
    first = torch.zeros(1, dtype=torch.int64)
    if alone and not simulation.model.trains_on(simulation.federation.inputs("clients", first)):
        raise InputError(
            "batch normalization cannot train on a single sample: take a larger batch_size, "
            "a partition with larger clients or a model with another normalization"
        )


def _single_classes(simulation: Simulation) -> list[str]:
    """A warning if there are clients whose training can do nothing but shrink the model."""
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
    """The named thing of a section, if it is one of its kind."""
    _not_given(kind, section)
    made = registry.build(kind, section.name, section.options, **supplied)
    if not isinstance(made, wanted):
        raise InputError(
            f"{kind} {section.name!r} gave a {type(made).__name__}; it must give a {wanted.__name__}"
        )
    return made


def _is_given(section: Named) -> bool:
    return section.name.split(":")[0] == "given"


def _not_given(key: str, section: Named) -> None:
    if _is_given(section):
        raise InputError(f"this run's {key} was an object of your own: hand it over again as {key}=...")

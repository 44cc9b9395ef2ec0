"""The configuration as a run folder keeps it: complete, so that it repeats the run exactly."""

from collections.abc import Mapping
from typing import Any

from eunoe.config import registry
from eunoe.config.options import Preprocessing
from eunoe.config.schema import Config, Named
from eunoe.config.settings import absolute_paths
from eunoe.engines.simulation import Simulation
from eunoe.simulation.build import SUPPLIED_TO_MODEL, UserObjects, is_user_object, loss_section


def resolved(config: Config, objects: UserObjects | None = None) -> dict[str, Any]:
    """The configuration with the defaults of all named components filled in and paths made absolute."""
    values = config.model_dump(mode="json", exclude_none=True)
    sections: Mapping[str, tuple[str, tuple[str, ...]]] = {
        "partition": ("partition", ()),
        "backbone": ("backbone", ()),
        "model": ("model", SUPPLIED_TO_MODEL),
        "loss": ("loss", ()),
        "method": ("method", ()),
        "server_optimizer": ("server_optimizer", ()),
        "aggregation": ("aggregation", ()),
    }
    for key, (kind, supplied) in sections.items():
        if getattr(config, key) is None:
            continue
        section: Named = getattr(config, key)
        passed = getattr(objects, "federation" if key == "partition" else key, None)
        if passed is not None or is_user_object(section):
            continue
        own = {
            name: values[key][name] for name in values[key] if name not in section.options and name != "name"
        }
        full = registry.defaults(kind, section.name, section.options, supplied)
        values[key] = {"name": section.name, **own, **{k: v for k, v in full.items() if v is not None}}
    return absolute_paths(values)


def with_loss(config: Config, simulation: Simulation) -> Config:
    """The configuration with the loss that is trained, which follows from the task if it is not named."""
    return config.model_copy(update={"loss": loss_section(config, simulation.federation.task)})


def with_cohort(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with the cohort size filled in, which follows from the model."""
    engine = config.engine
    if engine.name != "vectorized" or engine.options.get("cohort") is not None:
        return config
    from eunoe.engines.vectorized.engine import cohort_size

    cohort = cohort_size(simulation.model.parameters.numel())
    return config.model_copy(update={"engine": engine.model_copy(update={"cohort": cohort})})


def with_preprocessing(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with what inputs are normalized by, which follows from the data."""
    data = simulation.federation.data
    if data.mean is None or data.std is None:
        return config
    return config.model_copy(update={"preprocessing": Preprocessing(mean=data.mean, std=data.std)})

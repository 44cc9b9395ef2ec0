"""The configuration as a run folder keeps it: complete, so that it repeats the run exactly."""

from typing import Any

from eunoe.config import registry
from eunoe.config.options import Named, Preprocessing
from eunoe.config.schema import Config
from eunoe.config.settings import absolute_paths
from eunoe.engines.simulation import Simulation
from eunoe.simulation.build import SUPPLIED_TO_MODEL, UserObjects, is_user_object, loss_section
from eunoe.simulation.streams import with_streams


def resolved(config: Config, objects: UserObjects | None = None) -> dict[str, Any]:
    """Return the configuration with all defaults of named components and with absolute paths."""
    values = config.model_dump(mode="json", exclude_none=True)
    for key in ("partition", "backbone", "model", "loss", "method", "server_optimizer", "aggregation"):
        if getattr(config, key) is None:
            continue
        section: Named = getattr(config, key)
        passed = getattr(objects, "federation" if key == "partition" else key, None)
        if passed is not None or is_user_object(section):
            continue
        own = {name: value for name, value in values[key].items() if name not in {"name", *section.options}}
        supplied = SUPPLIED_TO_MODEL if key == "model" else ()
        full = registry.defaults(key, section.name, section.options, supplied)
        values[key] = {"name": section.name, **own, **{k: v for k, v in full.items() if v is not None}}
    return absolute_paths(values)


def with_loss(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with the loss that is trained, which may follow from the task."""
    return config.model_copy(update={"loss": loss_section(config, simulation.federation.task)})


def complete_config(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with what follows from its data, its model and its rounds."""
    config, data, engine = with_loss(config, simulation), simulation.federation.data, config.engine
    values: dict[str, Any] = {}
    if data.mean is not None and data.std is not None:
        values["preprocessing"] = Preprocessing(mean=data.mean, std=data.std)
    if engine.name == "vectorized" and engine.options.get("cohort") is None:
        from eunoe.engines.vectorized.engine import cohort_size

        cohort = cohort_size(simulation.model.parameters.numel())
        values["engine"] = engine.model_copy(update={"cohort": cohort})
    return with_streams(config.model_copy(update=values))

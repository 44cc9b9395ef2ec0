"""What does not serve the task of the data is refused before round 1."""

from eunoe.config.schema import Config
from eunoe.core.tasks import check_task
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError


def refuse_other_tasks(config: Config, simulation: Simulation) -> None:
    """Raise InputError if a part of a run is for another task than that of its data."""
    task = simulation.federation.task
    for kind, name, component in (
        ("loss", config.loss.name, simulation.loss),
        ("method", config.method.name, simulation.method),
    ):
        check_task(component, task, kind, name)
    if task.name == "classification":
        return
    by_class = {
        "attack 'label_flip'": config.attack is not None and config.attack.name == "label_flip",
        "replay (its memory is balanced over classes)": config.replay is not None,
        "evaluation.personal": bool(config.evaluation.personal),
        "model.classifier 'etf'": config.model.classifier == "etf",
        "training.single_class": config.training.single_class != "train",
        "a client_matrix on test data": any(probe.data == "test" for probe in config.probes),
    }
    for what in (what for what, wanted in by_class.items() if wanted):
        raise InputError(f"{what} is for classification, and these data are for {task.name}: leave it out")

"""Merges and attacks that do not fit a run are refused before round 1."""

from eunoe.config.schema import Config
from eunoe.errors import InputError
from eunoe.training.attacks import bad_clients
from eunoe.training.simulation import Simulation


def check_merge(config: Config, simulation: Simulation) -> None:
    """Refuse a merge that cannot protect this run."""
    context, merge = simulation.context, simulation.context.merge
    if not merge.needs_all:
        return
    if not simulation.method.takes_merge:
        raise InputError(
            f"method {config.method.name!r} uses what clients send in ways that merge {config.merge.name!r} "
            "cannot protect: leave merge out"
        )
    if context.server_optimizer.derived():
        raise InputError(
            f"server_optimizer {config.server_optimizer.name!r} (or its gma) needs means over all clients, "
            f"which merge {config.merge.name!r} does not protect: leave one of them out"
        )
    merge.check(context.participants)


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

"""Differential privacy in a run: what is refused before round 1, and what the rounds spend.

In a simulation noise comes from the seed, so a round that is repeated after a crash is the same one and
counts once. A federation's server draws fresh noise: every aggregation is noted in privacy.json before
its noise is drawn, and one that is repeated counts twice.
"""

import json
import logging

from eunoe.config.options import STANDARD_PROBES
from eunoe.config.schema import Config
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged, InputError
from eunoe.server.accounting import Accountant
from eunoe.simulation.loop import Hook, Round
from eunoe.store.folder import RunFolder
from eunoe.store.state import RunState
from eunoe.system.files import read_json, write_text

logger = logging.getLogger(__name__)


def check_privacy(config: Config, simulation: Simulation) -> list[str]:
    """Refuse what the guarantee would not hold for; return warnings of what lies outside it."""
    privacy, context = config.privacy, simulation.context
    if privacy is None:
        return []
    _check_method(config, simulation)
    if simulation.model.float_buffers.numel() or simulation.model.int_buffers.numel():
        raise InputError(
            "privacy: noise would make the variances of batch normalization negative: use a model with "
            "another normalization (GroupNorm, LayerNorm) or none"
        )
    if config.probes not in ((), STANDARD_PROBES):
        raise InputError(
            "privacy: probes measure single clients' models, which it is to hide: set probes = []"
        )
    if privacy.delta * context.clients >= 1:
        raise InputError(
            f"privacy.delta = {privacy.delta:g} must be below 1 / clients = {1 / context.clients:.3g}: "
            "otherwise publishing one client's data would be allowed"
        )
    if not privacy.noise:
        return ["privacy: noise = 0 guarantees nothing"]
    accountant = Accountant(privacy, context.clients, context.participants)
    affordable = accountant.affordable(config.rounds)
    if not affordable:
        raise InputError(
            f"privacy: one round spends epsilon = {accountant.epsilon(1):.3g}, above the budget of "
            f"{privacy.epsilon:g}: raise noise, lower participation or raise epsilon"
        )
    warnings = []
    if affordable < config.rounds:
        warnings.append(
            f"privacy: the budget of epsilon = {privacy.epsilon:g} ends the run after round {affordable} of "
            f"{config.rounds}"
        )
    parts = [part for part in ("validation", "test") if len(simulation.federation.pooled(part)[0])]
    if parts:
        warnings.append(
            f"privacy: numbers on the clients' own {' and '.join(parts)} parts are computed without noise "
            "and lie outside the guarantee"
        )
    return warnings


def _check_method(config: Config, simulation: Simulation) -> None:
    """Refuse a method, optimizer or aggregation that uses more than clipped sums."""
    method, context, name = simulation.method, simulation.context, config.method.name
    if not (method.trains_clients and method.aggregates):
        raise InputError(
            f"privacy: method {name!r} aggregates nothing of clients that could be protected: leave it out"
        )
    if context.aggregation.needs_all:
        raise InputError(
            f"privacy needs sums, which aggregation {config.aggregation.name!r} does not make: leave one out"
        )
    uploads = method.uploads(context)
    unclipped = [
        upload
        for upload, how in uploads.items()
        if how.combine not in ("sum", "uniform") or how.lowest is not None or how.highest is not None
    ]
    if method.keeps_models or not method.takes_aggregation or (unclipped and method.weighting == "uniform"):
        what = f"the upload {unclipped[0]!r}" if unclipped else "what clients send"
        raise InputError(
            f"privacy: method {name!r} needs {what} as it is, and not clipped and with noise: "
            "name another method"
        )
    if context.server_optimizer.derived():
        raise InputError(
            f"privacy: server_optimizer {config.server_optimizer.name!r} (or its gma) needs further means "
            "over clients, which are not clipped: leave one of them out"
        )
    if method.weighting != "uniform":
        raise InputError("privacy counts clients equally: set method.weighting to 'uniform'")


class Spending(Hook):
    """Notes what each aggregation spends, and ends the run before one that would exceed the budget."""

    def __init__(self, simulation: Simulation, folder: RunFolder, run_state: RunState) -> None:
        context = simulation.context
        assert context.privacy is not None
        self.privacy, self.fresh, self.run_state, self.folder = (
            context.privacy,
            context.secret,
            run_state,
            folder,
        )
        self.accountant = (
            Accountant(self.privacy, context.clients, context.participants) if self.privacy.noise else None
        )
        self.ledger = folder.path / "privacy.json"
        noted = self._noted() if self.fresh else 0
        # Each round has drawn noise at least once, whatever became of the ledger.
        self.aggregations = max(noted, run_state.round)
        if self.fresh and noted < run_state.round:
            logger.warning(
                "privacy: %s notes %d aggregations and %d rounds are done: repeated ones are not counted",
                self.ledger,
                noted,
                run_state.round,
            )
        elif self.aggregations > run_state.round:
            logger.warning(
                "privacy: %d aggregations have drawn noise in %d rounds; those that are repeated count twice",
                self.aggregations,
                run_state.round,
            )

    def _noted(self) -> int:
        """The aggregations that the ledger notes; 0 if there is none."""
        if not self.ledger.exists():
            return 0
        aggregations = read_json(self.ledger).get("merges")
        if type(aggregations) is not int or aggregations < 0:
            raise Damaged(f"{self.ledger} does not say how many aggregations have drawn noise; restore it")
        return aggregations

    def before_run(self) -> str:
        self._note()
        return self._spent()

    def before_aggregation(self, round: int) -> None:
        if not self.fresh:
            self.aggregations = round
            return
        self.aggregations += 1
        write_text(self.ledger, json.dumps({"merges": self.aggregations}) + "\n")

    def after_round(self, done: Round) -> None:
        done.record["privacy"] = self._note()
        done.reason = done.reason or self._spent()

    def _note(self) -> dict[str, float | int]:
        """What is spent, for the record and the status."""
        if not self.fresh:
            self.aggregations = self.run_state.round
        epsilon = self.accountant.epsilon(self.aggregations) if self.accountant else float("inf")
        spent = {"epsilon": epsilon, "delta": self.privacy.delta, "merges": self.aggregations}
        self.folder.facts["privacy"] = spent
        return spent

    def _spent(self) -> str:
        """Why no further aggregation is allowed; empty if one is."""
        budget = self.privacy.epsilon
        if (
            self.accountant is None
            or budget is None
            or self.accountant.epsilon(self.aggregations + 1) <= budget
        ):
            return ""
        spent = self.accountant.epsilon(self.aggregations)
        return f"the privacy budget of epsilon = {budget:g} allows no further round; {spent:.3g} is spent"

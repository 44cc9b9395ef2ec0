"""The hook that records the privacy budget of a run and ends the run when it is spent."""

import json
import logging

from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged
from eunoe.simulation.hooks import Hook, Round
from eunoe.store.checkpoints import RunState
from eunoe.store.folder import RunFolder
from eunoe.system.files import read_json, write_text

logger = logging.getLogger(__name__)


class PrivacyBudget(Hook):
    """Records the epsilon that each aggregation spends; ends the run before one that would exceed the budget.

    In a simulation noise comes from the seed, so a round that is repeated after a crash is the same one and
    counts once. A federation's server draws fresh noise: every aggregation is written to privacy.json before
    its noise is drawn, and one that is repeated counts twice.
    """

    def __init__(self, simulation: Simulation, folder: RunFolder, run_state: RunState) -> None:
        context, schedule = simulation.context, simulation.participation
        assert context.privacy is not None
        self.options, self.secret = context.privacy.options, context.privacy.secret
        self.accountant = context.privacy.accountant(context.data.clients, context.participants, schedule)
        self.run_state, self.folder, self.ledger = run_state, folder, folder.path / "privacy.json"
        written, rounds = self._read_ledger() if self.secret else 0, run_state.round
        # Each round has drawn noise at least once, whatever happened to the ledger.
        self.aggregations = max(written, rounds)
        if self.secret and written < rounds:
            message = "privacy: %s has %d of %d aggregations; repeated ones are not counted"
            logger.warning(message, self.ledger, written, rounds)
        elif self.aggregations > rounds:
            message = "privacy: %d noisy aggregations in %d rounds; repeated ones count twice"
            logger.warning(message, self.aggregations, rounds)

    def _read_ledger(self) -> int:
        """Return the number of aggregations in the ledger; 0 without a ledger."""
        if not self.ledger.exists():
            return 0
        aggregations = read_json(self.ledger).get("merges")
        if type(aggregations) is not int or aggregations < 0:
            raise Damaged(f"{self.ledger} does not have the number of aggregations; restore it")
        return aggregations

    def before_run(self) -> str:
        self._record()
        return self._exhausted()

    def before_aggregation(self, round: int) -> None:
        if self.secret:
            self.aggregations += 1
            write_text(self.ledger, json.dumps({"merges": self.aggregations}) + "\n")

    def after_round(self, done: Round) -> None:
        done.record["privacy"] = self._record()
        done.reason = done.reason or self._exhausted()

    def _record(self) -> dict[str, float | int]:
        """Return what is spent, for the record and the status."""
        if not self.secret:
            self.aggregations = self.run_state.round
        rounds = self.run_state.round
        epsilon = self.accountant.epsilon(self.aggregations, rounds) if self.accountant else float("inf")
        spent = {"epsilon": epsilon, "delta": self.options.delta, "merges": self.aggregations}
        self.folder.facts["privacy"] = spent
        return spent

    def _exhausted(self) -> str:
        """Return why no further aggregation is allowed; empty if one is."""
        budget, accountant, rounds = self.options.epsilon, self.accountant, self.run_state.round
        if accountant is None or budget is None:
            return ""
        if accountant.epsilon(self.aggregations + 1, rounds + 1) <= budget:
            return ""
        spent = accountant.epsilon(self.aggregations, rounds)
        return f"the privacy budget of epsilon = {budget:g} allows no further round; {spent:.3g} is spent"

"""What noisy rounds cost: (epsilon, delta) of a client's whole participation, by the library dp-accounting.

A round is a Gaussian mechanism on a sample of fixed size without replacement. For such samples the library
knows the relation "replace one client by another", under which a sum of vectors clipped to C changes by up to
2 C. So its noise multiplier is half of `noise`, which counts in multiples of C. Rounds are composed by Rényi
divergences.
"""

from functools import cache
from typing import Any

from eunoe.config.options import Privacy
from eunoe.errors import InputError


class Accountant:
    """The epsilon of a number of noisy aggregations."""

    def __init__(self, privacy: Privacy, clients: int, participants: int) -> None:
        try:
            from dp_accounting import rdp
        except ImportError:
            raise InputError(
                "privacy needs dp-accounting: run pip install '.[privacy]' in a clone of Eunoe"
            ) from None
        self.privacy, self._rdp = privacy, rdp
        self._orders, self._divergences = _one_aggregation(privacy.noise, clients, participants)

    def epsilon(self, releases: int) -> float:
        """What so many aggregations have spent."""
        if not releases:
            return 0.0
        spent, _ = self._rdp.compute_epsilon(self._orders, self._divergences * releases, self.privacy.delta)
        return float(spent)

    def affordable(self, most: int) -> int:
        """How many aggregations the budget allows, up to `most`."""
        budget = self.privacy.epsilon
        if budget is None or self.epsilon(most) <= budget:
            return most
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= budget else (low, middle)
        return low


@cache
def _one_aggregation(noise: float, clients: int, participants: int) -> tuple[Any, Any]:
    """The orders of Rényi divergence and the divergences of one aggregation, which take most of a second."""
    import dp_accounting
    from dp_accounting import rdp

    gaussian = dp_accounting.GaussianDpEvent(noise / 2)
    event = dp_accounting.SampledWithoutReplacementDpEvent(clients, participants, gaussian)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(event)
    return accountant.orders, accountant.rdp

"""What noisy rounds cost."""

import itertools
import sys

import dp_accounting
import pytest
from dp_accounting import rdp

from eunoe.config.options import Privacy
from eunoe.errors import InputError
from eunoe.server.privacy import Accountant


def test_the_sensitivity_of_a_clipped_sum_is_twice_the_clip() -> None:
    accountant = Accountant(Privacy(clip=3.0, noise=1.1, delta=1e-3), clients=376, participants=32)
    assert accountant.epsilon(100) == pytest.approx(38.8, abs=0.05)
    # Read as if the sensitivity were the clip itself.
    naive = Accountant(Privacy(clip=3.0, noise=2.2, delta=1e-3), clients=376, participants=32)
    assert naive.epsilon(100) == pytest.approx(7.9, abs=0.05)


def test_all_clients_in_every_round_is_the_plain_gaussian_mechanism() -> None:
    accountant = Accountant(Privacy(clip=1.0, noise=8.0, delta=1e-3), clients=50, participants=50)
    plain = rdp.RdpAccountant()
    plain.compose(dp_accounting.GaussianDpEvent(4.0), 7)
    assert accountant.epsilon(7) == pytest.approx(plain.get_epsilon(1e-3))


def test_epsilon_grows_with_the_aggregations_until_the_budget_ends_them() -> None:
    accountant = Accountant(Privacy(clip=1.0, noise=4.0, delta=1e-4, epsilon=3.0), 1000, 50)
    spent = [accountant.epsilon(merges) for merges in range(40)]
    assert spent[0] == 0
    assert all(less < more for less, more in itertools.pairwise(spent))
    last = accountant.affordable(10_000)
    assert accountant.epsilon(last) <= 3.0 < accountant.epsilon(last + 1)
    assert accountant.affordable(5) == 5
    assert Accountant(Privacy(clip=1.0, noise=0.1, delta=1e-4, epsilon=3.0), 1000, 50).affordable(9) == 0


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.delitem(sys.modules, "dp_accounting.rdp")
    with pytest.raises(InputError, match=r"pip install '.*\[privacy\]'"):
        Accountant(Privacy(clip=1.0, noise=1.0, delta=1e-3), 10, 5)

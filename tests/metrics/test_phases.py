"""Transfer between phases, against matrices worked by hand."""

import numpy as np
import pytest

from eunoe.metrics.phases import backward_transfer, forward_transfer, recovery, temporal_forgetting

# After phase i, on the data of phase j.
TABLE = [[0.9, 0.2, 0.1], [0.6, 0.8, 0.3], [0.7, 0.5, 0.85]]


def test_backward_transfer_is_what_earlier_phases_gain_since_their_end() -> None:
    # ((0.7 - 0.9) + (0.5 - 0.8)) / 2
    assert backward_transfer(TABLE) == pytest.approx(-0.25)
    assert np.isnan(backward_transfer(TABLE[:1]))


def test_forward_transfer_is_what_a_phase_has_before_it_begins() -> None:
    # ((0.2 - 0.1) + (0.3 - 0.1)) / 2
    assert forward_transfer(TABLE, [0.1, 0.1, 0.1]) == pytest.approx(0.15)
    assert np.isnan(forward_transfer(TABLE[:1], [0.1]))


def test_forgetting_is_what_is_left_of_the_best() -> None:
    assert temporal_forgetting(TABLE).tolist() == pytest.approx([0.2, 0.3])
    # A phase that gets better afterwards is measured from its best.
    assert temporal_forgetting([[0.5, 0.0, 0.0], [0.9, 0.5, 0.0], [0.6, 0.5, 0.5]]).tolist() == (
        pytest.approx([0.3, 0.0])
    )
    assert len(temporal_forgetting(TABLE[:1])) == 0


def test_recovery_counts_rounds_until_the_accuracy_is_back() -> None:
    curve, rounds = [0.5, 0.8, 0.4, 0.7, 0.8, 0.3, 0.6], [1, 2, 3, 4, 5, 6, 7]
    assert recovery(curve, rounds, [1, 3, 6]) == [2, None]
    assert recovery(curve, rounds, [1]) == []

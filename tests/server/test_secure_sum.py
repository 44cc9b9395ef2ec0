"""Sums that no clients within their bounds can have end the round."""

import pytest
import torch

from eunoe.config.options import SecureAggregation, Training
from eunoe.core.flat_model import Weights
from eunoe.errors import RunFailed
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.secure_sum import (
    CLIENTS,
    FORWARDS,
    LOSS_AFTER,
    LOSSES,
    NORM,
    SAMPLES,
    STEPS,
    SecureSum,
    SecureSums,
    decode_sum,
    make_fixed_point,
)

# Three clients of 4 samples each, in a model of two parameters, a mean and a variance of 0.5.
START = Weights(torch.zeros(2), torch.tensor([0.1, 0.5]), torch.zeros(0, dtype=torch.int64))
LEGAL = {SAMPLES: 12.0, CLIENTS: 3.0, STEPS: 6.0, LOSSES: 3.0, LOSS_AFTER: 1.5, NORM: 2.0, FORWARDS: 12.0}


def decode(**changes):
    """Decode a sum whose entries are legal but for these."""
    aggregate = Aggregate(START, uploads={"owned": Upload("uniform", 1, lowest=0.0, highest=1.0)})
    fixed = make_fixed_point(SecureAggregation(bound=100.0), aggregate, Training(), 3, 10)
    values = {name: torch.zeros(entry.size, dtype=torch.float64) for name, entry in fixed.entries.items()}
    for name, value in (LEGAL | changes).items():
        values[name] = torch.as_tensor(value, dtype=torch.float64).reshape(-1)
    total = torch.cat([(values[n] * 2.0 ** fixed.digits[n]).round().to(torch.int64) for n in fixed.entries])
    secure = SecureSums(fixed, 3, torch.tensor([False, True]))
    numbers = decode_sum(secure, SecureSum(total, [0, 1, 2]), aggregate)
    return numbers, aggregate


def test_legal_sums_are_taken():
    # The largest: 12 samples times the bound of 100, and a variance of 0 at every client.
    numbers, aggregate = decode(change=[1200.0, -1200.0], float_buffers=[-1200.0, -6.0], owned=3.0)
    assert numbers[SAMPLES] == 12
    assert aggregate.mean("change").tolist() == [100.0, -100.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({SAMPLES: -(10.0**6)}, "the sum of number of samples has a value of -1e\\+06, outside of 3 to 30"),
        ({SAMPLES: 2.0}, "outside of 3 to 30"),
        ({SAMPLES: 31.0}, "outside of 3 to 30"),
        ({STEPS: -1.0}, "number of steps has a value of -1, outside of 0 to"),
        ({LOSSES: 4.0}, "number of losses has a value of 4, outside of 0 to 3"),
        ({LOSS_AFTER: 301.0}, "loss after has a value of 301, outside of -300 to 300"),
        ({NORM: -0.5}, "norm of the change has a value of -0.5, outside of 0 to"),
        ({FORWARDS: -3.0}, "number of forwards has a value of -3"),
        ({"change": [0.0, 1201.0]}, "change has a value of 1201, outside of -1200 to 1200"),
        ({"owned": -0.1}, "owned has a value of -0.1, outside of 0 to 3"),
        ({"owned": 3.1}, "owned has a value of 3.1, outside of 0 to 3"),
        # 12 * 0.5 - 6.1 is below 0.
        ({"float_buffers": [0.0, -6.1]}, "running variances has a value of -0.1, outside of 0 to inf"),
    ],
)
def test_impossible_sums_end_the_round(changes, message):
    with pytest.raises(
        RunFailed, match=f"secure aggregation: the sum of .*{message.removeprefix('the sum of ')}"
    ):
        decode(**changes)

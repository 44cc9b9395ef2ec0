"""Measure forgetting and average models in an existing Flower project, with one line around its strategy.

Example::

    strategy = measure(average(FedAdam(...)), model, (test_x, test_y))
    strategy.start(grid, initial_arrays, num_rounds=50)
    print(strategy.forgetting.summary())

The model sent, every client's model and the global model are evaluated where they pass through the strategy's
own methods (strategies.py).
"""

from pathlib import Path
from typing import TypeVar

from torch import nn

from eunoe.errors import InputError
from eunoe.flower.recorder import Recorder
from eunoe.flower.strategies import wrap
from eunoe.metrics.observer import Batches
from eunoe.server.averaging import TensorAverage

Strategy = TypeVar("Strategy")
PRIVATE_CLASSES = ("DifferentialPrivacy", "DPFedAvg")


def average(strategy: Strategy, decay: float = 0.9) -> Strategy:
    """Make a Flower strategy evaluate and return the average of its global models.

    Clients still train the newest model, so training and traffic stay the same. Wrap the outermost strategy.
    The newest model has the weight (1 - decay) / (1 - decay^t) after t rounds.

    Example::

        strategy = eunoe.flower.average(FedAvg(), decay=0.9)
        result = strategy.start(grid, initial_arrays, num_rounds=50)
        torch.save(result.arrays.to_torch_state_dict(), "average.pt")
    """
    wrapper = wrap(strategy)
    if wrapper.average is not None:
        raise InputError(f"average was already called on this {type(strategy).__name__}: call it once")
    wrapper.attach(average=TensorAverage(decay))
    return strategy


def measure(
    strategy: Strategy,
    model: nn.Module,
    test_data: Batches,
    *,
    private: bool | None = None,
    folder: str | Path | None = None,
    name: str | None = None,
) -> Strategy:
    """Make a Flower strategy record round, local and aggregation forgetting as `strategy.forgetting`.

    Args:
        strategy: A strategy of either of Flower's interfaces; its methods are wrapped in place.
        model: Any instance of the model that is trained.
        test_data: (x, y) or a loader; a batch may be a dict with its labels under "labels" or "label".
        private: Whether clients' models must stay private; then only round forgetting is measured, with a
            warning. By default Flower's differential privacy and secure aggregation are detected; noise that
            clients add cannot be detected here.
        folder: Where each round is also written, for `eunoe compare`, `diagnose`, `report` and `watch`.
        name: The name of the run, by default its folder, or the strategy's class. `eunoe compare` takes
            runs of one name as seeds of one setting.

    Example::

        strategy = eunoe.flower.measure(FedAvg(), model, (x_test, y_test), folder="runs/fedavg")
        strategy.start(grid, initial_arrays, num_rounds=50)
        print(strategy.forgetting.summary())
    """
    wrapper = wrap(strategy)
    if wrapper.recorder is not None:
        raise InputError(f"measure was already called on this {type(strategy).__name__}: call it once")
    name = name or (type(strategy).__name__ if folder is None else str(folder))
    recorder = Recorder(model, test_data, name, None if folder is None else Path(folder))
    reason = _detect_privacy(strategy) if private is None else ("private=True was passed" if private else "")
    if reason:
        recorder.hide(reason)
    wrapper.attach(recorder=recorder)
    strategy.forgetting = recorder.forgetting  # type: ignore[attr-defined]
    return strategy


def _detect_privacy(strategy: object) -> str:
    """Return the privacy wrapper around a strategy that forbids evaluating clients' models; empty if none."""
    while strategy is not None:
        for kind in type(strategy).__mro__:
            if kind.__name__.startswith(PRIVATE_CLASSES):
                return f"{kind.__name__} keeps clients private"
        strategy = getattr(strategy, "strategy", None)
    return ""

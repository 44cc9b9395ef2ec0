"""Batch plans: the samples of each step of a client's training."""

import numpy as np

from eunoe.config.options import Training


def plan_steps(
    size: int, training: Training, rng: np.random.Generator, at_least_two: bool = False
) -> tuple[np.ndarray, list[int]]:
    """Return the positions of all steps' samples in a client's data, concatenated, and the batch sizes.

    Each epoch is a new permutation. `at_least_two` joins a last batch of one sample to the batch before, as
    batch normalization requires.
    """
    batch = min(training.batch_size or size, size)
    least, most = training.epoch_range
    epochs = int(rng.integers(least, most + 1)) if most > least else least
    full, remainder = divmod(size, batch)
    lengths = [batch] * full
    if remainder == 1 and at_least_two and training.last_batch == "keep":
        lengths[-1] += 1
    elif remainder and training.last_batch == "keep":
        lengths.append(remainder)
    if training.steps:
        epochs = -(-training.steps // len(lengths))
    used = sum(lengths)
    orders = [rng.permutation(size)[:used] for _ in range(epochs)]
    lengths = (lengths * epochs)[: training.steps]
    return np.concatenate(orders)[: sum(lengths)], lengths


def count_trained_samples(size: int, steps: int, training: Training) -> int:
    """Return the total number of samples in the planned steps of a client."""
    batch = min(training.batch_size or size, size)
    used = size if training.last_batch == "keep" else size - size % batch
    least, most = training.epoch_range
    if training.steps is None and least == most:
        # The total does not depend on whether a single sample was joined to the batch before.
        return least * used
    epochs, more = divmod(steps, -(-used // batch))
    return epochs * used + more * batch


def max_steps(size: int, training: Training) -> int:
    """Return the largest number of steps that a client of this size takes in a round."""
    if training.steps is not None:
        return training.steps
    return training.epoch_range[1] * -(-size // min(training.batch_size or size, size))


def plan_batches(
    size: int, training: Training, rng: np.random.Generator, at_least_two: bool = False
) -> list[np.ndarray]:
    """Return the positions of each step's samples in a client's data."""
    order, lengths = plan_steps(size, training, rng, at_least_two)
    return np.split(order, np.cumsum(lengths)[:-1])

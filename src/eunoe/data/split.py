"""Splits of samples: the public set, each client's training, validation and test parts, and test sets."""

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from eunoe.config.options import Public
from eunoe.core.fields import describe_input
from eunoe.core.rng import generator
from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import ranges, rows_by_class
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError


def split_clients(
    order: Integers, offsets: Integers, rng: Generator, validation: float = 0.1, test: float = 0.0
) -> tuple[Integers, Integers, Integers]:
    """Shuffle the rows within each client; return them, and where its training and validation parts end.

    A part's size is its share of the client's samples, rounded half up; the rest is for training. If a client
    is too small for that, first the test part and then the validation part shrinks, so that at least one
    training sample is left.
    """
    sizes = np.diff(offsets)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    shuffled = rng.permutation(len(order))
    mixed = order[shuffled[np.argsort(owners[shuffled], kind="stable")]]
    spare = np.maximum(sizes - 1, 0)
    validating = np.minimum(part_size(sizes, validation), spare)
    testing = np.minimum(part_size(sizes, test), spare - validating)
    validation_end = offsets[1:] - testing
    return mixed, validation_end - validating, validation_end


def part_size(sizes: Integers, share: float) -> Integers:
    """Return a share of each size, rounded half up."""
    # The last term rounds up halves that the product just misses, such as 50 * 0.29.
    return np.floor(sizes * share + 0.5 + 1e-9).astype(np.int64)


def draw_test_rows(samples: int, share: float, rng: Generator) -> NDArray[np.bool_]:
    """Return a mask of the samples that a random test part of this share consists of."""
    tested = round(share * samples)
    if not 0 < tested < samples:
        raise InputError(f"a test share of {share:g} of {samples} samples leaves one part empty")
    return _mask(samples, rng.permutation(samples)[:tested])


def fixed_test_rows(groups: Array, percent: int) -> NDArray[np.bool_]:
    """Return a mask of the test part: `percent` of each group's rows, rounded down, always the same ones."""
    draw = generator(0, "rows held out for the test part").random(len(groups))
    order = np.lexsort((draw, groups))
    starts, counts = np.unique(groups[order], return_index=True, return_counts=True)[1:]
    rank = np.arange(len(groups)) - np.repeat(starts, counts)
    return _mask(len(groups), order[rank < np.repeat(counts * percent // 100, counts)])


def every_fifth_row(groups: Integers) -> NDArray[np.bool_]:
    """Return a mask of every fifth row of each group, in file order."""
    return _mask(len(groups), np.concatenate([np.flatnonzero(groups == g)[4::5] for g in np.unique(groups)]))


def _mask(length: int, rows: Integers) -> NDArray[np.bool_]:
    mask = np.zeros(length, np.bool_)
    mask[rows] = True
    return mask


class PublicRows(NamedTuple):
    """The public rows for training and validation, and the rows left for the clients, in order."""

    train: Integers | None
    validation: Integers | None
    remaining: Integers


def choose_public_set(
    data: DataSet, separate: DataSet | None, options: Public, seed: int
) -> tuple[Samples | None, PublicRows]:
    """Choose the public samples from a separate data set or, if a size is set, from the clients' data."""
    everything = np.arange(len(data.train.y))
    if separate is None and not options.sized:
        return None, PublicRows(None, None, everything)
    source = data if separate is None else separate
    if describe_input(source.train.x) != describe_input(data.train.x):
        raise InputError(
            f"public samples of {source.name!r} are {describe_input(source.train.x)}, but the clients' are "
            f"{describe_input(data.train.x)}; use a public set of the same form"
        )
    labels, rng = source.train.y.numpy(), generator(seed, "public")
    rows = choose_public_rows(labels, rng, options, source.owners, separate=separate is not None)
    return source.train, rows if separate is None else rows._replace(remaining=everything)


def choose_public_rows(
    labels: Array, rng: Generator, options: Public, groups: Array | None = None, *, separate: bool = False
) -> PublicRows:
    """Draw the public rows; of a separate public set, all rows if no size is set."""
    by_class = options.balanced or options.alpha is not None
    if by_class and (labels.ndim > 1 or (labels < 0).any()):
        raise InputError("balanced and alpha choose by class, but the public data have no class labels")
    if options.groups is not None:
        public = _draw_groups(groups, options.groups, options.min_size, rng)
    else:
        share = 1.0 if separate and not options.sized else options.share
        total = options.count or int(part_size(np.array(len(labels)), share))
        if total > len(labels):
            raise InputError(f"{total:,} public samples were requested, but there are only {len(labels):,}")
        if options.alpha is not None:
            public = _draw_unequal(labels, total, options.alpha, rng)
        elif options.balanced and total:
            public = _draw_balanced(labels, total, rng)
        else:
            public = rng.permutation(len(labels))[:total]
    if len(public) == len(labels) and len(public) and not separate:
        raise InputError("all samples are public, so none are left for the clients; use fewer")
    validating = min(int(part_size(np.array(len(public)), options.validation)), max(len(public) - 1, 0))
    training = len(public) - validating
    remaining = np.delete(np.arange(len(labels)), public)
    return PublicRows(public[:training], public[training:], remaining)


def _draw_balanced(labels: Array, wanted: int, rng: Generator) -> Integers:
    """Draw rows that cycle through the classes, so that a part cut off at either end is balanced too."""
    rows, starts, counts = rows_by_class(labels, rng)
    classes = len(counts)
    if wanted > (most := classes * int(counts.min())):
        raise InputError(f"at most {most:,} public samples can be balanced over classes, not {wanted:,}")
    turns, turn = np.arange(wanted) // classes, rng.permutation(classes)
    return rows[starts[np.resize(turn, wanted)] + turns]


def _draw_unequal(labels: Array, wanted: int, alpha: float, rng: Generator) -> Integers:
    """Draw rows with class shares from Dirichlet(alpha); other classes make up for exhausted ones."""
    rows, starts, counts = rows_by_class(labels, rng)
    shares = rng.dirichlet(np.full(len(counts), alpha))
    taken = np.zeros_like(counts)
    while missing := wanted - int(taken.sum()):
        weights = np.where(taken < counts, np.maximum(shares, 1e-12), 0.0)
        taken = np.minimum(taken + rng.multinomial(missing, weights / weights.sum()), counts)
    return rng.permutation(rows[ranges(starts, taken)])


def _draw_groups(groups: Array | None, count: int, min_size: int, rng: Generator) -> Integers:
    if groups is None:
        raise InputError("public.groups needs a group id (writer) for each sample, but the data have none")
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= min_size)
    if count > len(large):
        raise InputError(f"{count:,} public groups were requested, but only {len(large):,} are large enough")
    chosen = np.isin(group, rng.choice(large, count, replace=False))
    return rng.permutation(np.flatnonzero(chosen))

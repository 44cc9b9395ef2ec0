"""The server's public set, set aside before the other samples are divided among clients."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eunoe.config.options import Public
from eunoe.core.fields import in_words
from eunoe.core.rng import generator
from eunoe.data.partitions.base import Integers, ranges, rows_by_class
from eunoe.data.samples import DataSet, Samples
from eunoe.data.split import part_size
from eunoe.errors import InputError


class PublicRows(NamedTuple):
    """The rows that are public, to train and to validate on, and those left for the clients, in order."""

    train: Integers
    validation: Integers
    remaining: Integers


class PublicSet(NamedTuple):
    """The samples that public rows refer to, if there are any, the rows, and those left for the clients."""

    samples: Samples | None
    train: Integers | None
    validation: Integers | None
    remaining: Integers


def set_public_aside(data: DataSet, separate: DataSet | None, options: Public, seed: int) -> PublicSet:
    """The public set: of a separate data set, or else set aside from the clients' if a size is set."""
    everything = np.arange(len(data.train.y))
    if separate is not None:
        samples = separate.train
        if in_words(samples.x) != in_words(data.train.x):
            raise InputError(
                f"public samples of {separate.name!r} are {in_words(samples.x)}, but the clients' are "
                f"{in_words(data.train.x)}; use a public set of the same form"
            )
        rng = generator(seed, "public")
        chosen = choose_public(samples.y.numpy(), rng, options, separate.owners, foreign=True)
        return PublicSet(samples, chosen.train, chosen.validation, everything)
    if options.sized:
        chosen = choose_public(data.train.y.numpy(), generator(seed, "public"), options, data.owners)
        return PublicSet(data.train, *chosen)
    return PublicSet(None, None, None, everything)


def choose_public(
    labels: NDArray[Any],
    rng: np.random.Generator,
    options: Public,
    groups: NDArray[Any] | None = None,
    *,
    foreign: bool = False,
) -> PublicRows:
    """Draw the public rows. The validation part is the nearest whole number to its share, halves upwards.

    All samples of a separate public set may be public; they are if no size is set.
    """
    if (options.balanced or options.alpha is not None) and labels.ndim > 1:
        raise InputError("balanced and alpha choose by class, and these samples have none: leave them out")
    if (options.balanced or options.alpha is not None) and (labels < 0).any():
        raise InputError("balanced and alpha choose by class, and the public data have no labels")
    if options.groups is not None:
        public = _whole_groups(groups, options.groups, options.min_size, rng)
    else:
        share = 1.0 if foreign and not options.sized else options.share
        wanted = options.count or int(part_size(np.array(len(labels)), share))
        if wanted > len(labels):
            raise InputError(f"{wanted:,} public samples were requested, but there are {len(labels):,}")
        if options.alpha is not None:
            public = _unequal(labels, wanted, options.alpha, rng)
        else:
            public = (_balanced if options.balanced and wanted else _as_drawn)(labels, wanted, rng)
    if len(public) == len(labels) and len(public) and not foreign:
        raise InputError("all samples are public, which leaves none for the clients; use fewer")
    validating = min(int(part_size(np.array(len(public)), options.validation)), max(len(public) - 1, 0))
    training = len(public) - validating
    remaining = np.delete(np.arange(len(labels)), public)
    return PublicRows(public[:training], public[training:], remaining)


def _as_drawn(labels: NDArray[Any], wanted: int, rng: np.random.Generator) -> Integers:
    return rng.permutation(len(labels))[:wanted]


def _balanced(labels: NDArray[Any], wanted: int, rng: np.random.Generator) -> Integers:
    """Rows that cycle through the classes, so that a part cut off at either end is balanced too."""
    rows, starts, counts = rows_by_class(labels, rng)
    classes = len(counts)
    if wanted > (most := classes * int(counts.min())):
        raise InputError(
            f"{wanted:,} public samples cannot be balanced: the smallest of {classes} classes allows {most:,}"
        )
    turns, turn = np.arange(wanted) // classes, rng.permutation(classes)
    balanced: Integers = rows[starts[np.resize(turn, wanted)] + turns]
    return balanced


def _unequal(labels: NDArray[Any], wanted: int, alpha: float, rng: np.random.Generator) -> Integers:
    """Rows whose class shares are drawn from Dirichlet(alpha); other classes make up for exhausted ones."""
    rows, starts, counts = rows_by_class(labels, rng)
    shares = rng.dirichlet(np.full(len(counts), alpha))
    taken = np.zeros_like(counts)
    while missing := wanted - int(taken.sum()):
        weights = np.where(taken < counts, np.maximum(shares, 1e-12), 0.0)
        taken = np.minimum(taken + rng.multinomial(missing, weights / weights.sum()), counts)
    return rng.permutation(rows[ranges(starts, taken)])


def _whole_groups(
    groups: NDArray[Any] | None, wanted: int, min_size: int, rng: np.random.Generator
) -> Integers:
    if groups is None:
        raise InputError("public groups need a group id (writer) for each sample; the data have none")
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= min_size)
    if wanted > len(large):
        raise InputError(f"{wanted:,} public groups were requested, but {len(large):,} are large enough")
    chosen = np.isin(group, rng.choice(large, wanted, replace=False))
    return rng.permutation(np.flatnonzero(chosen))

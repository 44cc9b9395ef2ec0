"""The public samples that the server has, taken out before the others are divided among clients."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from eunoe.config.options import Options
from eunoe.data.partitions.base import Integers, ranges, stock
from eunoe.data.split import part_size
from eunoe.errors import InputError


class Public(Options):
    """How many samples are public and how they are chosen; give one of share, count and groups."""

    share: float = Field(0.0, ge=0, lt=1, description="share of the training samples that is public")
    count: int | None = Field(None, ge=1, description="number of public samples, in place of a share")
    groups: int | None = Field(None, ge=1, description="number of whole groups (writers) that are public")
    min_size: int = Field(1, ge=1, description="groups with fewer samples are never public")
    balanced: bool = Field(False, description="the same number of samples of each class, not as drawn")
    alpha: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="class shares drawn from Dirichlet(alpha), unequal where it is small",
    )
    validation: float = Field(0.1, ge=0, lt=1, description="share of the public samples used to validate")

    @model_validator(mode="after")
    def _one_way(self) -> "Public":
        if (self.share > 0) + (self.count is not None) + (self.groups is not None) > 1:
            raise ValueError("give only one of share, count and groups")
        if self.groups is not None and (self.balanced or self.alpha is not None):
            raise ValueError("the classes of whole groups are as they are; give a share or a count")
        if self.balanced and self.alpha is not None:
            raise ValueError("give only one of balanced and alpha")
        if (self.balanced or self.alpha is not None) and not self.sized:
            raise ValueError("balanced and alpha say how samples are chosen; give a share or a count too")
        if self.min_size > 1 and self.groups is None:
            raise ValueError("min_size is the least size of a public group; give a number of groups too")
        return self

    @property
    def sized(self) -> bool:
        """Whether it is said how many samples are public."""
        return self.share > 0 or self.count is not None or self.groups is not None


class PublicRows(NamedTuple):
    """The rows that are public, to train and to validate on, and those left for the clients, in order."""

    train: Integers
    validation: Integers
    remaining: Integers


def choose_public(
    labels: NDArray[Any],
    generator: np.random.Generator,
    options: Public,
    groups: NDArray[Any] | None = None,
    *,
    foreign: bool = False,
) -> PublicRows:
    """Draw the public rows. The validation part is the nearest whole number to its share, halves upwards.

    Of a foreign set, from which no client gets anything, all may be public; they are if no size is given.
    """
    if (options.balanced or options.alpha is not None) and (labels < 0).any():
        raise InputError("balanced and alpha choose by class, and the public data have no labels")
    if options.groups is not None:
        public = _whole_groups(groups, options.groups, options.min_size, generator)
    else:
        share = 1.0 if foreign and not options.sized else options.share
        wanted = options.count or int(part_size(np.array(len(labels)), share))
        if wanted > len(labels):
            raise InputError(f"{wanted:,} public samples were asked for, but there are {len(labels):,}")
        if options.alpha is not None:
            public = _unequal(labels, wanted, options.alpha, generator)
        else:
            public = (_balanced if options.balanced and wanted else _as_drawn)(labels, wanted, generator)
    if len(public) == len(labels) and len(public) and not foreign:
        raise InputError("all samples are public, which leaves none to the clients; ask for fewer")
    validating = min(int(part_size(np.array(len(public)), options.validation)), max(len(public) - 1, 0))
    training = len(public) - validating
    remaining = np.delete(np.arange(len(labels)), public)
    return PublicRows(public[:training], public[training:], remaining)


def _as_drawn(labels: NDArray[Any], wanted: int, generator: np.random.Generator) -> Integers:
    return generator.permutation(len(labels))[:wanted]


def _balanced(labels: NDArray[Any], wanted: int, generator: np.random.Generator) -> Integers:
    """Rows with one of each class after the other, so that a part cut off at either end is balanced too."""
    rows, starts, counts = stock(labels, generator)
    classes = len(counts)
    if wanted > (most := classes * int(counts.min())):
        raise InputError(
            f"{wanted:,} public samples cannot be balanced: the smallest of {classes} classes allows {most:,}"
        )
    turns, turn = np.arange(wanted) // classes, generator.permutation(classes)
    balanced: Integers = rows[starts[np.resize(turn, wanted)] + turns]
    return balanced


def _unequal(labels: NDArray[Any], wanted: int, alpha: float, generator: np.random.Generator) -> Integers:
    """Rows whose classes have shares drawn from Dirichlet(alpha); what a class lacks, the others give."""
    rows, starts, counts = stock(labels, generator)
    shares = generator.dirichlet(np.full(len(counts), alpha))
    taken = np.zeros_like(counts)
    while missing := wanted - int(taken.sum()):
        weights = np.where(taken < counts, np.maximum(shares, 1e-12), 0.0)
        taken = np.minimum(taken + generator.multinomial(missing, weights / weights.sum()), counts)
    return generator.permutation(rows[ranges(starts, taken)])


def _whole_groups(
    groups: NDArray[Any] | None, wanted: int, min_size: int, generator: np.random.Generator
) -> Integers:
    if groups is None:
        raise InputError("public groups need a group id (writer) for each sample; the data have none")
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= min_size)
    if wanted > len(large):
        raise InputError(f"{wanted:,} public groups were asked for, but {len(large):,} are large enough")
    chosen = np.isin(group, generator.choice(large, wanted, replace=False))
    return generator.permutation(np.flatnonzero(chosen))

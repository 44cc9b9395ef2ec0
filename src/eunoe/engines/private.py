"""Private parameters: a part of the model that stays with each client, neither sent nor aggregated.

    start   w_k: the model that the client received, with the private entries that it kept; in its first
            participation with those of the server: initial, or the mean of all others (private.start)
    client  y_k after [training]
    server  receives y_k with the private entries of the model that it sent, whose change is 0
    state   the client keeps the private entries of y_k, statistics of private layers included

A private classifier is FedPer (https://arxiv.org/abs/1912.00818) or, with training.head_epochs, FedRep
(https://arxiv.org/abs/2102.07078); private normalization is FedBN (https://arxiv.org/abs/2102.07623); a
private body is LG-FedAvg (https://arxiv.org/abs/2001.01523). Corrections of a method apply to shared entries:
uploads as long as the model, and the state that `correct` reads, have zeros in private entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from eunoe.config.options import Private
from eunoe.core.flat_model import FlatModel, Vectors, Weights
from eunoe.errors import InputError
from eunoe.server.aggregate import Upload

# Prefix of the names of private vectors in a client's state.
_PREFIX = "private "


@dataclass(frozen=True)
class PrivatePart:
    """Masks of the entries of a model's vectors that are private, by vector."""

    masks: Vectors
    # Whether new clients start from the mean of the others' private parts.
    start_from_mean: bool = False

    @classmethod
    def of(cls, model: FlatModel, options: Private) -> "PrivatePart":
        """Return the entries whose names match; "norm" matches all normalization layers."""
        modules = model.module.named_modules()
        norms = {name for name, m in modules if "norm" in type(m).__name__.lower() and not [*m.children()]}

        def matches(name: str, pattern: str) -> bool:
            by_name = fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
            return by_name or (pattern == "norm" and name.rpartition(".")[0] in norms)

        for pattern in options.names:
            if not any(matches(name, pattern) for name in model.names):
                names = ", ".join(model.names[:20])
                raise InputError(f"private: {pattern!r} matches no parameter of the model, which has {names}")
        tensors = dict([*model.module.named_parameters(), *model.module.named_buffers()])

        def mask(names: Sequence[str]) -> Tensor:
            chosen = [any(matches(name, pattern) for pattern in options.names) for name in names]
            sizes = [tensors[name].numel() for name in names]
            return torch.tensor(chosen, dtype=torch.bool).repeat_interleave(torch.tensor(sizes).long())

        groups = (model.names, model.float_names, model.integer_names)
        masks = dict(zip(model.weights.vectors(), map(mask, groups), strict=True))
        if masks["parameters"].all():
            raise InputError("private matches every parameter, so nothing is shared: set method = 'local'")
        return cls(masks, options.start == "mean")

    def take(self, weights: Weights) -> Vectors:
        """Return the private entries of a model, as part of a client's state."""
        vectors = weights.vectors().items()
        return {_PREFIX + name: value[self.masks[name]] for name, value in vectors if self.masks[name].any()}

    def put(self, weights: Weights, state: Mapping[str, Tensor]) -> Weights:
        """Return a model with the private entries of a client's state, if it has any."""
        vectors = weights.vectors()
        for name, value in vectors.items():
            if (own := state.get(_PREFIX + name)) is not None:
                vectors[name] = value.clone()
                vectors[name][self.masks[name].to(value.device)] = own.to(value)
        return Weights(**vectors)

    def hide(self, weights: Weights, sent: Weights) -> Weights:
        """Return a model with the private entries of the one that was sent."""
        return self.put(weights, self.take(sent))

    def clear(self, vectors: Mapping[str, Tensor]) -> Vectors:
        """Return vectors with zeros in the private entries of those that are as long as the model."""
        mask = self.masks["parameters"]
        return {
            name: v.masked_fill(mask.to(v.device), 0) if len(v) == len(mask) else v
            for name, v in vectors.items()
        }

    def _mask(self, name: str, size: int) -> Tensor:
        """Return which entries of a vector are private; one as long as the model is like its parameters."""
        mask = self.masks.get(name, self.masks["parameters"])
        return mask if len(mask) == size else torch.zeros(size, dtype=torch.bool)

    def pack(self, name: str, vector: Tensor) -> Tensor:
        """Return what is sent of a vector."""
        return vector[~self._mask(name, len(vector))]

    def packed_size(self, name: str, size: int) -> int:
        return int((~self._mask(name, size)).sum())

    def unpack(self, name: str, sent: Tensor, start: Tensor) -> Tensor:
        """Return a vector from what was sent of it; its private entries are those of `start`."""
        vector = start.clone()
        vector[~self._mask(name, len(start))] = sent
        return vector

    def bytes_kept(self, weights: Weights, uploads: Mapping[str, Upload]) -> int:
        """Return the bytes of a client's update that are not sent."""
        kept = {name: int(mask.sum()) for name, mask in self.masks.items()}
        sizes = {name: kept[name] * value.itemsize for name, value in weights.vectors().items()}
        alike = [u for u in uploads.values() if u.entries is None and u.size == len(weights.parameters)]
        return sum(sizes.values()) + len(alike) * sizes["parameters"]

    def replace(self, sums: Vectors, old: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> Vectors:
        """Return the sums of all clients' private parts after one of them has changed, and their number."""
        if not new:
            # Of a node on another machine.
            return sums
        known = any(name.startswith(_PREFIX) for name in old)
        total = {"clients": sums.get("clients", torch.tensor(0)) + int(not known)}
        for name, value in private_floats(new).items():
            before = sums.get(name, torch.zeros(len(value), dtype=torch.float64))
            change = value.cpu().double() - (old[name].cpu().double() if name in old else 0.0)
            total[name] = before + change
        return total

    def put_mean(self, weights: Weights, sums: Mapping[str, Tensor]) -> Weights:
        """Return a model with the mean of the clients' private parts, if any has one."""
        return self.put(weights, {name: sums[name] / sums["clients"] for name in private_floats(sums)})


def private_floats(state: Mapping[str, Tensor]) -> Vectors:
    """Return the floating-point part of a state that is private parameters and statistics."""
    return {n: v for n, v in state.items() if n.startswith(_PREFIX) and n != f"{_PREFIX}int_buffers"}

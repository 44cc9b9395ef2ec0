"""A frozen encoder in front of the model: features of every sample, computed once and cached on disk.

Only a model on the features is trained. They are cached in $EUNOE_DATA/features under a hash of the data and
of the encoder: its structure as printed, its options and its weights.
"""

import copy
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from eunoe.config import registry
from eunoe.core.fields import Fields, Ragged, Stored, call, gather
from eunoe.data.checks import Array, check_numbers
from eunoe.data.federation import Federation
from eunoe.data.preprocess import Preprocess
from eunoe.data.samples import DataSet, Samples, checksum, tensor_bytes
from eunoe.data.sources.hub import data_folder
from eunoe.data.sources.npz import load_or_compute
from eunoe.errors import InputError, first_line

logger = logging.getLogger(__name__)
_BATCH_SIZE = 64


@dataclass(frozen=True)
class Backbone:
    """A frozen encoder, and one sample of each part of the data that it encodes."""

    module: nn.Module
    raw: DataSet
    preprocess: Preprocess
    about: Mapping[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        # Worker processes need only the features.
        return {**self.__dict__, "module": nn.Identity()}

    def features(self, x: Stored) -> Tensor:
        """Return the features of samples, one row each; on one thread, for the same bits everywhere."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.module.eval()
        # Samples of similar length share a batch, to reduce padding.
        fields = x.values if isinstance(x, Fields) else (x,)
        lengths = [field.lengths for field in fields if isinstance(field, Ragged)]
        order = torch.argsort(lengths[0], stable=True) if lengths else torch.arange(len(x))
        try:
            with torch.no_grad():
                parts = [self._encode(x, rows) for rows in torch.split(order, _BATCH_SIZE)]
        finally:
            torch.set_num_threads(threads)
        features = torch.cat(parts)
        result = torch.empty_like(features)
        result[order] = features
        return result

    def _encode(self, x: Stored, rows: Tensor) -> Tensor:
        try:
            features = call(self.module, self.preprocess(gather(x, rows)))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"the backbone cannot take these inputs: {first_line(error)}") from None
        if not isinstance(features, Tensor) or features.ndim < 2 or len(features) != len(rows):
            raise InputError("the backbone must return a tensor with one row of features per sample")
        return features.float()

    def digest(self, data: DataSet) -> str:
        """Return a hash of the samples, their preprocessing and the encoder."""
        digest = hashlib.sha256(checksum(data.train, data.test).encode())
        digest.update(f"{self.module!r} {dict(self.about)!r} {data.mean} {data.std}".encode())
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor_bytes(value))
        return digest.hexdigest()


def build_backbone(name: str, options: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
    """Return the encoder of a config section, and its description."""
    module = registry.build("backbone", name, options)
    if not isinstance(module, nn.Module):
        raise InputError(f"backbone {name!r} returned a {type(module).__name__}; it must be a torch module")
    return module, {"name": name, **options}


def encode_data(data: DataSet, module: nn.Module, about: Mapping[str, Any] | None = None) -> DataSet:
    """Return the data set with the features of a frozen module as inputs."""
    backbone = Backbone(module.float(), _first_samples(data), Preprocess(data), about or {"name": "own"})

    def compute() -> dict[str, Array]:
        logger.info("computing features of %d samples", len(data.train) + len(data.test))
        return {name: backbone.features(getattr(data, name).x).numpy() for name in ("train", "test")}

    path = data_folder() / "features" / f"{backbone.digest(data)}.npz"
    arrays = load_or_compute(path, compute)
    train, test = (check_numbers(arrays.get(part, ()), f"{path}: {part}") for part in ("train", "test"))
    return replace(
        data,
        train=Samples(train, data.train.y),
        test=Samples(test, data.test.y),
        mean=None,
        std=None,
        encoding=None,
        backbone=backbone,
    )


def apply_backbone(federation: Federation, module: nn.Module) -> Federation:
    """Return the federation with features of your own frozen module, called like a model, as inputs."""
    if federation.shift is not None:
        raise InputError("a backbone cannot be combined with a feature shift; remove one of them")
    # The copy is cast and set to evaluation mode, not the caller's module.
    module = copy.deepcopy(module)
    data = encode_data(federation.data, module)
    public = federation.public
    if public is federation.data.train:
        public = data.train
    elif public is not None:
        public = encode_data(replace(federation.data, train=public, test=public), module).train
    return replace(federation, data=data, public=public)


def _first_samples(data: DataSet) -> DataSet:
    """Return the data set with one sample in each part, which has the form of all samples."""
    train, test = (Samples(part.x[:1], part.y[:1]) for part in (data.train, data.test))
    ids = data.vocabulary
    encoding = data.encoding if ids is None else {**(data.encoding or {}), "ids": ids}
    return replace(data, train=train, test=test, writers_train=None, writers_test=None, encoding=encoding)

"""A frozen encoder in front of the model: features of every sample, computed once and kept on disk.

What is trained is a head on the features. They are kept in $EUNOE_DATA/features under the digest of the data
and of the encoder: its structure, as it prints itself, its options and its weights.
"""

import copy
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.config import registry
from eunoe.core.calling import call
from eunoe.core.fields import Fields, Ragged, Stored, gather
from eunoe.data.federation import Federation
from eunoe.data.preprocess import Preprocess
from eunoe.data.samples import DataSet, Samples, checksum
from eunoe.data.sources.hub import data_folder
from eunoe.data.sources.npz import read_npz, write_npz
from eunoe.errors import InputError, first_line

logger = logging.getLogger(__name__)
# Samples that are encoded at a time.
_AT_ONCE = 64


@dataclass(frozen=True)
class Backbone:
    """A frozen encoder, and the data set that it encodes with one sample in each part."""

    module: nn.Module
    raw: DataSet
    preprocess: Preprocess
    about: Mapping[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        # Processes that train need the features only.
        return {**self.__dict__, "module": nn.Identity()}

    def features(self, x: Stored) -> Tensor:
        """The features of samples, one row each; on one thread, so that they are the same everywhere."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self.module.eval()
        # Neighbors in length share a batch, so that little is padded.
        order = torch.argsort(_lengths(x), stable=True)
        try:
            with torch.no_grad():
                parts = [self._part(gather(x, rows), len(rows)) for rows in torch.split(order, _AT_ONCE)]
        finally:
            torch.set_num_threads(threads)
        features = torch.cat(parts)
        result = torch.empty_like(features)
        result[order] = features
        return result

    def _part(self, batch: Any, samples: int) -> Tensor:
        try:
            features = call(self.module, self.preprocess(batch))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"the backbone cannot take these inputs: {first_line(error)}") from None
        if not isinstance(features, Tensor) or features.ndim < 2 or len(features) != samples:
            raise InputError("the backbone must return a tensor with a row of features for each sample")
        return features.float()

    def digest(self, data: DataSet) -> str:
        """The same for the same samples, preprocessing and encoder."""
        known = hashlib.sha256(checksum(data.train, data.test).encode())
        known.update(f"{self.module!r} {dict(self.about)!r} {data.mean} {data.std}".encode())
        for name, value in self.module.state_dict().items():
            known.update(name.encode())
            known.update(np.ascontiguousarray(value.cpu().numpy()).reshape(-1).view(np.uint8).data)
        return known.hexdigest()


def named_backbone(name: str, options: Mapping[str, Any]) -> tuple[nn.Module, dict[str, Any]]:
    """The encoder of a config section, and what describes it."""
    module = registry.build("backbone", name, options)
    if not isinstance(module, nn.Module):
        raise InputError(f"backbone {name!r} returned a {type(module).__name__}; it must be a torch module")
    return module, {"name": name, **options}


def encoded(data: DataSet, module: nn.Module, about: Mapping[str, Any] | None = None) -> DataSet:
    """The data set with features by a frozen module in place of its inputs."""
    backbone = Backbone(module.float(), _one_each(data), Preprocess(data), about or {"name": "own"})
    path = data_folder() / "features" / f"{backbone.digest(data)}.npz"
    if path.exists():
        arrays = {name: torch.from_numpy(array) for name, array in read_npz(path).items()}
    else:
        logger.info("computing features of %d samples", len(data.train) + len(data.test))
        arrays = {name: backbone.features(getattr(data, name).x) for name in ("train", "test")}
        try:
            write_npz(path, {name: value.numpy() for name, value in arrays.items()})
        except OSError as error:
            logger.warning("features are not kept: %s", error)
    return replace(
        data,
        train=Samples(arrays["train"], data.train.y),
        test=Samples(arrays["test"], data.test.y),
        mean=None,
        std=None,
        encoding=None,
        backbone=backbone,
    )


def encoded_by(federation: Federation, module: nn.Module) -> Federation:
    """A federation with features by a frozen module of your own in place of its inputs.

    The module is called as a model would be and returns a row of features for each sample.
    """
    if federation.shift is not None:
        raise InputError("features are computed once for all clients: leave the feature shift out")
    # What is cast and set to evaluation is not the caller's.
    module = copy.deepcopy(module)
    data = encoded(federation.data, module)
    public = federation.public
    if public is federation.data.train:
        public = data.train
    elif public is not None:
        public = encoded(replace(federation.data, train=public, test=public), module).train
    return replace(federation, data=data, public=public)


def _one_each(data: DataSet) -> DataSet:
    """The data set with one sample in each part, which says what samples look like."""
    train, test = (Samples(part.x[:1], part.y[:1]) for part in (data.train, data.test))
    ids = data.vocabulary
    encoding = data.encoding if ids is None else {**(data.encoding or {}), "ids": ids}
    return replace(data, train=train, test=test, writers_train=None, writers_test=None, encoding=encoding)


def _lengths(x: Stored) -> Tensor:
    fields = x.values if isinstance(x, Fields) else (x,)
    ragged = [field for field in fields if isinstance(field, Ragged)]
    return ragged[0].lengths if ragged else torch.zeros(len(x), dtype=torch.int64)

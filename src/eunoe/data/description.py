"""What a model takes and gives, in what JSON can say, so that it is of use without its training data."""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from eunoe.core.fields import Fields, Input, Ragged, Stored, gather
from eunoe.core.tasks import Regression, Task
from eunoe.data.federation import Federation


def describe(federation: Federation) -> dict[str, Any]:
    """Type and shape of a stored sample, what is done to it before the model, and the classes.

    `encoding` says how a table's columns or a text became such a sample, for data that were one. Of numbers,
    a model's output times `target_std` plus `target_mean` is in the units of the data.
    """
    data, preprocess = federation.data, federation.preprocess
    if data.backbone is not None:
        whole = replace(federation, data=data.backbone.raw)
        features = _form(data.train.x, preprocess(gather(data.train.x, torch.tensor([0]))))
        return {**describe(whole), "backbone": dict(data.backbone.about), "model_input": features}
    return {
        "schema": 1,
        "input": _form(data.train.x),
        "steps": preprocess.steps(data.train.x.labels if isinstance(data.train.x, Fields) else ()),
        "mean": data.mean,
        "std": data.std,
        "model_input": _form(data.train.x, preprocess(gather(data.train.x, torch.tensor([0])))),
        "task": data.task.name,
        "classes": data.classes,
        "class_names": data.class_names,
        **_target(data.task),
        "encoding": data.encoding,
    }


def _target(task: Task) -> dict[str, Any]:
    """What a model's outputs become numbers in the units of the data by."""
    return {"target_mean": task.mean, "target_std": task.std} if isinstance(task, Regression) else {}


def _form(stored: Stored, batch: Input | None = None) -> dict[str, Any]:
    """Type and shape of a sample as it is stored or, if one is passed, in a batch; null is any length."""
    if isinstance(stored, Fields):
        seen = [None] * len(stored.values) if batch is None else cast(Fields, batch).values
        return {
            name: _form(field, one)
            for name, field, one in zip(stored.labels, stored.values, seen, strict=True)
        }
    x = stored.padded(torch.tensor([0])) if isinstance(stored, Ragged) else stored
    x = x if batch is None else cast(Tensor, batch)
    shape = list(x.shape[1:])
    return {
        "dtype": str(x.dtype).removeprefix("torch."),
        "shape": [None, *shape[1:]] if isinstance(stored, Ragged) else shape,
        **({"padding": stored.padding} if isinstance(stored, Ragged) else {}),
    }

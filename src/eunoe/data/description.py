"""A description of a model's inputs and outputs as JSON values, for use without the training data."""

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from eunoe.core.fields import Fields, Input, Ragged, Stored, gather
from eunoe.core.tasks import Regression
from eunoe.data.federation import Federation


def describe(federation: Federation) -> dict[str, Any]:
    """Return the type and shape of a stored sample, the preprocessing steps, and the classes.

    `encoding` describes how a table's columns or a text were encoded. For regression, a model's output times
    `target_std` plus `target_mean` is in the units of the data.
    """
    data, preprocess = federation.data, federation.preprocess
    if data.backbone is not None:
        raw = replace(federation, data=data.backbone.raw)
        features = _form(data.train.x, preprocess(gather(data.train.x, torch.tensor([0]))))
        return {**describe(raw), "backbone": dict(data.backbone.about), "model_input": features}
    task = data.task
    scale = {"target_mean": task.mean, "target_std": task.std} if isinstance(task, Regression) else {}
    return {
        "schema": 1,
        "input": _form(data.train.x),
        "steps": preprocess.steps(data.train.x.labels if isinstance(data.train.x, Fields) else ()),
        "mean": data.mean,
        "std": data.std,
        "model_input": _form(data.train.x, preprocess(gather(data.train.x, torch.tensor([0])))),
        "task": task.name,
        "classes": data.classes,
        "class_names": data.class_names,
        **scale,
        "encoding": data.encoding,
    }


def _form(stored: Stored, batch: Input | None = None) -> dict[str, Any]:
    """Return type and shape of a stored sample or, if it is passed, of a batch; null is any length."""
    if isinstance(stored, Fields):
        values = [None] * len(stored.values) if batch is None else cast(Fields, batch).values
        return {
            name: _form(field, value)
            for name, field, value in zip(stored.labels, stored.values, values, strict=True)
        }
    x = stored.pad(torch.tensor([0])) if isinstance(stored, Ragged) else stored
    x = x if batch is None else cast(Tensor, batch)
    shape = list(x.shape[1:])
    return {
        "dtype": str(x.dtype).removeprefix("torch."),
        "shape": [None, *shape[1:]] if isinstance(stored, Ragged) else shape,
        **({"padding": stored.padding} if isinstance(stored, Ragged) else {}),
    }

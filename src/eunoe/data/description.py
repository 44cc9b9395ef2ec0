"""A description of a model's inputs and outputs as JSON values, for use without the training data."""

from dataclasses import replace
from typing import Any

import torch

from eunoe.core.fields import Fields, Ragged, Stored, gather
from eunoe.core.tasks import Regression
from eunoe.data.federation import Federation


def describe(federation: Federation) -> dict[str, Any]:
    """Return the type and shape of a stored sample, the preprocessing steps, and the classes.

    `encoding` describes how a table's columns or a text were encoded. For regression, a model's output times
    `target_std` plus `target_mean` is in the units of the data.
    """
    data, preprocess = federation.data, federation.preprocess
    sample = gather(data.train.x, torch.tensor([0]))
    model_input = _form(data.train.x, preprocess(sample))
    if data.backbone is not None:
        raw = replace(federation, data=data.backbone.raw)
        return {**describe(raw), "backbone": dict(data.backbone.about), "model_input": model_input}
    task = data.task
    scale = {"target_mean": task.mean, "target_std": task.std} if isinstance(task, Regression) else {}
    return {
        "schema": 1,
        "input": _form(data.train.x, sample),
        "steps": preprocess.steps,
        "mean": data.mean,
        "std": data.std,
        "model_input": model_input,
        "task": task.name,
        "classes": data.classes,
        "class_names": data.class_names,
        **scale,
        "encoding": data.encoding,
    }


def _form(stored: Stored, batch: Any) -> dict[str, Any]:
    """Return type and shape of a sample in a batch of stored samples; null is any length."""
    if isinstance(stored, Fields):
        fields = zip(stored.labels, stored.values, batch.values, strict=True)
        return {name: _form(field, value) for name, field, value in fields}
    form = {"dtype": str(batch.dtype).removeprefix("torch."), "shape": list(batch.shape[1:])}
    if isinstance(stored, Ragged):
        return {**form, "shape": [None, *form["shape"][1:]], "padding": stored.padding}
    return form

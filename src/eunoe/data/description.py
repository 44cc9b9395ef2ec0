"""What a model takes and gives, in what JSON can say, so that it is of use without its training data."""

from typing import Any

from torch import Tensor

from eunoe.data.federation import Federation


def describe(federation: Federation) -> dict[str, Any]:
    """Type and shape of a stored sample, what is done to it before the model, and the classes.

    `encoding` says how a table's columns or a text became such a sample, for data that were one.
    """
    data, preprocess = federation.data, federation.preprocess
    return {
        "schema": 1,
        "input": _form(data.train.x),
        "steps": preprocess.steps,
        "mean": data.mean,
        "std": data.std,
        "model_input": _form(preprocess(data.train.x[:1])),
        "classes": data.classes,
        "class_names": data.class_names,
        "encoding": data.encoding,
    }


def _form(x: Tensor) -> dict[str, Any]:
    return {"dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape[1:])}

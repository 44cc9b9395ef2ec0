"""A run's model as files that plain PyTorch reads: the weights or the whole program, and what it takes."""

import json
import logging
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from eunoe.core.fields import Fields, Ragged, Stored, gather
from eunoe.core.flat_model import save_state
from eunoe.core.tasks import Regression
from eunoe.data.federation import Federation
from eunoe.errors import InputError, RunFailed, first_line
from eunoe.models.hf import HF
from eunoe.simulation.run import Run, Which
from eunoe.system.files import replacing, write_text
from eunoe.system.transformers_library import locate_model, quiet


def export_model(
    run: Run,
    target: Path,
    which: Which = "last",
    raw: bool = False,
    client: int | None = None,
    merged: bool = False,
) -> list[Path]:
    """Write a run's model, and beside it a JSON file with its preprocessing; gives both paths.

    The model is a state_dict in safetensors, whose metadata hold the JSON too. With `raw` it is a program for
    `torch.export.load`, which takes inputs as they are stored (several fields by position) and needs no code
    of the model. A run without a global model has one for each client. A model 'hf' is a folder for the
    transformers library, with adapters or, if `merged`, as one network; the JSON file is inside.
    """
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to write the model to")
    if run.config.model.name == "hf" and not raw:
        return _export_folder(run, cast(HF, run.model(which, client=client)), target, merged)
    if merged:
        raise InputError("only adapters of a model 'hf' can be merged: leave --merged out")
    if os.path.isdir(target):
        raise InputError(f"{target} is a folder; name the file to write the model to")
    if target.suffix == ".json":
        raise InputError(f"{target} would be overwritten by the model's description; take another suffix")
    if raw and target.suffix != ".pt2":
        raise InputError(f"{target} must end in .pt2, as PyTorch's exported programs do")
    model, federation = run.model(which, raw, client), run.simulation.federation
    about = {**describe(federation), "model": run.values.get("model", run.config.model.name)}
    text, beside = json.dumps(about, indent=1), target.with_suffix(".json")
    try:
        with replacing(target) as partial:
            if raw:
                backbone = federation.data.backbone
                stored = federation.data.train.x if backbone is None else backbone.raw.train.x
                _save_program(model, stored, partial)
            else:
                save_state(model.state_dict(), partial, {"description": json.dumps(about)})
        write_text(beside, text + "\n")
    except RunFailed as error:
        raise InputError(f"cannot write the model to {target}: {error.__cause__}") from None
    return [target, beside]


def _save_program(model: nn.Module, samples: Stored, path: Path) -> None:
    """Write the module as a program for batches of any size and, where it varies, any length."""
    # The example must have two samples: sizes of 1 are taken to be fixed.
    example = gather(samples, torch.tensor([0, len(samples) - 1]))
    # Networks bound the length by the positions that they know: the bounds are found, not set.
    batch, length = torch.export.Dim("batch"), torch.export.Dim.DYNAMIC
    fields = samples.values if isinstance(samples, Fields) else [samples]
    sizes = [{0: batch, 1: length} if isinstance(field, Ragged) else {0: batch} for field in fields]
    args = example.values if isinstance(example, Fields) else (example,)
    # All fields are one parameter, `*fields`.
    shapes: Any = {"fields": tuple(sizes)} if isinstance(samples, Fields) else tuple(sizes)
    noisy = logging.getLogger("torch.export")
    level = noisy.level
    try:
        noisy.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, args, dynamic_shapes=shapes)
            with open(path, "wb") as file:
                torch.export.save(program, file)
    except OSError:
        raise
    except Exception as error:
        raise InputError(
            f"torch.export cannot make a program of this model ({first_line(error)}): export it without --raw"
        ) from None
    finally:
        noisy.setLevel(level)


def _export_folder(run: Run, model: HF, target: Path, merged: bool) -> list[Path]:
    """Write adapters for peft or, with `merged`, the whole network; with its tokenizer and eunoe.json."""
    if os.path.lexists(target):
        raise InputError(f"{target} exists; name a new folder to write the model to")
    if model.random and not merged and model.adapted:
        raise InputError("the frozen weights of this model are random: export it with --merged")
    data = run.simulation.federation.data
    about = {**describe(run.simulation.federation), "model": run.values.get("model", run.config.model.name)}
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        partial.mkdir()
        try:
            model.save(partial, merged, data.class_names)
            if data.encoding is not None and "tokenizer" in data.encoding:
                with quiet("the export"):
                    from transformers import AutoTokenizer

                    tokenizer = AutoTokenizer.from_pretrained(locate_model(data.encoding["tokenizer"]))
                    tokenizer.save_pretrained(partial)
            description = target / "eunoe.json"
            (partial / description.name).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            partial.replace(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror or error}") from None
    return [target, description]


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

"""A run's model of the transformers library as a folder that transformers and peft load."""

import json
import os
import shutil
from pathlib import Path

from eunoe.data.description import describe
from eunoe.errors import InputError
from eunoe.models.hf import HF
from eunoe.simulation.run import Run
from eunoe.system.transformers_library import locate_model, quiet


def export_folder(run: Run, model: HF, target: Path, merged: bool) -> list[Path]:
    """Write adapters for peft or, with `merged`, the whole network; with its tokenizer and eunoe.json."""
    if os.path.lexists(target):
        raise InputError(f"{target} exists; name a new folder to write the model to")
    if model.random and not merged and model.adapted:
        raise InputError(
            "the frozen weights of this model are random and kept nowhere else: export it with --merged"
        )
    data = run.simulation.federation.data
    about = {**describe(run.simulation.federation), "model": run.values["model"]}
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        partial.mkdir()
        model.save(partial, merged, data.class_names)
        if data.encoding is not None and "tokenizer" in data.encoding:
            with quiet("the export"):
                from transformers import AutoTokenizer

                AutoTokenizer.from_pretrained(locate_model(data.encoding["tokenizer"])).save_pretrained(
                    partial
                )
        description = target / "eunoe.json"
        (partial / description.name).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return [target, description]

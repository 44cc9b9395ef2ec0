"""The setting of a run in words: how many clients, rounds and samples, and of what size."""

from collections.abc import Mapping, Sequence
from typing import Any

from eunoe.papers.exhibit import PlannedRun

FRACTIONS = {2: "half", 4: "a quarter of"}


def in_words(planned: Sequence[PlannedRun]) -> str:
    """The setting that all of these runs share; what differs between them is left out."""
    found = [_parts(run.values) for run in planned]
    return ", ".join(part for part in found[0] if all(part in other for other in found)) if found else ""


def _parts(values: Mapping[str, Any]) -> list[str]:
    data, model, share = values["data"], values["model"], values["participation"]
    parts = []
    if clients := values["partition"].get("clients"):
        parts.append(f"{clients} clients")
    parts.append(f"{share} a round" if isinstance(share, int) else f"{share:.0%} a round")
    parts.append(f"{values['rounds']} rounds")
    if limit := data.get("limit"):
        parts.append(f"{limit:,} training images")
    if (pool := data.get("pool", 1)) > 1:
        parts.append(f"images of {FRACTIONS[pool]} the size")
    if groups := (values.get("public") or {}).get("groups"):
        parts.append(f"{groups} public groups")
    if width := model.get("width"):
        parts.append(f"{model['name']} of width {width}")
    if (last := values["evaluation"]["last"]) > 1:
        parts.append(f"last rounds: {last}")
    return parts

"""Options that would do nothing are refused before round 1."""

from pathlib import Path
from typing import Any

import pytest

from eunoe.config.schema import make_config
from eunoe.config.settings import apply_settings
from eunoe.errors import InputError
from eunoe.simulation.running import run
from tests.small_runs import NAMED


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"probes": [{"metric": "drift"}]}, "probe 'drift' is never measured: set rounds, every or at"),
        ({"probes": [{"metric": "probability", "every": 1}]}, "probe 'probability' needs a public set"),
        ({"engine": {"name": "serial", "workers": 2}}, "engine 'serial' has no option 'workers'"),
        ({"engine": {"name": "serial", "cohort": 2}}, "engine 'serial' has no option 'cohort'"),
        ({"engine": {"name": "serial", "address": "auto"}}, "engine 'serial' has no option 'address'"),
        ({"engine": {"name": "process", "device": "cuda"}}, "has no option device: set devices"),
        ({"model": {"name": "logistic", "partial": True}}, "partial needs start_from"),
        ({"method": {"name": "central", "weighting": "uniform"}}, "weighting has no effect with method="),
        ({"evaluation": {"personal": 10**6}}, "evaluation.personal"),
        ({"evaluation": {"personal": 99_999}, "partition": {"clients": 1001}}, "can be evaluated"),
        ({"engine": {"name": "serial", "device": "no\x07such"}}, "has the unprintable character"),
        ({"engine": {"name": "serial", "device": "cuda:99"}}, "engine.device: 'cuda:99' cannot be used"),
        ({"augment": {"crop_padding": 10**9}}, "augment.crop_padding"),
        ({"augment": {"cutout": 10**9}}, "augment.cutout"),
        ({"model": {"name": "mlp", "hidden": [10**9]}}, "hidden"),
        ({"loss": {"name": "logit_adjusted", "tau": 1e300}}, "tau"),
        ({"name": "\x1b[2J"}, "has the unprintable character"),
    ],
)
def test_one_clear_line_before_anything_is_written(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        run({**NAMED, **values}, out=tmp_path / "run")
    assert says in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_text_after_a_line_break_is_no_part_of_a_setting() -> None:
    with pytest.raises(InputError, match="has several lines"):
        apply_settings({}, ["rounds=1\nseed = 5"])
    assert apply_settings({}, ["rounds=1\n"]) == {"rounds": 1}


def test_what_central_training_was_written_with_can_be_read_again() -> None:
    make_config({"method": {"name": "central", "weighting": "samples"}})

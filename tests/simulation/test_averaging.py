"""Runs whose evaluated model is the mean of the global models."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.small_runs import FAST, Stopped, bits, stop_after
from tests.waiting import run_until_killed

SMALL: dict[str, Any] = {**FAST, "model": {"name": "mlp", "hidden": [4]}}
BATCH_NORM: dict[str, Any] = {**SMALL, "model": {"name": "tests.simulation.test_averaging:normalized"}}


def normalized(shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    size = int(torch.tensor(shape).prod())
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(size, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, classes)
    )


def records(done: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.folder / "metrics.jsonl").read_text().splitlines()]


def same(one: Weights, other: Weights) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(one.vectors().values(), other.vectors().values(), strict=True)
    )


@pytest.mark.parametrize("averaging", [{"decay": 0.0}, {"last": 1}])
@pytest.mark.parametrize("setting", [SMALL, {**SMALL, "method": "feddyn"}, BATCH_NORM])
def test_of_one_model_it_is_the_run_without_it(setting: dict[str, Any], averaging: dict[str, Any]) -> None:
    plain, mean = run(setting), run(setting, averaging=averaging)
    assert same(plain.weights(), mean.weights())
    assert records(plain) == [{k: v for k, v in line.items() if k != "sent"} for line in records(mean)]


@pytest.mark.parametrize("method", ["fedavg", "feddyn", "fedacg"])
def test_the_mean_is_of_the_models_that_the_method_reports(method: str) -> None:
    """Clients start from the newest model, so the rounds are those of the run without averaging."""
    setting = {**BATCH_NORM, "method": method}
    w1, w2, w3 = (run({**setting, "rounds": rounds}).weights() for rounds in (1, 2, 3))
    for averaging, shares in (({"decay": 0.5}, (1 / 7, 2 / 7, 4 / 7)), ({"last": 2}, (0.0, 0.5, 0.5))):
        done = run({**setting, "rounds": 3}, averaging=averaging)
        found = done.weights()
        for name in ("parameters", "float_buffers"):
            models = [getattr(w, name).double() for w in (w1, w2, w3)]
            wanted = sum(share * one for share, one in zip(shares, models, strict=True))
            torch.testing.assert_close(getattr(found, name), wanted.float())
        assert torch.equal(found.int_buffers, w3.int_buffers)
        module = done.model().state_dict()
        assert torch.equal(module["1.weight"].flatten(), found.parameters[: module["1.weight"].numel()])


def test_both_models_are_measured_and_probes_see_the_round_alone(tmp_path: Path) -> None:
    setting = {**SMALL, "rounds": 5, "probes": [{"metric": "local_per_class", "at": [0.6]}]}
    plain, mean = run(setting), run(setting, averaging={"decay": 0.8})
    for before, now in zip(records(plain), records(mean), strict=True):
        assert now["sent"]["test"] == before["test"]
        assert now["sent"]["forgetting"] == before["forgetting"]
    assert [line["test"] for line in records(plain)[1:]] != [line["test"] for line in records(mean)[1:]]
    assert plain.read.probes == mean.read.probes
    assert mean.read.sent_forgetting == plain.forgetting
    assert "sent" not in records(plain)[0]


def test_the_best_model_is_the_best_mean() -> None:
    done = run({**SMALL, "rounds": 1, "split": {"validation": 0.3}}, averaging={"decay": 0.5})
    assert same(done.weights("best"), done.weights())


@pytest.mark.parametrize("averaging", [{"decay": 0.9}, {"last": 3}])
@pytest.mark.parametrize("after", [1, 3])
def test_it_goes_on_with_the_same_bits(tmp_path: Path, averaging: dict[str, Any], after: int) -> None:
    setting = {**BATCH_NORM, "rounds": 6, "averaging": averaging}
    calm = run(setting, out=tmp_path / "calm")
    with pytest.raises(Stopped):
        run(setting, out=tmp_path / "broken", on_round=stop_after(after))
    resumed = resume(tmp_path / "broken")
    assert bits(tmp_path / "broken") == bits(tmp_path / "calm")
    assert same(resumed.weights(), calm.weights())


def test_killed_and_resumed_it_has_the_same_bits(tmp_path: Path) -> None:
    setting = {**SMALL, "rounds": 12, "averaging": {"decay": 0.9}}
    run(setting, out=tmp_path / "calm")
    run_until_killed(setting, tmp_path / "killed", 3)
    resume(tmp_path / "killed")
    assert bits(tmp_path / "killed") == bits(tmp_path / "calm")


@pytest.mark.parametrize("engine", ["process", "vectorized"])
def test_it_works_on_other_engines(engine: str) -> None:
    setting = {**SMALL, "averaging": {"decay": 0.5}}
    serial, other = run(setting), run({**setting, "engine": engine})
    torch.testing.assert_close(other.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-5)
    assert engine == "vectorized" or records(serial) == records(other)


def test_it_cannot_be_changed_when_a_run_goes_on(tmp_path: Path) -> None:
    run(SMALL, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"averaging is None in .* and cannot become"):
        resume(tmp_path / "run", averaging={"decay": 0.9}, rounds=9)

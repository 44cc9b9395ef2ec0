"""Runs in lockstep against the same runs one by one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.config import registry
from eunoe.config.registry import PRESETS
from eunoe.errors import InputError
from eunoe.simulation.many import Planned, execute
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_status
from tests.helpers import Net, blobs
from tests.small_runs import REFERENCES
from tests.waiting import until

BASE: dict[str, Any] = {
    "rounds": 2,
    "participation": 3,
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.5},
    "split": {"validation": 0.2},
    "model": {"name": "mlp", "hidden": [6]},
    "training": {"epochs": 1, "batch_size": 32, "lr": 0.1},
    "evaluation": {"last": 2},
    "public": {"share": 0.1},
    "checkpoint_seconds": 0,
}
# What makes a method do something of its own, and a number in which two of its runs differ.
OPTIONS: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.3},
    "fednova": {"mu": 0.3},
    "fedcurv": {"weight": 0.1},
    "flashback": {"server_epochs": 0},
}
OTHERS: dict[str, dict[str, Any]] = {
    "fedprox": {"mu": 0.1},
    "fednova": {"mu": 0.1},
    "feddyn": {"alpha": 0.03},
    "moon": {"tau": 0.8},
    "fedacg": {"beta": 0.02},
    "fedcm": {"alpha": 0.3},
    "fedsam": {"rho": 0.1},
    "feddecorr": {"beta": 0.3},
    "fedgkd": {"gamma": 0.5},
    "fedsol": {"rho": 0.5},
}
METHODS = [
    name
    for name in registry.names("method")
    if name not in PRESETS
    and registry.find("method", name).vectorizes
    and registry.find("method", name).trains_clients
]


def plan(folder: Path, *variants: dict[str, Any], **values: Any) -> list[Planned]:
    """Plan a run for each variant of the config."""
    return [
        Planned(f"run {k}", {**BASE, **values, **variant}, folder / f"run-{k}")
        for k, variant in enumerate(variants)
    ]


def weights(run: Run) -> torch.Tensor:
    if run.values["method"]["name"] == "local":
        clients = sorted({client for record in run.records for client in record["clients"]})
        return torch.cat([run.weights(client=client).parameters for client in clients])
    return run.weights().parameters


def lockstep(run: Run) -> Any:
    return json.loads((run.folder / "environment.json").read_text("utf-8")).get("lockstep")


def compare(together: Sequence[Run], alone: Sequence[Run], tolerance: float = 1e-5) -> None:
    """Compare models and records of runs in lockstep with those of serial runs."""
    for one, other in zip(together, alone, strict=True):
        assert one.values["engine"]["name"] == "vectorized"
        assert other.values["engine"]["name"] != "vectorized"
        assert one.status["state"] == other.status["state"]
        torch.testing.assert_close(weights(one), weights(other), rtol=tolerance, atol=tolerance)
        assert len(one.records) == len(other.records)
        for mine, exact in zip(one.records, other.records, strict=True):
            for key in ("clients", "sizes", "steps", "forwards", "backwards", "dropped"):
                assert mine[key] == exact[key], key
            for key in ("loss_before", "loss_after", "update_norms"):
                np.testing.assert_allclose(
                    np.array(mine[key], float), np.array(exact[key], float), rtol=1e-3, atol=1e-4
                )
            for part in ("validation", "test"):
                assert (part in mine) == (part in exact)
                if part in mine:
                    assert mine[part]["loss"] == pytest.approx(exact[part]["loss"], rel=1e-4)
                    assert mine[part]["accuracy"] == pytest.approx(exact[part]["accuracy"], abs=0.01)


def both(tmp_path: Path, *variants: dict[str, Any], tolerance: float = 1e-5, **values: Any) -> list[Run]:
    """Execute runs in lockstep and one by one, and compare them."""
    together = execute(plan(tmp_path / "together", *variants, **values))
    assert [lockstep(run) for run in together] == [len(variants)] * len(variants)
    compare(together, execute(plan(tmp_path / "alone", *variants, **values), exact=True), tolerance)
    return together


@pytest.mark.parametrize("name", METHODS)
def test_every_method_equals_serial_within_rounding(tmp_path: Path, name: str) -> None:
    method = {"name": name, **OPTIONS.get(name, {})}
    training = {**BASE["training"], "weight_decay": 0.01}
    both(
        tmp_path,
        {"seed": 0, "method": method},
        {"seed": 1, "method": {**method, **OTHERS.get(name, {})}},
        {
            "seed": 2,
            "method": method,
            "training": {**training, "lr": 0.05, "epochs": 2, "weight_decay": 0.02},
            "partition": {"name": "iid", "clients": 8},
        },
        training=training,
        **REFERENCES.get(name, {}),
        # FedReg takes signs and FedDecorr divides by small deviations, where float32's last bits matter.
        model={**BASE["model"], "dtype": "float64" if name in ("feddecorr", "fedreg") else "float32"},
        probes=[{"metric": "drift", "at": [1.0]}] if registry.find("method", name).aggregates else [],
    )


@pytest.mark.parametrize("loss", ["wsm", "tce", "fedrs", "logit_adjusted"])
@pytest.mark.parametrize("model", [{"name": "logistic"}, {"name": "small_cnn"}], ids=str)
def test_losses_and_models(tmp_path: Path, loss: str, model: dict[str, Any]) -> None:
    options = {"tau": 0.5} if loss == "logit_adjusted" else {}
    both(tmp_path, {"seed": 0, "loss": loss}, {"seed": 1, "loss": {"name": loss, **options}}, model=model)


def test_optimizers_and_schedules(tmp_path: Path) -> None:
    for number, options in enumerate(
        ({"momentum": 0.9}, {"optimizer": "adam", "lr": 0.01}, {"clip": 0.5, "lr_decay": 0.5})
    ):
        training = {**BASE["training"], **options}
        both(
            tmp_path / str(number),
            {"training": training},
            {"training": {**training, "lr": 0.03}, "seed": 4},
            tolerance=1e-4 if "optimizer" in options else 1e-5,
        )


def test_a_run_that_ends_early_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    variants = ({"seed": 0}, {"seed": 1, "stop": {"target": 0.01}}, {"seed": 2, "rounds": 3}, {"seed": 3})
    done = both(tmp_path, *variants, rounds=4)
    assert [run.status["round"] for run in done] == [4, 1, 3, 4]


def test_a_run_that_diverges_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    bad = {"seed": 1, "training": {**BASE["training"], "lr": 1e30}}
    together = execute(plan(tmp_path / "together", {"seed": 0}, bad, {"seed": 2}))
    alone = execute(plan(tmp_path / "alone", {"seed": 0}, bad, {"seed": 2}), exact=True)
    assert [run.status["state"] for run in together] == ["finished", "diverged", "finished"]
    compare(together[::2], alone[::2])


def test_clients_that_are_dropped_leave_the_others_as_they_are(tmp_path: Path) -> None:
    skipping = {"single_class": "skip", **BASE["training"]}
    partition = {"name": "classes", "clients": 8, "classes": 1}
    both(tmp_path, {"seed": 0}, {"seed": 1, "partition": partition}, loss="wsm", training=skipping)


def test_runs_of_other_structures_train_beside_each_other(tmp_path: Path) -> None:
    both(tmp_path, {"seed": 0}, {"seed": 1}, {"loss": "wsm"}, {"loss": "wsm", "seed": 1})


def test_runs_that_train_in_processes_are_those_of_one_process(tmp_path: Path) -> None:
    variants = [{"seed": seed} for seed in range(4)]
    one, two = execute(plan(tmp_path / "1", *variants)), execute(plan(tmp_path / "2", *variants), jobs=2)
    assert [lockstep(run) for run in two] == [2] * 4
    for mine, other in zip(one, two, strict=True):
        torch.testing.assert_close(weights(mine), weights(other), rtol=1e-5, atol=1e-5)


def test_exact_and_a_named_engine_train_runs_by_themselves(tmp_path: Path) -> None:
    variants = [{"seed": 0}, {"seed": 1}]
    exact = execute(plan(tmp_path / "exact", *variants), exact=True)
    serial = execute(plan(tmp_path / "serial", *variants, engine="serial"))
    assert [lockstep(run) for run in (*exact, *serial)] == [None] * 4
    assert all(torch.equal(weights(a), weights(b)) for a, b in zip(exact, serial, strict=True))


def test_a_single_run_and_a_large_model_do_not_train_in_lockstep(tmp_path: Path) -> None:
    (single,) = execute(plan(tmp_path / "single", {"seed": 0}))
    large = {"name": "mlp", "hidden": [1500]}
    runs = execute(plan(tmp_path / "large", {"seed": 0}, {"seed": 1}, model=large, rounds=1))
    assert {run.values["engine"]["name"] for run in (single, *runs)} == {"process"}


def test_one_run_is_resumed_alone_and_the_others_together(tmp_path: Path) -> None:
    variants = [{"seed": seed} for seed in range(3)]
    whole = execute(plan(tmp_path / "whole", *variants, rounds=4))
    parts = execute(plan(tmp_path / "parts", *variants))
    alone = resume(parts[0].folder, {"rounds": 4})
    assert lockstep(alone) == 3
    assert alone.values["engine"]["name"] == "vectorized"
    execute(plan(tmp_path / "parts", *variants, rounds=4))
    for mine, other in zip(whole, parts, strict=True):
        again = Run(other.folder)
        assert again.status["round"] == 4
        torch.testing.assert_close(weights(mine), weights(again), rtol=1e-5, atol=1e-5)


def test_a_run_that_has_begun_keeps_its_engine(tmp_path: Path) -> None:
    execute(plan(tmp_path, {"seed": 0}, rounds=1))
    done = execute(plan(tmp_path, {"seed": 0}, {"seed": 1}, {"seed": 2}))
    assert [run.values["engine"]["name"] for run in done] == ["process", "vectorized", "vectorized"]
    assert [lockstep(run) for run in done] == [None, 2, 2]


def test_the_config_of_a_run_that_has_begun_may_lack_the_engine(tmp_path: Path) -> None:
    execute(plan(tmp_path, {"seed": 0}, rounds=1))
    (path,) = tmp_path.rglob("config.toml")
    path.write_text("rounds = 1\n")
    with pytest.raises(InputError, match=r"participation is .* and cannot become"):
        execute(plan(tmp_path, {"seed": 0}, rounds=1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_ends_all_runs_after_their_round_so_that_they_resume(
    tmp_path: Path, error: type[BaseException]
) -> None:
    variants = [{"seed": seed} for seed in range(3)]

    def fail(planned: Planned, record: dict[str, Any] | None) -> None:
        if record is not None and planned.config.seed == 1:
            raise error("own")

    with pytest.raises(error, match="own"):
        execute(plan(tmp_path / "parts", *variants, rounds=3), on_round=fail)
    states = [read_status(tmp_path / "parts" / f"run-{k}") for k in range(3)]
    assert [status["round"] for status in states] == [1, 1, 1]
    assert [states[k]["state"] for k in (0, 2)] == ["interrupted"] * 2
    done = execute(plan(tmp_path / "parts", *variants, rounds=3))
    compare(done, execute(plan(tmp_path / "alone", *variants, rounds=3), exact=True))


def test_the_seconds_of_a_run_are_its_own(tmp_path: Path) -> None:
    began = time.monotonic()
    done = execute(plan(tmp_path, *({"seed": seed} for seed in range(4))))
    assert sum(run.status["seconds"] for run in done) <= time.monotonic() - began


def test_seeds_of_run_are_runs_in_lockstep_that_are_continued(tmp_path: Path) -> None:
    values = {key: value for key, value in BASE.items() if key != "public"}
    seen: list[int] = []
    first = run(values, seeds=range(3), out=tmp_path / "runs", on_round=lambda it: seen.append(it["round"]))
    assert [each.folder.name for each in first] == ["seed-0", "seed-1", "seed-2"]
    assert sorted(seen) == [1, 1, 1, 2, 2, 2]
    again = run(values, seeds=range(4), out=tmp_path / "runs")
    assert all(torch.equal(weights(a), weights(b)) for a, b in zip(first, again, strict=False))
    exact = run(values, seeds=[1], out=tmp_path / "exact", exact=True)
    torch.testing.assert_close(weights(again[1]), weights(exact[0]), rtol=1e-5, atol=1e-5)


def test_seeds_of_run_take_objects_of_the_user(tmp_path: Path) -> None:
    federation = blobs(6, 30)
    runs = run(federation=federation, model=Net(), seeds=[0, 1], rounds=2, out=tmp_path, probes=[])
    assert len(runs[0].weights().parameters) == 75
    assert not torch.equal(weights(runs[0]), weights(runs[1]))


RUNS = """
import sys
from pathlib import Path
from tests.simulation.test_lockstep import execute, plan
execute(plan(Path(sys.argv[1]), *({"seed": seed} for seed in range(3)), rounds=int(sys.argv[2])))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_is_resumed(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", RUNS, str(folder), "100000"], cwd=os.getcwd())
    try:
        until(lambda: read_status(folder / "run-2").get("round", 0) >= 3)
    finally:
        process.send_signal(number)
        process.wait()
    done = [int(read_status(folder / f"run-{k}")["round"]) for k in range(3)]
    rounds = max(done) + 2
    variants = [{"seed": seed} for seed in range(3)]
    again = execute(plan(folder, *variants, rounds=rounds))
    compare(again, execute(plan(tmp_path / "alone", *variants, rounds=rounds), exact=True), tolerance=1e-3)

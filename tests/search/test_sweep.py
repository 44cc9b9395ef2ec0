"""Sweeps: the product of settings, skipped and resumed runs, parallel runs."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from eunoe.errors import InputError, RunFailed
from eunoe.search.sweep import folder_name, plan
from eunoe.simulation.many import Planned, execute
from eunoe.simulation.run import Run
from eunoe.store.folder import RunFolder
from tests.faults import alive, children
from tests.small_runs import BRIEF
from tests.waiting import PATIENCE, until


def sweep(
    values: dict[str, Any], over: dict[str, list[Any]], seeds: list[int], out: Path, *how: Any, **more: Any
) -> list[Run]:
    return execute(plan(values, over, seeds, out), *how, **more)


class Seen:
    """What was run: the folders as they began, and their rounds."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.rounds: list[tuple[str, int]] = []

    def __call__(self, planned: Planned, record: dict[str, Any] | None) -> None:
        name = f"{planned.folder.parent.name}/{planned.folder.name}"
        if record is None:
            self.began.append(name)
        else:
            self.rounds.append((name, record["round"]))


def metrics(folder: Path) -> bytes:
    return (folder / "metrics.jsonl").read_bytes()


def test_the_plan_is_the_product_with_a_folder_each() -> None:
    over = {"loss.name": ["ce", "wsm"], "training.lr": [0.1, 1]}
    runs = plan({**BRIEF, "loss": {"name": "fedlc", "tau": 3.0}}, over, [0, 5], Path("out"))
    assert len(runs) == 8
    assert len({planned.folder for planned in runs}) == 8
    first = runs[0]
    assert first.folder == Path("out/loss=ce_training.lr=0.1/seed-0")
    assert first.values["loss"] == {"name": "ce"}
    assert first.values["training"] == {"epochs": 1, "lr": 0.1}
    assert first.values["name"] == first.label == "loss=ce, training.lr=0.1"
    assert [planned.values["seed"] for planned in runs] == [0, 5] * 4
    assert BRIEF["training"] == {"epochs": 1}


def test_a_name_that_all_share_is_made_unique() -> None:
    named = plan({**BRIEF, "name": "mine"}, {"loss.name": ["ce", "wsm"]}, [0], Path("out"))
    assert [planned.values["name"] for planned in named] == ["mine, loss=ce", "mine, loss=wsm"]
    assert plan({**BRIEF, "name": "mine"}, {}, [0], Path("out"))[0].values["name"] == "mine"


def test_the_whole_plan_is_checked_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training.lr: input should be greater than 0"):
        sweep(BRIEF, {"training.lr": [0.1, -1.0]}, [0], tmp_path / "out")
    with pytest.raises(InputError, match="did you mean 'lr'"):
        sweep(BRIEF, {"training.lrr": [0.1]}, [0], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_seed_is_no_setting_to_sweep_over(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot vary 'seed' with --over: use --seeds"):
        plan(BRIEF, {"loss.name": ["ce"], "seed": [1, 2]}, [0], tmp_path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_run_warns_of_is_logged_once_with_its_title(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, jobs: int
) -> None:
    runs = plan(BRIEF, {"method.name": ["fedavg", "feddyn"]}, [0, 1], tmp_path)
    execute(runs, jobs)
    warning = "feddyn may diverge without clipping; its authors set training.clip = 10"
    assert sorted(caplog.messages) == [f"method=feddyn seed {seed}: {warning}" for seed in (0, 1)]
    execute(runs, jobs)
    assert len(caplog.messages) == 2
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert all(record.name.startswith("eunoe.") for record in caplog.records)


def test_a_mistyped_name_shows_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'wsm'"):
        sweep(BRIEF, {"loss.name": ["ce", "wsmm"]}, [0], tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_run_interrupted_beyond_the_planned_rounds_is_done(tmp_path: Path) -> None:
    (longer,) = sweep(BRIEF, {}, [0], tmp_path)
    status = longer.folder / "status.json"
    status.write_text(status.read_text("utf-8").replace('"finished"', '"interrupted"'), "utf-8")
    assert not Run(longer.folder).finished
    seen = Seen()
    sweep({**BRIEF, "rounds": 1}, {}, [0], tmp_path, on_round=seen)
    assert not seen.began


def test_labels_become_file_names() -> None:
    assert folder_name("model.hidden=[6, 4], x=a/b ü") == "model.hidden=_6_4_x=a_b_ü"
    assert folder_name("///") == "run"
    long = [folder_name("x" * 300 + end) for end in "ab"]
    assert long[0] != long[1]
    assert all(len(name) < 70 for name in long)


def test_what_is_finished_is_skipped_and_what_was_begun_goes_on(tmp_path: Path) -> None:
    over = {"loss.name": ["ce", "wsm"]}
    whole = sweep(BRIEF, over, [0, 1], tmp_path / "whole")
    first = plan(BRIEF, over, [0, 1], tmp_path / "parts")
    execute(first[:1])

    class Killed(BaseException):
        pass

    def die(planned: Planned, record: dict[str, Any] | None) -> None:
        if record is not None:
            raise Killed

    with pytest.raises(Killed):
        execute(first[1:2], on_round=die)
    seen = Seen()
    done = sweep(BRIEF, over, [0, 1], tmp_path / "parts", on_round=seen)
    assert seen.began == ["loss=ce/seed-1", "loss=wsm/seed-0", "loss=wsm/seed-1"]
    assert [metrics(a.folder) for a in done] == [metrics(b.folder) for b in whole]
    seen = Seen()
    sweep(BRIEF, over, [0, 1], tmp_path / "parts", on_round=seen)
    assert seen.began == []


def test_more_values_seeds_and_rounds_run_what_is_new(tmp_path: Path) -> None:
    sweep(BRIEF, {"loss.name": ["ce"]}, [0], tmp_path)
    seen = Seen()
    sweep(BRIEF, {"loss.name": ["ce", "wsm"]}, [0, 1], tmp_path, on_round=seen)
    assert len(seen.began) == 3
    seen = Seen()
    done = sweep({**BRIEF, "rounds": 3}, {"loss.name": ["ce"]}, [0], tmp_path, on_round=seen)
    assert seen.rounds == [("loss=ce/seed-0", 3)]
    assert len(done[0].records) == 3


def test_another_target_lets_a_run_go_on_unless_it_is_reached_too(tmp_path: Path) -> None:
    def rounds_with(**stop: float) -> int:
        values = {**BRIEF, "evaluation": {"every": 1}, **({"stop": stop} if stop else {})}
        return len(sweep(values, {}, [0], tmp_path)[0].records)

    assert rounds_with(target=0.02) == 1
    assert rounds_with(target=0.01) == 1
    assert rounds_with(target=1.0) == 2


def test_a_target_that_is_taken_back_ends_no_run(tmp_path: Path) -> None:
    values = {**BRIEF, "evaluation": {"every": 1}}
    sweep({**values, "stop": {"target": 0.01}}, {}, [0], tmp_path)
    assert len(sweep(values, {}, [0], tmp_path)[0].records) == 2


def test_a_folder_of_other_runs_is_refused(tmp_path: Path) -> None:
    sweep(BRIEF, {"loss.name": ["ce"]}, [0], tmp_path)
    with pytest.raises(InputError, match=r"training.epochs is 1 in .* and cannot become 2"):
        sweep({**BRIEF, "training": {"epochs": 2}}, {"loss.name": ["ce", "wsm"]}, [0], tmp_path)
    assert not (tmp_path / "loss=wsm").exists()


def test_a_run_that_is_planned_twice_runs_once(tmp_path: Path) -> None:
    seen = Seen()
    done = sweep(BRIEF, {"loss.name": ["ce", "ce"]}, [0, 0], tmp_path, on_round=seen)
    assert len(done) == len(seen.began) == 1
    runs = plan(BRIEF, {"name": ["a/b", "a b"]}, [0], tmp_path / "other")
    with pytest.raises(InputError, match="two runs with different configs have the same folder"):
        execute(runs)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_diverges_does_not_stop_the_others(tmp_path: Path, jobs: int) -> None:
    done = sweep(BRIEF, {"training.lr": [1e38, 0.1]}, [0], tmp_path, jobs)
    assert [each.status["state"] for each in done] == ["diverged", "finished"]
    seen = Seen()
    sweep(BRIEF, {"training.lr": [1e38, 0.1]}, [0], tmp_path, jobs, seen)
    assert seen.began == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_that_cannot_write_ends_the_sweep_and_is_tried_again(
    tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is in the way comes after the look whether anything is.
    monkeypatch.setattr("eunoe.simulation.running.check_new", lambda path: None)
    folder = plan(BRIEF, {"training.lr": [0.1]}, [0], tmp_path)[0].folder
    in_the_way = folder / "checkpoints"
    folder.mkdir(parents=True)
    in_the_way.write_text("no folder")
    with pytest.raises(RunFailed, match="cannot write"):
        sweep(BRIEF, {"training.lr": [0.1]}, [0], tmp_path, jobs)
    assert Run(folder).status["state"] == "failed"
    in_the_way.unlink()
    assert sweep(BRIEF, {"training.lr": [0.1]}, [0], tmp_path, jobs)[0].finished


def test_two_at_a_time_give_the_same_runs(tmp_path: Path) -> None:
    over = {"loss.name": ["ce", "wsm"]}
    one = sweep(BRIEF, over, [0, 1], tmp_path / "one")
    seen = Seen()
    values = {key: value for key, value in BRIEF.items() if key != "engine"}
    two = sweep(values, over, [0, 1], tmp_path / "two", 2, seen, exact=True)
    assert [metrics(a.folder) for a in one] == [metrics(b.folder) for b in two]
    assert sorted(seen.began) == ["loss=ce/seed-0", "loss=ce/seed-1", "loss=wsm/seed-0", "loss=wsm/seed-1"]
    assert len(seen.rounds) == 8


def test_bad_input_in_a_process_of_its_own_is_bad_input(tmp_path: Path) -> None:
    # Whichever of the two is reported first.
    with pytest.raises(InputError, match=r"no loss is called 'wms[12]'"):
        sweep(BRIEF, {"loss.name": ["wms1", "wms2"]}, [0], tmp_path / "out", 2)
    assert not (tmp_path / "out").exists()


def fail(*, on: str = "here") -> None:
    raise ZeroDivisionError(f"mine, {on}")


def test_a_users_own_exception_ends_the_sweep_and_arrives_whole(tmp_path: Path) -> None:
    values = {**BRIEF, "model": "tests.search.test_sweep:fail"}
    with pytest.raises(ZeroDivisionError, match="mine, here"):
        sweep(values, {}, [0], tmp_path / "one")
    with pytest.raises(RunFailed, match="ZeroDivisionError: mine, here"):
        sweep(values, {}, [0, 1], tmp_path / "two", 2)


def test_an_exception_here_ends_the_processes_there(tmp_path: Path) -> None:
    def stop(planned: Planned, record: dict[str, Any] | None) -> None:
        if record is not None:
            raise KeyError("stop")

    with pytest.raises(KeyError):
        sweep({**BRIEF, "rounds": 100_000}, {}, [0, 1], tmp_path, 2, stop)
    for seed in (0, 1):
        if (tmp_path / f"run/seed-{seed}/status.json").exists():
            # Nobody holds the folder any more.
            with RunFolder(tmp_path / f"run/seed-{seed}"):
                pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_run_is_left_behind_when_the_sweep_is_ended(tmp_path: Path, number: int) -> None:
    # Every client takes ten minutes.
    values = {**BRIEF, "method": {"name": "tests.faults:Faulty", "pause": 600.0}}
    main = multiprocessing.get_context("fork").Process(target=sweep, args=(values, {}, [0, 1], tmp_path, 2))
    main.start()
    until(lambda: len(list(tmp_path.rglob("status.json"))) == 2)
    runs = children(main.pid)
    assert len(runs) == 2
    os.kill(main.pid or 0, number)
    main.join(PATIENCE)
    assert main.exitcode is not None
    until(lambda: not any(alive(pid) for pid in runs))


def test_a_value_may_be_a_component_with_options(tmp_path: Path) -> None:
    over = {"method": ["fedavg", {"name": "fedprox", "mu": 0.5}]}
    runs = plan({}, over, [0], tmp_path)
    assert [run.label for run in runs] == ["method=fedavg", "method=fedprox mu=0.5"]
    assert runs[1].values["method"] == {"name": "fedprox", "mu": 0.5}

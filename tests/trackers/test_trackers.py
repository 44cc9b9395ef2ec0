"""Trackers: what they receive, and that they change nothing."""

from pathlib import Path
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.errors import Diverged, InputError, RunFailed
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.trackers import scalars
from tests.helpers import blobs
from tests.trackers.noted import OWN, SMALL, Noted, failing, tracked


def test_scalars_of_a_record() -> None:
    record = {
        "schema": 1,
        "round": 4,
        "lr": 0.1,
        "clients": [5, 7, 2],
        "sizes": [10, 20, 30],
        "loss_before": [1.0, 2.0, 6.0],
        "loss_after": [],
        "dropped": [],
        "test": {"accuracy": 0.5, "loss": float("nan"), "per_class": [0.2, 0.8]},
        "validation": {"accuracy": 0.25, "clients": {"mean": 0.125}},
        "forgetting": {"on": "test", "round": 0.03125, "fedntd": None},
        "server": {"steps": 9, "losses": [2.0, 1.0]},
    }
    assert scalars(record) == {
        "lr": 0.1,
        "clients": 3.0,
        "sizes": 20.0,
        "loss_before": 3.0,
        "dropped": 0.0,
        "test/accuracy": 0.5,
        "validation/accuracy": 0.25,
        "validation/clients/mean": 0.125,
        "forgetting/round": 0.03125,
        "server/steps": 9.0,
    }


def test_a_users_own_tracker_receives_everything_in_order(tmp_path: Path) -> None:
    made = tracked(tmp_path / "run", OWN)
    identity = (tmp_path / "run/track/id").read_text()
    assert Noted.calls[0] == ("start", made.config.title, identity, 1)
    assert Noted.calls[1:4] == [("scalars", record["round"], scalars(record)) for record in made.records]
    figures = Noted.calls[4:-1]
    assert [what[2] for what in figures] == ["accuracy", "round-forgetting"]
    assert all(what[:2] == ("figure", 3) and what[3] == b"\x89PNG" for what in figures)
    assert Noted.calls[-1] == ("close", "finished")


def test_a_tracker_that_fails_is_logged_once_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound = {"name": OWN}
    tracked(tmp_path / "run", {"name": OWN, "fails_at": 2}, sound)
    tracked(tmp_path / "untracked")
    assert caplog.messages == [f"tracker {OWN!r} failed and is disabled: OSError: the disk is full"]
    assert [what[1] for what in Noted.calls if what[0] == "scalars"] == [1, 1, 2, 3]
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("run", "untracked")]
    assert metrics[0] == metrics[1]
    assert not (tmp_path / "untracked/track").exists()


def test_figures_that_cannot_be_drawn_do_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no font")

    monkeypatch.setattr("eunoe.report.figures.all_figures", broken)
    made = tracked(tmp_path / "run", OWN)
    assert made.finished
    assert caplog.messages == ["figures were not sent to the trackers: ValueError: no font"]
    assert Noted.calls[-1] == ("close", "finished")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(KeyboardInterrupt, "interrupted"), (Diverged, "diverged"), (RunFailed, "failed"), (OSError, "failed")],
)
def test_a_run_that_fails_closes_its_trackers_without_figures(
    tmp_path: Path, error: type[BaseException], outcome: str
) -> None:
    with pytest.raises(error):
        tracked(tmp_path / "run", OWN, on_round=failing(error))
    assert [what[0] for what in Noted.calls] == ["start", "scalars", "scalars", "close"]
    assert Noted.calls[-1][1] == outcome == Run(tmp_path / "run").status["state"]


def test_trackers_may_change_when_a_run_goes_on(tmp_path: Path) -> None:
    federation = blobs()
    run(federation=federation, model="mlp", out=tmp_path / "run", **SMALL)
    resume(tmp_path / "run", {"rounds": 4, "track": [OWN]}, federation=federation, model="mlp")
    assert Noted.calls[0][3] == 4
    assert [what[1] for what in Noted.calls if what[0] == "scalars"] == [4]


@pytest.mark.parametrize(
    ("track", "message"),
    [
        (["tensorbord"], "no tracker is called 'tensorbord'.*'tensorboard'"),
        ([{"name": "wandb", "projekt": "x"}], "tracker 'wandb' has no option 'projekt'.*'project'"),
        ([{"name": "wandb", "offline": 7}], "tracker 'wandb': offline"),
        ([f"{__name__}:SMALL"], "no class or function 'SMALL'"),
        (["pathlib:Path.cwd"], "invalid tracker"),
        (["tests.helpers:blobs"], "must derive from eunoe.trackers.base.Tracker"),
        (["tests.trackers.test_trackers:Absent"], "needs .*: run pip install '.*\\[track\\]'"),
    ],
)
def test_bad_sections_are_refused_before_anything_is_written(
    tmp_path: Path, track: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        tracked(tmp_path / "run", *track)
    assert not (tmp_path / "run").exists()


class Absent(Noted):
    """A tracker whose tool is not there."""

    needs = "a_package_that_nobody_has"


def test_a_section_may_be_a_name_alone_and_is_written_whole() -> None:
    import tomllib

    config = make_config({"track": "tensorboard"})
    assert [section.name for section in config.track] == ["tensorboard"]
    config = make_config({"track": [{"name": "wandb", "project": "x", "offline": True}, "mlflow"]})
    values = tomllib.loads(to_toml(config.model_dump(mode="json", exclude_none=True)))
    assert make_config(values) == config


def test_all_trackers_have_a_line_and_a_description_of_each_option() -> None:
    assert registry.names("tracker") == ["mlflow", "tensorboard", "wandb"]
    for name in registry.names("tracker"):
        assert registry.summary("tracker", name)
        model: Any = registry.find("tracker", name)
        assert all(field.description for field in model.model_fields.values())

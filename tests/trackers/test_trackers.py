"""Trackers: what the tools have on disk afterwards is what the run recorded."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.config.toml import to_toml
from eunoe.errors import Diverged, InputError, Outcome, RunFailed
from eunoe.report.figures import KINDS
from eunoe.runs.run import Run, resume, run
from eunoe.trackers import build_trackers, scalars
from eunoe.trackers.base import Followed, Tracker
from eunoe.trackers.wandb import WandB
from tests.helpers import blobs

SMALL: dict[str, Any] = {
    "rounds": 3,
    "participation": 2,
    "probes": [],
    "engine": "serial",
    "evaluation": {"every": 1},
}


class Noted(Tracker):
    """A user's own tracker, which notes all that it is told."""

    fails_at: int = 0

    told: ClassVar[list[Any]] = []

    def start(self, run: Followed) -> None:
        self.told.append(("start", run.title, run.identity, run.first_round))

    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        if round == self.fails_at:
            raise OSError("the disk is full")
        self.told.append(("scalars", round, dict(values)))

    def figure(self, round: int, name: str, png: bytes) -> None:
        self.told.append(("figure", round, name, png[:4]))

    def close(self, outcome: Outcome) -> None:
        self.told.append(("close", outcome))


OWN = f"{__name__}:Noted"


@pytest.fixture(autouse=True)
def _start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    Noted.told.clear()
    # Two figures stand for all: drawing takes longest.
    monkeypatch.setattr("eunoe.report.figures.KINDS", KINDS[:2])


def tracked(folder: Path, *track: Any, **values: Any) -> Run:
    return run(federation=blobs(), model="mlp", out=folder, track=list(track), **{**SMALL, **values})


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


def test_tensorboard_has_the_scalars_and_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    made = tracked(tmp_path / "run", "tensorboard")
    events = EventAccumulator(str(tmp_path / "run/track/tensorboard")).Reload()
    read = [(event.step, event.value) for event in events.Scalars("test/accuracy")]
    rounds, accuracy = made.series("test.accuracy")
    assert [step for step, _ in read] == list(rounds) == [1, 2, 3]
    assert [value for _, value in read] == pytest.approx(list(accuracy), abs=1e-7)
    assert set(events.Tags()["scalars"]) == set(scalars(made.records[-1]))
    image = events.Images("figures/accuracy")[0]
    assert image.step == 3
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert min(image.width, image.height) > 100


def test_tensorboard_hides_rounds_that_are_done_again(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tracker = build_trackers(make_config({"track": "tensorboard"}).track)[0][1]
    for first, value in ((1, 1.0), (3, 2.0)):
        tracker.start(Followed(tmp_path, "a run", {}, "id", first))
        for round in range(first, first + 4):
            tracker.scalars(round, {"test/accuracy": value})
        tracker.close("finished")
    events = EventAccumulator(str(tmp_path / "track/tensorboard")).Reload()
    assert [(e.step, e.value) for e in events.Scalars("test/accuracy")] == [
        (1, 1.0),
        (2, 1.0),
        (3, 2.0),
        (4, 2.0),
        (5, 2.0),
        (6, 2.0),
    ]


def test_wandb_offline_has_the_scalars_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    made = tracked(tmp_path / "run", {"name": "wandb", "project": "trial", "offline": True})
    wandb.teardown()  # Until then not all need be on the disk.
    (folder,) = (tmp_path / "run/track/wandb").glob("offline-run-*")
    assert folder.name.endswith((tmp_path / "run/track/id").read_text())
    (file,) = folder.glob("*.wandb")
    records = list(wandb_records(file.read_bytes()))
    (started,) = [record.run for record in records if record.HasField("run")]
    assert (started.project, started.display_name) == ("trial", made.config.title)
    found = {}
    for record in records:
        row = {"/".join(item.nested_key) or item.key: item for item in record.history.item}
        if "test/accuracy" in row:
            found[json.loads(row["_step"].value_json)] = json.loads(row["test/accuracy"].value_json)
    assert found == {record["round"]: record["test"]["accuracy"] for record in made.records}
    drawn = [path.name for path in (folder / "files/media/images/figures").glob("*.png")]
    assert any(name.startswith("accuracy_3") for name in drawn)


def wandb_records(data: bytes) -> Any:
    """The records of an offline run: after 7 bytes, a LevelDB log (blocks of 32 KiB, 7-byte headers)."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, held = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield Record.FromString(held)
            held = b""


def test_mlflow_has_the_scalars_and_figures_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # To make a data base takes long.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    section = {"name": "mlflow", "uri": uri, "experiment": "trial"}
    federation = blobs()
    run(federation=federation, model="mlp", out=tmp_path / "run", track=[section], **{**SMALL, "rounds": 2})
    made = resume(tmp_path / "run", {"rounds": 3}, federation=federation, model="mlp")
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("trial")
    assert experiment is not None
    # A run that goes on after a break stays one run.
    (found,) = client.search_runs([experiment.experiment_id])
    history = {m.step: m.value for m in client.get_metric_history(found.info.run_id, "test/accuracy")}
    assert history == {record["round"]: record["test"]["accuracy"] for record in made.records}
    assert found.info.status == "FINISHED"
    files = [file.path for file in client.list_artifacts(found.info.run_id, "figures")]
    assert "figures/accuracy.png" in files


def test_mlflow_tells_runs_that_failed_from_those_that_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    uri = (tmp_path / "mlflow").as_uri()
    for error in (KeyboardInterrupt, Diverged, OSError):
        name, section = error.__name__, {"name": "mlflow", "uri": uri}
        with pytest.raises(error):
            tracked(tmp_path / name, section, name=name, on_round=failing(error))
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("eunoe")
    assert experiment is not None
    found = {made.info.run_name: made.info.status for made in client.search_runs([experiment.experiment_id])}
    assert found == {"KeyboardInterrupt": "KILLED", "Diverged": "FAILED", "OSError": "FAILED"}


def test_wandb_tells_runs_that_failed_from_those_that_finished() -> None:
    codes: list[int] = []

    class Told:
        def finish(self, exit_code: int) -> None:
            codes.append(exit_code)

    tracker = WandB()
    tracker._run = Told()
    outcomes: tuple[Outcome, ...] = ("finished", "interrupted", "diverged", "failed")
    for outcome in outcomes:
        tracker.close(outcome)
    # What wandb itself gives a script that ends so.
    assert codes == [0, 255, 1, 1]


def test_a_users_own_tracker_is_told_everything_in_order(tmp_path: Path) -> None:
    made = tracked(tmp_path / "run", OWN)
    identity = (tmp_path / "run/track/id").read_text()
    assert Noted.told[0] == ("start", made.config.title, identity, 1)
    assert Noted.told[1:4] == [("scalars", record["round"], scalars(record)) for record in made.records]
    figures = Noted.told[4:-1]
    assert [what[2] for what in figures] == ["accuracy", "round-forgetting"]
    assert all(what[:2] == ("figure", 3) and what[3] == b"\x89PNG" for what in figures)
    assert Noted.told[-1] == ("close", "finished")


def test_a_tracker_that_fails_is_logged_once_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sound = {"name": OWN}
    tracked(tmp_path / "run", {"name": OWN, "fails_at": 2}, sound)
    tracked(tmp_path / "untracked")
    assert caplog.messages == [
        f"tracker {OWN!r} failed and is left out from here on: OSError: the disk is full"
    ]
    assert [what[1] for what in Noted.told if what[0] == "scalars"] == [1, 1, 2, 3]
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
    assert caplog.messages == ["the trackers get no figures: ValueError: no font"]
    assert Noted.told[-1] == ("close", "finished")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(KeyboardInterrupt, "interrupted"), (Diverged, "diverged"), (RunFailed, "failed"), (OSError, "failed")],
)
def test_a_run_that_fails_closes_its_trackers_without_figures(
    tmp_path: Path, error: type[BaseException], outcome: str
) -> None:
    with pytest.raises(error):
        tracked(tmp_path / "run", OWN, on_round=failing(error))
    assert [what[0] for what in Noted.told] == ["start", "scalars", "scalars", "close"]
    assert Noted.told[-1][1] == outcome == Run(tmp_path / "run").status["state"]


def failing(error: type[BaseException]) -> Any:
    """Something that is told of rounds and fails at the second."""

    def fail(record: Any) -> None:
        if record["round"] == 2:
            raise error("no more")

    return fail


def test_trackers_may_change_when_a_run_goes_on(tmp_path: Path) -> None:
    federation = blobs()
    run(federation=federation, model="mlp", out=tmp_path / "run", **SMALL)
    resume(tmp_path / "run", {"rounds": 4, "track": [OWN]}, federation=federation, model="mlp")
    assert Noted.told[0][3] == 4
    assert [what[1] for what in Noted.told if what[0] == "scalars"] == [4]


@pytest.mark.parametrize(
    ("track", "message"),
    [
        (["tensorbord"], "no tracker is called 'tensorbord'.*'tensorboard'"),
        ([{"name": "wandb", "projekt": "x"}], "tracker 'wandb' has no option 'projekt'.*'project'"),
        ([{"name": "wandb", "offline": 7}], "tracker 'wandb': offline"),
        ([f"{__name__}:SMALL"], "no class or function called 'SMALL'"),
        (["pathlib:Path.cwd"], "names no tracker"),
        (["tests.helpers:blobs"], "must be a class that derives from eunoe.trackers.base.Tracker"),
        (["tests.trackers.test_trackers:Absent"], "is not installed; run pip install '.\\[track\\]'"),
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

"""TensorBoard: what is in its files afterwards is what the run recorded."""

from pathlib import Path

import pytest

from eunoe.config.schema import make_config
from eunoe.trackers import build_trackers, scalars
from eunoe.trackers.base import TrackedRun
from tests.trackers.noted import tracked


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
        tracker.start(TrackedRun(tmp_path, "a run", {}, "id", first))
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

"""What changes of the data cost, worked by hand."""

from typing import Any

import pytest

from eunoe.analysis.data_changes import data_changes, phase_starts
from eunoe.store.run_records import RunRecords


def recorded(curve: list[float], begun: list[int], **phases: Any) -> RunRecords:
    """A run with these accuracies in rounds 1, 2, ..., whose phases began in these rounds."""
    metrics = [
        {
            "round": number,
            "clients": [0],
            "test": {"accuracy": accuracy},
            "phases": {
                "phase": sum(first <= number for first in begun),
                "began": max(first for first in begun if first <= number),
                **phases,
            },
        }
        for number, accuracy in enumerate(curve, start=1)
    ]
    return RunRecords("run", metrics)


def test_a_phase_is_compared_with_the_last_third_of_the_one_before() -> None:
    found = data_changes(recorded([0.1, 0.5, 0.8, 0.4, 0.6, 0.8], [1, 4]))
    assert found is not None
    # 0.8 before, (0.4 + 0.6 + 0.8) / 3 after; back at 0.8 in round 6, two rounds after round 4.
    assert found.lost == pytest.approx(0.2)
    assert (found.rounds, found.recovered) == ((4,), (2,))
    assert found.sentence == (
        "The data changed in round 4, which cost 20.0 points; the accuracy came back 1 of 1 times, after 2 "
        "rounds on average."
    )


def test_what_goes_on_rising_has_lost_nothing() -> None:
    found = data_changes(recorded([0.1, 0.5, 0.6, 0.7, 0.8, 0.9], [1, 3, 5]))
    assert found is not None
    assert (found.lost, found.recovered) == (0.0, (0, 0))


def test_where_classes_come_in_phases_the_forgetting_of_phases_counts() -> None:
    found = data_changes(recorded([0.2, 0.2], [1, 2], forgetting=0.7))
    assert found is not None
    assert (
        found.sentence == "The data changed in round 2, which cost 70.0 points on classes of earlier phases."
    )


def test_without_a_change_there_is_nothing_to_say() -> None:
    assert data_changes(recorded([0.1, 0.5], [1])) is None
    assert data_changes(RunRecords("run", [{"round": 1, "clients": [], "test": {"accuracy": 0.1}}])) is None
    # The second phase was never evaluated.
    assert data_changes(recorded([0.1, 0.5], [1, 3])) is None


def test_a_phase_starts_with_its_first_round_even_if_that_was_not_evaluated() -> None:
    run = recorded([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 2, 5])
    late = RunRecords("run", [record for record in run.metrics if record["round"] % 3 == 0])
    assert phase_starts(late) == [2, 5]

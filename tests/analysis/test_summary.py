"""What the records of a run say as numbers: means over rounds that were not all measured."""

from dataclasses import replace
from typing import Any

import pytest

from eunoe.analysis.summary import data_changes, phase_starts, summarize
from eunoe.report.figures import series
from eunoe.store.run_records import RunRecords


def sparse() -> RunRecords:
    """Rounds measured in pairs: class 1 loses in single rounds, class 0 only in the gap between pairs."""
    metrics = [
        {
            "round": round,
            "test": {"accuracy": sum(per_class) / 2, "loss": 1.0, "per_class": per_class},
            "forgetting": {"round": lost, "fedntd": 0.0},
        }
        for round, per_class, lost in (
            (9, [0.5, 0.5], None),
            (10, [0.5, 0.4], 0.05),
            (19, [0.1, 0.9], None),
            (20, [0.1, 0.8], 0.05),
            (21, [0.1, 0.65], 0.075),
        )
    ]
    return RunRecords("sparse", metrics)


def test_what_a_class_loses_in_a_round_is_not_what_went_in_a_gap() -> None:
    found = summarize(sparse())
    assert found["lost_per_class"] == pytest.approx([0.0, (0.1 + 0.1 + 0.15) / 3])
    assert "Classes that lose most per round: 1 (11.7 points)." in found.sentences()


def test_the_classes_that_are_shown_are_chosen_by_what_single_rounds_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(series, "MOST_CLASSES", 1)
    assert series.select_classes([sparse()], sparse()) == [1]


def test_round_forgetting_counts_a_round_for_those_that_were_not_measured() -> None:
    assert summarize(sparse())["round_forgetting"] == pytest.approx((19 * 0.05 + 0.075) / 20)


def test_without_per_class_accuracy_nothing_is_said_of_classes() -> None:
    run = RunRecords("bare", [{"round": t, "test": {"accuracy": 0.5, "loss": 1.0}} for t in (1, 2, 3)])
    assert summarize(run)["lost_per_class"] == []


def test_the_end_of_a_run_is_as_long_as_its_settings_say() -> None:
    run = replace(sparse(), config={"evaluation": {"last": 2}})
    found = summarize(run)
    assert found["accuracy"] == pytest.approx((0.45 + 0.375) / 2)
    assert found.sentences()[0].startswith("Predicts class '1' for 81% of the samples")
    assert found.sentences()[1] == "21 rounds, accuracy 41.2% over the last 2 (best 50.0% in round 9)."


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
    lost, sentence = data_changes(recorded([0.1, 0.5, 0.8, 0.4, 0.6, 0.8], [1, 4]))
    # 0.8 before, (0.4 + 0.6 + 0.8) / 3 after; back at 0.8 in round 6, two rounds after round 4.
    assert lost == pytest.approx(0.2)
    assert sentence == (
        "The data changed in round 4, which cost 20.0 points; the accuracy recovered 1 of 1 times, after 2 "
        "rounds on average."
    )


def test_what_goes_on_rising_has_lost_nothing() -> None:
    lost, sentence = data_changes(recorded([0.1, 0.5, 0.6, 0.7, 0.8, 0.9], [1, 3, 5]))
    assert lost == 0.0
    assert "in rounds 3, 5, which" in sentence
    assert sentence.endswith("recovered 2 of 2 times, after 0 rounds on average.")


def test_where_classes_come_in_phases_the_forgetting_of_phases_counts() -> None:
    _, sentence = data_changes(recorded([0.2, 0.2], [1, 2], forgetting=0.7))
    assert sentence == "The data changed in round 2, which cost 70.0 points on classes of earlier phases."


def test_without_a_change_there_is_nothing_to_say() -> None:
    unmeasured = RunRecords("run", [{"round": 1, "clients": [], "test": {"accuracy": 0.1}}])
    # The second phase of the last was never evaluated.
    for run in (recorded([0.1, 0.5], [1]), unmeasured, recorded([0.1, 0.5], [1, 3])):
        assert str(data_changes(run)) == "(nan, '')"


def test_a_phase_starts_with_its_first_round_even_if_that_was_not_evaluated() -> None:
    run = recorded([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 2, 5])
    late = RunRecords("run", [record for record in run.metrics if record["round"] % 3 == 0])
    assert phase_starts(late) == [2, 5]

"""Numbers read off runs, worked by hand; records of runs to quantities by round."""

import math

import pytest

from eunoe.store.run_records import RunRecords
from eunoe_papers.measures import Measure, Outcome
from eunoe_papers.outcomes import series_of

LAST, END, DROP = (Measure(kind=kind) for kind in ("last_rounds", "at_end", "drop"))
RUN = Outcome({"rounds": 4, "evaluation": {"last": 2}}, {"accuracy": {1: 0.1, 3: 0.3, 2: 0.5, 4: math.nan}})


def test_measures_by_hand() -> None:
    assert LAST.read(RUN) == pytest.approx(0.4)
    assert END.read(RUN) == 0.3
    assert Measure(kind="over_rounds", first=2).read(RUN) == pytest.approx(0.4)
    # A quarter of the way at 0.0 to 0.4, three quarters at 0.4, however often the end is looked at.
    dense = {"accuracy": {1: 0.0, 3: 0.4, 5: 0.4, 7: 0.4, 8: 0.4, 9: 0.4}}
    assert Measure(kind="height").read(Outcome({"rounds": 9}, dense)) == pytest.approx(
        0.25 * 0.2 + 0.75 * 0.4
    )
    # Half of eight rounds: up to the fourth, between 0.0 in the first and 0.4 in the third.
    assert Measure(kind="height", share=0.5).read(Outcome({"rounds": 8}, dense)) == pytest.approx(0.2)
    # 0.1, 0.5 and 0.3: two trapezoids of 0.3 and 0.4.
    assert Measure(kind="height", share=0.1).read(RUN) == pytest.approx(0.35), (
        "a share has three rounds at least"
    )
    assert Measure(kind="at_planned_end").read(Outcome({"rounds": 3}, RUN.series)) == 0.3
    assert math.isnan(Measure(kind="at_planned_end").read(RUN))
    assert Measure(kind="fluctuation").read(RUN) == pytest.approx(0.2)
    assert Measure(kind="rounds_to", target=0.5).read(RUN) == 2
    assert (
        Measure(kind="rounds_to", of="validation", target=0.2).read(
            Outcome({}, {"validation": {1: 0.1, 2: 0.2}})
        )
        == 2
    )
    assert Measure(kind="rounds_to", target=0.6).read(RUN) == math.inf
    assert DROP.read(RUN) == pytest.approx(0.2)
    assert Measure(kind="at_fraction", at=0.5).read(RUN) == 0.5
    empty = Outcome({"rounds": 4}, {})
    for measure in (
        LAST,
        END,
        DROP,
        Measure(kind="fluctuation"),
        Measure(kind="at_fraction", at=1.0),
    ):
        assert math.isnan(measure.read(empty))


def test_a_round_is_read_where_it_was_measured() -> None:
    assert Measure(kind="in_round", at=2).read(RUN) == 0.5
    assert math.isnan(Measure(kind="in_round", at=4).read(RUN))


def test_a_target_that_is_met_exactly_counts() -> None:
    assert Measure(kind="rounds_to", target=0.75 * 0.4).read(Outcome({}, {"accuracy": {5: 0.3}})) == 5


def test_texts() -> None:
    rounds, accuracy = Measure(kind="rounds_to", target=0.5), Measure(kind="at_end")
    assert rounds.text(12.0) == "12"
    assert rounds.text(math.inf) == "not reached"
    assert rounds.mean_text([10, 13]) == "11.5 ± 2.1"
    assert accuracy.mean_text([0.5, 0.7]) == "0.600 ± 0.141"
    assert accuracy.signed(0.0123) == "+0.012"
    assert rounds.signed(3.0) == "+3"
    assert rounds.signed(0.7) == "+0.7"


def test_descriptions() -> None:
    early = Measure(kind="height", share=0.125)
    assert early.description == "test accuracy, mean over the first 1/8 of the rounds (area below its curve)"
    assert Measure(kind="over_rounds", last=10).description == "test accuracy, mean over rounds up to 10"
    assert (
        Measure(kind="at_fraction", at=0.7).description
        == "test accuracy, in the round nearest to 0.7 of the run"
    )
    assert Measure(kind="at_end", of="local_loss_rise").unit == "loss"


def test_the_last_round_counts_also_where_nothing_was_measured() -> None:
    assert RUN.rounds == 4
    assert Outcome({}, {}).rounds == 0


def test_a_fraction_is_one_of_the_rounds_that_were_planned() -> None:
    stopped = Outcome({"rounds": 100}, {"local_forgetting": {10: 0.1, 20: 0.2, 30: 0.3}})
    assert Measure(kind="at_fraction", of="local_forgetting", at=0.3).read(stopped) == 0.3
    assert Measure(kind="at_fraction", of="local_forgetting", at=0.1).read(stopped) == 0.1
    assert math.isnan(Measure(kind="at_fraction", of="local_forgetting", at=0.5).read(stopped)), (
        "it stopped before that"
    )


def test_a_run_that_stopped_within_a_window_has_no_mean_over_it() -> None:
    stopped = Outcome({"rounds": 100}, {"accuracy": {10: 0.1, 20: 0.3}})
    assert Measure(kind="height", share=0.2).read(stopped) == pytest.approx(0.2)
    assert math.isnan(Measure(kind="height", share=0.3).read(stopped))
    assert Measure(kind="height", last=20).read(stopped) == pytest.approx(0.2)
    assert math.isnan(Measure(kind="height", last=30).read(stopped))
    assert Measure(kind="height", last=30).read(Outcome({"rounds": 20}, stopped.series)) == pytest.approx(0.2)


def test_series_of_records() -> None:
    def record(round: int, accuracy: float, lost: float | None) -> dict[str, object]:
        return {"round": round, "test": {"accuracy": accuracy, "loss": 1.0}, "forgetting": {"round": lost}}

    matrix = {
        "round": 2,
        "probe": "client_matrix",
        "models": [3, 5],
        "data": [3, 5],
        "start": [0.5, 0.8],
        # Model 3 loses 0.3 on data 5; model 5 gains 0.1 on data 3; own data do not count.
        "after": [[0.9, 0.5], [0.6, 0.9]],
    }
    steps = {
        "round": 2,
        "probe": "local_per_class",
        "start": [0.5, 0.5],
        "local": [[0.9, 0.1], [0.5, 0.5]],
        "merged": [0.7, 0.5],
        "counts": [[10, 0], [5, 5]],
        "loss": {"start": 1.0, "local": [1.5, 2.5], "merged": 0.9},
    }
    records = RunRecords("run", [record(1, 0.2, None), record(2, 0.4, 0.05)], [matrix, steps])
    series = series_of(records)
    assert series["accuracy"] == {1: 0.2, 2: 0.4}
    assert series["round_forgetting"][2] == 0.05
    assert series["local_forgetting"][2] == pytest.approx((0.3 - 0.1) / 2)
    # Own data: from 0.5 to 0.9 and from 0.8 to 0.9.
    assert series["own_gain"][2] == pytest.approx(0.25)
    # Lost locally: (0 + 0.4 + 0 + 0) / 4; in aggregation: (0.9 - 0.7 + 0.5 - 0.5) / 2.
    assert series["lost_locally"][2] == pytest.approx(0.1)
    assert series["lost_in_aggregation"][2] == pytest.approx(0.1)
    assert series["local_loss_rise"][2] == pytest.approx(1.0)
    # Shares of the largest class (1, 0), (1, 1) against (0.9, 0.1), (0.5, 0.5): r = 0.4 / sqrt(0.75 * 0.32).
    assert series["count_accuracy"][2] == pytest.approx(0.4 / math.sqrt(0.75 * 0.32))

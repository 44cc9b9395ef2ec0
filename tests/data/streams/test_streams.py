"""Streams: pure functions of (seed, round, client) that move rows, shifts and clients."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config.schema import make_config
from eunoe.data.federation import Federation, in_round
from eunoe.data.streams import Timeline
from eunoe.data.streams.base import Changes, CombinedChanges
from eunoe.data.streams.changes import Arrival, ClassPhases
from eunoe.errors import InputError
from eunoe.simulation.build import assemble

SETTING: dict[str, Any] = {
    "rounds": 30,
    "partition": {"name": "dirichlet", "clients": 10, "alpha": 0.2},
    "participation": 3,
}


def federation(stream: Any, **values: Any) -> Federation:
    return assemble(make_config({**SETTING, "stream": stream, **values}))[0].federation


def owned(found: Federation, round: int) -> list[list[int]]:
    there = in_round(found, round)
    return [there.rows(client).tolist() for client in range(len(found))]


def test_drift_moves_each_client_from_one_division_of_the_same_rows_to_another() -> None:
    found = federation({"name": "label_drift", "start": 10, "end": 20})
    before, during, after = (owned(found, round) for round in (10, 15, 20))
    assert before == [found.rows(client).tolist() for client in range(10)]
    assert before != after
    every = sorted(row for rows in before for row in rows)
    # The second division leaves out what does not divide evenly.
    assert {row for rows in after for row in rows} <= set(every)
    for first, half, second in zip(before, during, after, strict=True):
        assert len(set(half)) == len(half)
        assert len(set(half) & set(first)) >= len(first) // 2
        assert set(half) <= set(first) | set(second)
        assert len(half) <= (len(first) + len(second)) / 2 + 1
    held_out = set(found.pooled("validation")[0].tolist())
    assert not held_out & {row for rows in after for row in rows}


def test_sudden_drift_comes_at_once_and_recurring_drift_goes_back() -> None:
    sudden = federation({"name": "label_drift", "mode": "sudden", "start": 10})
    assert owned(sudden, 9) == owned(sudden, 1)
    assert owned(sudden, 10) == owned(sudden, 30)
    back = federation({"name": "label_drift", "mode": "recurring", "start": 6, "period": 5})
    assert owned(back, 6) == owned(back, 10) == owned(back, 16)
    assert owned(back, 5) == owned(back, 11) == owned(back, 21)
    assert back.changes is not None
    assert back.changes.phases(30) == (1, 6, 11, 16, 21, 26)


def test_classes_come_in_groups_and_a_client_without_any_waits() -> None:
    found = federation({"name": "classes", "phases": 3, "shuffle": False})
    labels = found.data.train.y
    groups = [{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9}]
    for round, group in ((1, groups[0]), (10, groups[0]), (11, groups[1]), (21, groups[2]), (99, groups[2])):
        there = in_round(found, round)
        for client in range(10):
            seen = set(labels[torch.from_numpy(there.rows(client))].tolist())
            assert seen <= group
            assert there.present(client) == bool(seen)
            assert there.size(client) == int(there.counts(client).sum())
    kept = in_round(federation({"name": "classes", "phases": 3, "shuffle": False, "keep": True}), 15)
    seen = {int(label) for c in range(10) for label in labels[torch.from_numpy(kept.rows(c))]}
    assert seen == groups[0] | groups[1]


def test_the_shift_grows_to_its_full_strength() -> None:
    shift = {"kind": "noise", "strength": 2.0}
    found = federation({"name": "domain", "start": 10, "end": 20}, shift=shift)
    strengths = [in_round(found, round).shift for round in (1, 10, 15, 20, 30)]
    assert [None if one is None else one.strength for one in strengths] == [None, None, 1.0, 2.0, 2.0]


def test_samples_arrive_in_the_order_of_the_data() -> None:
    newest = federation({"name": "recorded", "share": 0.25, "over": 11})
    all_so_far = federation({"name": "recorded", "share": 0.25, "over": 11, "keep": True})
    for client in range(10):
        whole = np.sort(newest.rows(client))
        held = -(-len(whole) // 4)
        for round, arrived in (
            (1, held),
            (6, round_half(held, len(whole))),
            (11, len(whole)),
            (30, len(whole)),
        ):
            there, so_far = (np.sort(in_round(one, round).rows(client)) for one in (newest, all_so_far))
            assert there.tolist() == whole[arrived - held : arrived].tolist()
            assert so_far.tolist() == whole[:arrived].tolist()
    assert newest.changes is not None
    assert newest.changes.phases(30) == (1, 12)
    assert newest.changes.phases(11) == (1,)


def round_half(first: int, last: int) -> int:
    """Half of the way from one number to another, halves upward."""
    return first + (last - first + 1) // 2


def coming(**options: Any) -> Changes:
    stream = Arrival(**options).resolve(100)
    return stream.bind(Timeline(federation("arrival"), seed=3))


def test_clients_join_and_leave_once() -> None:
    changes = coming(joining=0.5, leaving=0.5)
    there = np.array([[changes.present(client, round) for round in range(1, 101)] for client in range(400)])
    assert (np.abs(np.diff(there.astype(int), axis=1)).sum(1) <= 2).all()
    assert there[:, 0].mean() == pytest.approx(0.5, abs=0.07)
    assert there.any(1).all()


def test_a_client_is_there_for_its_share_of_each_day() -> None:
    changes = coming(day=20, awake=0.4, together=0.0)
    there = np.array([[changes.present(client, round) for round in range(1, 41)] for client in range(200)])
    assert (there[:, :20] == there[:, 20:]).all()
    assert set(there[:, :20].sum(1)) == {8}
    together = coming(day=20, awake=0.4, together=1.0)
    assert [together.present(client, 8) for client in range(50)] == [True] * 50
    assert [together.present(client, 9) for client in range(50)] == [False] * 50


@given(st.integers(1, 40), st.integers(0, 9))
def test_a_round_is_the_same_in_whatever_order_it_is_computed(round: int, client: int) -> None:
    one, other = MIXED, pickle.loads(pickle.dumps(MIXED))
    in_round(other, 41 - round)
    assert in_round(one, round).rows(client).tolist() == in_round(other, round).rows(client).tolist()
    assert in_round(one, round).present(client) == in_round(other, round).present(client)


MIXED = federation(
    [{"name": "label_drift"}, {"name": "classes", "keep": True}, {"name": "arrival", "day": 6}]
)


def test_several_streams_act_together() -> None:
    assert isinstance(MIXED.changes, CombinedChanges)
    drifted = in_round(federation("label_drift"), 25)
    classes = federation({"name": "classes", "keep": True})
    assert classes.changes is not None
    for client in range(10):
        wanted = classes.changes.rows(client, 25, drifted.rows(client))
        assert in_round(MIXED, 25).rows(client).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("stream", "values", "words"),
    [
        ({"name": "classes", "phases": 11}, {}, "stream.phases=11 is too large: there are 10 classes"),
        ("domain", {}, "needs a feature shift"),
        ({"name": "label_drift", "mode": "sudden", "end": 9}, {}, "end requires mode = 'gradual'"),
        ({"name": "label_drift", "period": 9}, {}, "period requires mode = 'recurring'"),
        ({"name": "label_drift", "start": 9, "end": 9}, {}, "end must be after start"),
        ({"name": "arrival", "awake": 0.2}, {}, "require day"),
        ("drift", {}, "no stream is called 'drift'"),
        ({"name": "recorded", "share": 0.0}, {}, "share"),
        ({"name": "recorded", "share": 1.5}, {}, "share"),
        ({"name": "recorded", "over": 0}, {}, "over"),
        ((), {"stale_counts": 2}, "do not change without one"),
        ((), {"training": {"label_counts": "seen"}}, "do not change without one"),
        ("classes", {"method": "central"}, "trains no client"),
    ],
)
def test_streams_that_do_not_fit_are_refused(stream: Any, values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        federation(stream, **values)


def test_natural_clients_cannot_be_drawn_again() -> None:
    ids = np.repeat(np.arange(4), 30)
    data = Federation.from_arrays(np.random.rand(120, 3), np.arange(120) % 3, client_ids=ids)
    bound = ClassPhases(phases=3).resolve(30).bind(Timeline(data, 0))
    assert bound.phases(30) == (1, 11, 21)
    from eunoe.data.streams.changes import LabelDrift

    with pytest.raises(InputError, match="redrawn, not 'natural'"):
        LabelDrift().resolve(30).bind(Timeline(data, 0))


def test_a_new_division_comes_before_what_chooses_among_samples() -> None:
    one, other = (federation([*names]) for names in (("classes", "label_drift"), ("label_drift", "classes")))
    for round in (1, 15, 30):
        assert owned(one, round) == owned(other, round)


def test_a_federation_in_a_round_is_not_changed_twice() -> None:
    shift = {"kind": "noise", "strength": 2.0}
    found = federation({"name": "domain", "start": 10, "end": 20}, shift=shift)
    again = in_round(in_round(found, 12), 15)
    assert again.shift is not None
    assert again.shift.strength == 1.0

"""Medians of norms by hand, and updates that are not added."""

from typing import Any

import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Method, Upload
from eunoe.server.aggregator import Aggregator
from eunoe.server.update_checks import (
    FACTOR,
    REMEMBERED,
    Norms,
    NormStats,
    all_finite,
    append_stats,
    change_of,
    first_not_finite,
    form_problem,
    largest_norm,
    range_problem,
)
from eunoe.server.updates import Limits, Update
from tests.helpers import make_aggregator, make_simulation


def weights(
    *values: float, float_buffers: tuple[float, ...] = (), int_buffers: tuple[int, ...] = ()
) -> Weights:
    return Weights(
        torch.tensor(values), torch.tensor(float_buffers), torch.tensor(int_buffers, dtype=torch.int64)
    )


def test_the_median_norm_is_that_of_norms_above_zero() -> None:
    assert Norms([(1.0, 5), (0.0, 100), (3.0, 7)]).stats() == NormStats(2.0, 6.0)
    assert Norms([(0.0, 5)]).stats() is None


def test_medians_without_one_client() -> None:
    others = Norms([(1.0, 5), (2.0, 6), (4.0, 9), (1e30, 1), (0.0, 50)])
    assert others.stats_without(1e30, 1) == NormStats(2.0, 6.0)
    assert others.stats_without(1.0, 5) == NormStats(4.0, 6.0)
    assert others.stats_without(0.0, 50) == NormStats(3.0, 5.5)
    assert Norms([(1.0, 5)]).stats_without(1.0, 5) is None


def test_the_limit_by_hand() -> None:
    assert largest_norm(5, None, None) is None
    assert largest_norm(5, NormStats(2.0, 5.0), None) == 2 * FACTOR
    # Four times the steps, four times the norm; fewer steps lower nothing.
    assert largest_norm(20, NormStats(2.0, 5.0), None) == 8 * FACTOR
    assert largest_norm(1, None, NormStats(2.0, 5.0)) == 2 * FACTOR
    # The larger of both, but the round's no more than FACTOR times the past's.
    assert largest_norm(5, NormStats(1.0, 5.0), NormStats(2.0, 5.0)) == 2 * FACTOR
    assert largest_norm(5, NormStats(6.0, 5.0), NormStats(2.0, 5.0)) == 6 * FACTOR
    assert largest_norm(5, NormStats(1e30, 5.0), NormStats(2.0, 5.0)) == 2 * FACTOR**2


def test_only_the_last_rounds_are_remembered() -> None:
    past: dict[str, list[NormStats]] = {}
    for round in range(REMEMBERED + 3):
        past = append_stats(past, {"change": NormStats(float(round), 1.0), "float_buffers": None})
    assert list(past) == ["change"]
    assert [one.norm for one in past["change"]] == [float(round) for round in range(3, REMEMBERED + 3)]


@pytest.mark.parametrize(
    ("value", "upload", "units", "problem"),
    [
        ([1.0, 3.0], Upload("sum", 2, lowest=0.0, highest=1.0, per="sample"), 3, None),
        ([1.0, 4.0], Upload("sum", 2, lowest=0.0, highest=1.0, per="sample"), 3, "has a value of 4, above 3"),
        ([1.0, 4.0], Upload("sum", 2, highest=1.0, per="sample"), None, None),
        ([-1.0, 0.0], Upload("sum", 2, lowest=0.0), 1, "has a value of -1, below 0"),
        ([0.5, 0.0], Upload("sum", 2, lowest=0.0, highest=1.0, whole=True), 1, "not whole numbers"),
        ([-1e30, 1e30], Upload("sum", 2), 1, None),
        ([1.0, 2.0], Upload("keep", 2, lowest=0.0, highest=1.0, per="sample", total=True), 3, None),
        ([2.0, 2.0], Upload("keep", 2, highest=1.0, per="sample", total=True), 3, "has a sum of 4, above 3"),
    ],
)
def test_uploads_stay_in_their_range(
    value: list[float], upload: Upload, units: int | None, problem: str | None
) -> None:
    found = range_problem(torch.tensor(value), upload, units)
    assert found is None if problem is None else problem in str(found)


def test_claims_are_held_to_what_is_known() -> None:
    start = weights(0.0)
    update = Update(0, 10, weights(1.0), {}, steps=4)
    assert form_problem(update, start, {}, Limits(10, 4)) is None
    assert form_problem(update, start, {}) is None
    assert form_problem(update, start, {}, Limits(9, 4)) == "it trained on 10 samples, not on its 9"
    assert (
        form_problem(update, start, {}, Limits(10, 3))
        == "it took 4 steps, more than the 3 that its data allow"
    )


def test_variances_must_not_be_negative() -> None:
    start = weights(0.0, float_buffers=(1.0, 1.0))
    mask = torch.tensor([False, True])
    for buffers, problem in (((-1.0, 0.0), None), ((1.0, -1e-9), "negative variance")):
        sent = weights(1.0, float_buffers=buffers)
        update = Update(0, 10, sent, {}, steps=4)
        found = form_problem(update, start, {}, None, mask)
        assert found is None if problem is None else problem in str(found)
        assert form_problem(update, start, {}) is None


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("size", [1, 15, 16, 1000])
def test_one_bad_value_is_found_wherever_it_is(bad: float, size: int) -> None:
    for at in range(size):
        value = torch.ones(size)
        value[at] = bad
        assert not all_finite(value)
        # One of the other sign does not hide it.
        value[at - 1] = -bad
        assert not all_finite(value)
    assert all_finite(torch.ones(size))
    assert all_finite(torch.empty(0))


def test_a_change_is_in_float64_and_leaves_the_update_alone() -> None:
    new, start = torch.tensor([1.5, -2.0], dtype=torch.float64), torch.tensor([0.5, 1.0]).double()
    assert change_of(new, start).tolist() == [1.0, -3.0]
    assert new.tolist() == [1.5, -2.0]
    assert change_of(new.float(), start).dtype == torch.float64


def test_every_vector_of_the_server_must_be_finite() -> None:
    good, bad = torch.zeros(2), torch.tensor([0.0, torch.inf])
    assert (
        first_not_finite(weights(1.0), {"control": good, "times": torch.zeros(2, dtype=torch.int64)}) is None
    )
    assert first_not_finite(weights(1.0), {"control": bad}) == "control"
    assert first_not_finite(weights(1.0, float_buffers=(float("nan"),)), {}) == "float buffers"
    assert first_not_finite(weights(float("nan")), {}) == "model"


class Sends(Method):
    """Sends a vector whose norm is bounded."""

    def uploads(self, context: Any) -> dict[str, Upload]:
        return {"extra": Upload("sum", 1, factor=10.0)}


def settled(aggregator: Aggregator, norms: list[float], **more: Any) -> dict[int, str | None]:
    """What becomes of clients with these norms of change, in the order in which it is decided."""
    found = []
    for client, norm in enumerate(norms):
        update = Update(client, 1, weights(norm, **more.get(str(client), {})), {}, steps=1)
        found += list(aggregator.receive(update))
    found += list(aggregator.settle())
    return {one.update.client: one.problem for one in found}


def aggregator_of(**options: Any) -> Aggregator:
    return make_aggregator(Method(), weights(0.0), make_simulation().context, **options)


def dropped(found: dict[int, str | None]) -> list[int]:
    return [client for client, problem in found.items() if problem is not None]


@pytest.mark.parametrize("norms", [[1.0, 1e30], [1e30, 1.0], [1.0, 2.0, 1e30, 3.0], [2.0, 2 * FACTOR + 1]])
def test_in_round_one_the_others_decide(norms: list[float]) -> None:
    aggregator = aggregator_of()
    found = settled(aggregator, norms)
    assert list(found) == list(range(len(norms)))
    assert dropped(found) == [norms.index(max(norms))]
    assert aggregator.norm_stats()["change"] == Norms((n, 1.0) for n in norms if n != max(norms)).stats()
    assert found[dropped(found)[0]].startswith("its change has a norm of ")  # type: ignore[union-attr]


def test_a_single_client_of_round_one_may_not_be_absurd() -> None:
    # FACTOR times (norm 0 of the model + norm 1 of a one).
    assert dropped(settled(aggregator_of(), [FACTOR])) == []
    assert dropped(settled(aggregator_of(), [FACTOR + 1])) == [0]


def test_later_the_last_rounds_decide_at_once_or_the_round_at_its_end() -> None:
    past = {"change": [NormStats(1.0, 1.0)] * 3}
    aggregator = aggregator_of(past=past)
    first, second, third = (Update(k, 1, weights(v), {}, steps=1) for k, v in enumerate((2.0, 150.0, 125.0)))
    assert [one.problem for one in aggregator.receive(first)] == [None]
    assert list(aggregator.receive(second)) == []
    assert list(aggregator.receive(third)) == []
    # The median of the others is 63.5 for the second: a round whose norms have all grown is kept.
    assert [one.update.client for one in aggregator.settle()] == [1, 2]
    assert aggregator.aggregate.clients == [0, 1, 2]
    # A round of bad clients is not.
    assert dropped(settled(aggregator_of(past=past), [1e30, 1e30, 1.0])) == [0, 1]
    assert dropped(settled(aggregator_of(past=past), [1e30])) == [0]


def test_a_change_up_to_the_size_of_the_model_passes() -> None:
    aggregator = make_aggregator(Method(), weights(100.0), make_simulation().context)
    updates = [Update(k, 1, weights(100.0 + v), {}, steps=1) for k, v in enumerate((0.1, 0.1, 99.0, 101.0))]
    found = [one for update in updates for one in aggregator.receive(update)] + list(aggregator.settle())
    assert [one.update.client for one in found if one.problem] == [3]


def test_what_is_held_is_settled_when_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eunoe.server.aggregator.HELD", 10)
    aggregator = aggregator_of()
    updates = [Update(k, 1, weights(1.0), {}, steps=1) for k in range(5)]
    assert [[one.update.client for one in aggregator.receive(update)] for update in updates] == [
        [],
        [],
        [0, 1, 2],
        [],
        [],
    ]
    assert [one.update.client for one in aggregator.settle()] == [3, 4]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"float_buffers": (1e30,), "int_buffers": (1,)}, "float buffers"),
        ({"float_buffers": (1.0,), "int_buffers": (2**40,)}, "int buffers"),
    ],
)
def test_buffers_are_held_to_the_same_rule(other: dict[str, Any], named: str) -> None:
    start = weights(0.0, float_buffers=(0.0,), int_buffers=(0,))
    aggregator = make_aggregator(Method(), start, make_simulation().context)
    usual_one = {"float_buffers": (1.0,), "int_buffers": (1,)}
    for client in range(3):
        own = other if client == 1 else usual_one
        assert not list(aggregator.receive(Update(client, 1, weights(1.0, **own), {}, steps=1)))
    problems = [one.problem for one in aggregator.settle()]
    assert problems[0] is None
    assert problems[2] is None
    assert f"its {named} has a norm of" in str(problems[1])


def test_uploads_are_held_to_a_factor_of_their_own() -> None:
    aggregator = make_aggregator(Sends(), weights(0.0), make_simulation().context)
    found = []
    for client, value in enumerate((1.0, -9.0, 11.0)):
        found += list(aggregator.receive(Update(client, 1, weights(1.0), {"extra": torch.tensor([value])})))
    found += list(aggregator.settle())
    # The median of the others is 6, 6 and 5.
    assert [one.problem for one in found] == [None] * 3
    aggregator = make_aggregator(Sends(), weights(0.0), make_simulation().context)
    for client, value in enumerate((1.0, -1.0, 11.0)):
        assert not list(aggregator.receive(Update(client, 1, weights(1.0), {"extra": torch.tensor([value])})))
    last = list(aggregator.settle())[-1]
    assert last.problem == "its upload 'extra' has a norm of 11, above the limit of 10"


def test_sizes_and_steps_are_those_of_the_simulation() -> None:
    simulation = make_simulation(training={"batch_size": 7, "epochs": [1, 3]})
    size = int(simulation.federation.sizes[1])
    assert simulation.limits(1) == Limits(size, 3 * -(-size // 7))
    assert make_simulation(training={"steps": 5}).limits(1).steps == 5

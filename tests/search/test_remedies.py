"""What of the table of remedies fits a run, and in which order it is tried."""

from typing import Any

from eunoe.analysis.remedies import Clients, Remedy
from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.search.remedies import TABLE, Applicability, averaging_variants, order_table, vary
from eunoe.simulation.build import UserObjects
from tests.small_runs import NAMED

SKEWED = Clients(0.6, 100.0, 2.0)


def applicable(dead: bool = False, **values: Any) -> Applicability:
    config = make_config({**NAMED, **values})
    return Applicability(config.model_dump(exclude_none=True), config, UserObjects(), dead)


def fitting(dead: bool = False, **values: Any) -> dict[str, Any]:
    made = applicable(dead, **values)
    return {remedy.label: remedy.apply(made.values, made.config) for remedy in made.select(TABLE)}


def test_the_baseline_comes_first_and_its_learning_rate_is_varied() -> None:
    changed = fitting()
    assert next(iter(changed)) == ""
    assert changed["a third of the learning rate"]["training"]["lr"] == 0.06667
    assert changed["three times the learning rate"]["training"]["lr"] == 0.6
    assert {"wsm", "logit adjustment", "server momentum", "fedntd"} <= changed.keys()
    assert changed["wsm, three times the learning rate"]["loss"]["name"] == "wsm"
    # A tenth of it in the last of four rounds.
    assert changed["falling learning rate"]["training"]["lr_decay"] == 0.562341


def test_ten_times_a_learning_rate_is_tried_only_if_it_is_small() -> None:
    assert "ten times the learning rate" not in fitting()
    small = fitting(training={"epochs": 1, "lr": 0.01})
    assert small["ten times the learning rate"]["training"]["lr"] == 0.1


def test_much_smaller_steps_come_first_where_nothing_was_learned() -> None:
    for dead in (False, True):
        labels = list(fitting(dead))
        assert (labels[1] == "a tenth of the learning rate") == dead
        assert ("a hundredth of the learning rate" in labels) == dead


def test_forgetting_and_label_skew_decide_the_order() -> None:
    alike = order_table(SKEWED, labels_alike=True, forgets_little=False)
    first = next(at for at, remedy in enumerate(alike) if remedy.labels)
    assert all(remedy.labels for remedy in alike[first:])
    little = [remedy.label for remedy in order_table(SKEWED, labels_alike=False, forgets_little=True)]
    assert little[0] == ""
    assert little.index("a third of the learning rate") < little.index("wsm")


def test_variations_of_a_remedy_are_new_ones() -> None:
    made = applicable()
    table = made.select(TABLE)
    wsm = next(remedy for remedy in table if remedy.label == "wsm")
    labels = [remedy.label for remedy in made.select(vary(wsm))]
    # Three times the learning rate is in the table, and an epoch cannot be halved.
    assert labels == [
        "wsm, falling learning rate",
        "wsm, a third of the learning rate",
        "wsm, twice the local epochs",
    ]
    assert not made.select(vary(wsm))


def test_public_data_are_needed_by_what_distills() -> None:
    assert not {"flashback", "feddf"} & fitting().keys()
    assert {"flashback", "feddf"} <= fitting(public={"share": 0.1}).keys()


def test_what_the_run_does_already_is_not_tried() -> None:
    assert "wsm" not in fitting(loss="wsm")
    assert "fedprox" not in fitting(method={"name": "fedprox", "mu": 0.1})
    # An epoch cannot be halved.
    assert "half of the local epochs" not in fitting()
    assert fitting(training={"epochs": 4})["half of the local epochs"]["training"]["epochs"] == 2


def test_every_name_in_the_table_is_one_of_the_library() -> None:
    assert TABLE[0] == Remedy("")
    assert len({remedy.label for remedy in TABLE}) == len(TABLE)
    for kind in ("method", "loss", "server_optimizer"):
        named = {remedy.changes[kind]["name"] for remedy in TABLE if kind in remedy.changes}
        assert named <= set(registry.names(kind))


def test_a_remedy_has_two_variants_and_one_of_them_is_itself() -> None:
    for rounds, decay in ((60, 0.8), (61, 0.9)):
        made = applicable(rounds=rounds)
        first, *others = made.select(TABLE)
        newest, averaged = averaging_variants(first, made.config)
        assert newest is first
        assert (averaged.label, averaged.changes) == ("averaging", {"averaging": {"decay": decay}})
        labels = [averaging_variants(remedy, made.config).averaged.label for remedy in others]
        assert "wsm with averaging" in labels
        assert "wsm with fedacg, a third of the learning rate and averaging" in labels
    made = applicable(averaging={"last": 3})
    first = made.select(TABLE)[0]
    newest, averaged = averaging_variants(first, made.config)
    assert averaged is first
    assert newest.label == "baseline without averaging"
    changed = newest.apply(made.values, made.config)
    assert changed is not None
    assert make_config(changed).averaging is None


def test_what_cannot_be_changed_is_no_remedy() -> None:
    config = make_config({**NAMED, "training": {"steps": 3}})
    halved = Remedy("half", epochs=0.5)
    assert halved.apply(config.model_dump(), config) is None


def test_what_the_method_refuses_is_left_out() -> None:
    changed = fitting(method="feddf", public={"share": 0.1})
    # It computes the new weights itself.
    assert "server momentum" not in changed
    assert "wsm" in changed

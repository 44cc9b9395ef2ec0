"""What of the table of remedies fits a run."""

from typing import Any

from eunoe.analysis.remedies import Remedy
from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.search.remedies import BASELINE, TABLE, applicable_remedies, averaging_variants
from eunoe.simulation.build import UserObjects
from tests.small_runs import NAMED


def fitting(labels_differ: bool = True, **values: Any) -> dict[str, Any]:
    config = make_config({**NAMED, **values})
    base = config.model_dump(exclude_none=True)
    remedies = applicable_remedies(base, config, UserObjects(), labels_differ)
    return {remedy.name: remedy.apply(base, config) for remedy in remedies}


def test_the_baseline_comes_first_and_its_learning_rate_is_varied() -> None:
    found = fitting()
    assert next(iter(found)) == ""
    assert found["a third of the learning rate"]["training"]["lr"] == 0.06667
    assert found["three times the learning rate"]["training"]["lr"] == 0.6
    assert {"wsm", "logit adjustment", "server momentum", "fedntd"} <= found.keys()
    assert found["wsm, three times the learning rate"]["loss"]["name"] == "wsm"


def test_ten_times_a_learning_rate_is_tried_only_if_it_is_small() -> None:
    assert "ten times the learning rate" not in fitting()
    small = fitting(training={"epochs": 1, "lr": 0.01})
    assert small["ten times the learning rate"]["training"]["lr"] == 0.1
    assert small["wsm, ten times the learning rate"]["loss"]["name"] == "wsm"


def test_much_smaller_steps_come_first_where_nothing_was_learned() -> None:
    config = make_config(NAMED)
    for dead in (False, True):
        found = applicable_remedies(config.model_dump(exclude_none=True), config, UserObjects(), True, dead)
        labels = [remedy.name for remedy in found]
        assert (labels[1] == "a tenth of the learning rate") == dead
        assert ("a hundredth of the learning rate" in labels) == dead


def test_remedies_for_labels_apply_only_where_labels_differ() -> None:
    found = fitting(labels_differ=False)
    assert not any(name in label for label in found for name in ("wsm", "logit", "fedntd"))
    assert "server momentum" in found


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
    assert TABLE[0] is BASELINE
    assert len({remedy.name for remedy in TABLE}) == len(TABLE)
    for kind in ("method", "loss", "server_optimizer"):
        named = {remedy.changes[kind]["name"] for remedy in TABLE if kind in remedy.changes}
        assert named <= set(registry.names(kind))


def test_a_remedy_has_two_variants_and_one_of_them_is_itself() -> None:
    for rounds, decay in ((60, 0.8), (61, 0.9)):
        config = make_config({**NAMED, "rounds": rounds})
        values = config.model_dump(exclude_none=True)
        first, *others = applicable_remedies(values, config, UserObjects(), True)
        newest, averaged = averaging_variants(first, config)
        assert newest is first
        assert (averaged.name, averaged.changes) == ("averaging", {"averaging": {"decay": decay}})
        labels = [averaging_variants(remedy, config).averaged.name for remedy in others]
        assert "wsm with averaging" in labels
        assert "wsm with fedacg, a third of the learning rate and averaging" in labels
    config = make_config({**NAMED, "averaging": {"last": 3}})
    values = config.model_dump(exclude_none=True)
    first = applicable_remedies(values, config, UserObjects(), True)[0]
    newest, averaged = averaging_variants(first, config)
    assert averaged is first
    assert newest.name == "fedavg + averaging · ce without averaging"
    changed = newest.apply(values, config)
    assert changed is not None
    assert make_config(changed).averaging is None


def test_what_cannot_be_changed_is_no_remedy() -> None:
    config = make_config({**NAMED, "training": {"steps": 3}})
    halved = Remedy("half", epochs=0.5)
    assert halved.apply(config.model_dump(), config) is None


def test_what_the_method_refuses_is_left_out() -> None:
    found = fitting(method="feddf", public={"share": 0.1})
    # It computes the new weights itself.
    assert "server momentum" not in found
    assert "wsm" in found

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eunoe import diagnose
from eunoe.analysis.diagnosis import clients_of
from eunoe.analysis.remedies import REMEDIES, order_by_gain
from eunoe.config.schema import make_config
from eunoe.config.settings import apply_settings
from eunoe.data.arrays import from_arrays
from eunoe.simulation.build import assemble
from eunoe.simulation.running import run
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords

ALIKE = np.full((6, 4), 10.0)
FEW = np.kron(np.eye(2), np.full((3, 2), 10.0))
# The same with so many clients that two in a round are few.
MANY = np.tile(FEW, (5, 1))
TWO = {"name": "tests.analysis.test_diagnosis:two_classes"}


def two_classes():
    """Random samples of two classes."""
    x = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    y = np.arange(400) % 2
    return from_arrays(x[:300], y[:300], x[300:], y[300:])


def records(start, local, merged, counts, before=None, **config):
    """Two rounds whose second was probed; per-class accuracies are the same for all classes."""
    before = start if before is None else before
    values = make_config(config).model_dump(mode="json")
    metrics = [
        {"round": t, "clients": [0, 1], "steps": [5, 5], "test": {"accuracy": a, "per_class": [a] * 4},
         "forgetting": {"round": max(0.0, before - a) if t == 2 else None, "fedntd": 0.0}}
        for t, a in ((1, before), (2, merged))
    ]  # fmt: skip
    probe = {
        "probe": "local_per_class", "round": 2, "clients": [0, 1],
        "start": [start] * 4, "local": [[value] * 4 for value in local], "merged": [merged] * 4,
    }  # fmt: skip
    return RunRecords("run", metrics, [probe], config=values, label_counts=counts)


@pytest.mark.parametrize(
    ("found", "kind", "first"),
    [
        # Local models forget 40 points each; aggregation loses none that a client still had.
        (records(0.9, [0.5, 0.5], 0.8, MANY), "local", "averaging.decay=0.9"),
        (records(0.9, [0.5, 0.5], 0.8, FEW), "local", "averaging.decay=0.9"),
        # The same loss of knowledge where all clients have the same classes.
        (records(0.9, [0.5, 0.5], 0.8, ALIKE), "not labels", "averaging.decay=0.9"),
        # Local models keep nearly all; their average loses 30 points.
        (records(0.9, [0.88, 0.9], 0.6, FEW, public={"share": 0.1}), "aggregation", "averaging.decay=0.9"),
        (records(0.9, [0.88, 0.89], 0.89, FEW), "little", None),
        (records(0.9, [0.5, 0.5], 0.8, MANY, loss="wsm"), "local", "averaging.decay=0.9"),
        (
            records(0.9, [0.5, 0.5], 0.8, MANY, loss="wsm", averaging={"last": 3}),
            "local",
            "method.name=scaffold",
        ),
        (records(0.9, [0.5, 0.5], 0.8, MANY, averaging={"last": 3}), "local", "method.name=scaffold"),
    ],
)
def test_the_rules(found, kind, first):
    diagnosis = diagnose(found)
    assert diagnosis.kind == kind
    settings = [setting for remedy in diagnosis.remedies for setting in remedy.settings]
    assert (settings[0] if settings else None) == first
    if kind in ("little", "not labels"):
        assert "loss.name=wsm" not in settings


def proposed(found):
    """All that is proposed, in order."""
    return [setting for remedy in diagnose(found).remedies for setting in remedy.settings]


def flashback_for(found):
    return next(r for r in diagnose(found).remedies if "method.name=flashback" in r.settings)


@pytest.mark.parametrize("counts", [FEW, MANY])
def test_remedies_come_in_the_order_of_what_helped(counts):
    run = records(0.9, [0.5, 0.5], 0.8, counts)
    remedies = diagnose(run).remedies
    assert remedies[0] == REMEDIES["averaging"]
    by_gain = [
        remedy
        for remedy in remedies
        if remedy.name in ("wsm", "fedntd", "fedprox") or "scaffold" in remedy.name
    ]
    assert len(by_gain) == 4
    assert by_gain == order_by_gain(by_gain[::-1], clients_of(run))
    order = [setting for remedy in remedies for setting in remedy.settings]
    assert "method.name=fedntd" in order
    assert "method.name=scaffold" not in proposed(
        records(0.9, [0.5, 0.5], 0.8, counts, training={"momentum": 0.9})
    )


def test_both_losses_are_named_and_the_larger_one_is_said_to_be():
    # The start has .9 of every class, each client .6, aggregation .55: L is 30 points and G 5.
    (last,) = diagnose(records(0.9, [0.6, 0.6], 0.55, FEW)).sentences[-1:]
    assert last.startswith(
        "Local training loses 30.0 points, more than aggregation (5.0 points): a client has 2.0"
    )
    # Now the best client has kept all but L is 15 on average, and aggregation loses 25 from it.
    (last,) = diagnose(records(0.9, [0.9, 0.6], 0.65, FEW)).sentences[-1:]
    assert last.startswith("Aggregation loses 25.0 points, more than local training (15.0 points)")
    (last,) = diagnose(records(0.9, [0.88, 0.9], 0.6, FEW)).sentences[-1:]
    assert last.startswith("Most is lost in aggregation, gains not counted: 30.0 points, against 1.0 points")


def test_of_a_diverged_run_it_says_so_and_proposes_a_smaller_learning_rate_first():
    found = records(0.9, [0.5, 0.5], 0.8, FEW, method="scaffold")
    dead = replace(found, status={"state": "diverged", "round": 2, "reason": "its loss ended at 4e+26"})
    diagnosis = diagnose(dead)
    assert diagnosis.kind == "diverged"
    assert diagnosis.sentences[0] == "The run diverged: its loss ended at 4e+26."
    # SCAFFOLD would refuse to clip.
    assert [remedy.settings for remedy in diagnosis.remedies] == [("training.lr=0.01",)]
    plain = replace(dead, config=make_config({}).model_dump(mode="json"))
    assert proposed(plain) == ["training.lr=0.01", "training.clip=10"]


def test_of_a_run_that_never_learned_nothing_is_proposed():
    lines = [
        {"round": t, "clients": [0], "test": {"accuracy": 0.25, "per_class": [0.25] * 4}} for t in range(12)
    ]
    diagnosis = diagnose(RunRecords("run", lines, config=make_config({}).model_dump(mode="json")))
    assert (diagnosis.kind, diagnosis.remedies) == ("untrained", ())
    assert diagnosis.sentences[0] == "Its accuracy never rose above chance."


def test_where_models_are_averaged_the_forgetting_of_the_clients_model_counts():
    # The mean loses half a point in a round and local training 3: little, unless clients' models lose 10.
    found = records(0.9, [0.87, 0.87], 0.895, FEW, averaging={"decay": 0.9})
    sent = [
        {**line, "sent": {"test": {"accuracy": 0.8}, "forgetting": {"round": 0.1}}} for line in found.metrics
    ]
    assert diagnose(found).kind == "little"
    diagnosis = diagnose(replace(found, metrics=sent))
    assert diagnosis.kind == "local"
    said = " ".join(diagnosis.sentences)
    assert "sent to clients has accuracy 80.0%, and a round takes 10.0 points" in said
    assert "A round takes 0.5 points" in said


def test_a_federation_is_told_what_to_change_in_its_own_config():
    remedy = flashback_for(records(0.9, [0.88, 0.9], 0.6, FEW))
    assert remedy.config_change() == (
        'in config.toml of the app: method.name = "flashback", public.share = 0.05'
    )


@pytest.mark.parametrize("method", ["scaffold", "fedntd", "fedprox", "flashback"])
def test_what_a_run_did_already_is_no_remedy(method):
    for counts, local in ((ALIKE, [0.5, 0.5]), (FEW, [0.5, 0.5]), (FEW, [0.88, 0.9])):
        merged = 0.6 if local[0] > 0.8 else 0.8
        for done in ("fedavg", method):
            remedies = diagnose(records(0.9, local, merged, counts, method=done)).remedies
            assert remedies
            assert all(f"method.name={done}" not in remedy.settings for remedy in remedies)


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        # SCAFFOLD reads gradients off plain steps of sgd.
        (records(0.9, [0.5, 0.5], 0.8, FEW, training={"clip": 10.0}), ["method.name=scaffold"]),
        (records(0.9, [0.5, 0.5], 0.8, ALIKE, training={"optimizer": "adam"}), ["method.name=scaffold"]),
        # With two classes there are no two that are not the true one.
        (records(0.9, [0.5, 0.5], 0.8, MANY, data=TWO), ["method.name=fedntd"]),
        # What distils computes the new weights itself.
        (
            records(0.9, [0.88, 0.9], 0.6, MANY, server_optimizer="momentum"),
            ["method.name=flashback", "method.name=feddf"],
        ),
        (
            records(0.9, [0.88, 0.9], 0.6, MANY, public={"share": 0.1, "validation": 0.0}),
            ["method.name=flashback", "method.name=feddf"],
        ),
    ],
)
def test_what_a_run_would_refuse_is_no_remedy(found, refused):
    remedies = diagnose(found).remedies
    proposed = [setting for remedy in remedies for setting in remedy.settings]
    assert proposed
    assert not set(refused) & set(proposed)
    for remedy in remedies:
        assemble(make_config(apply_settings(found.config, remedy.settings)))


def test_where_the_run_itself_cannot_be_assembled_nothing_is_left_out():
    found = records(0.9, [0.88, 0.9], 0.6, FEW, data="nowhere.npz", server_optimizer="momentum")
    assert "method.name=flashback" in proposed(found)


def test_without_public_data_distillation_asks_for_some():
    remedy = flashback_for(records(0.9, [0.88, 0.9], 0.6, FEW))
    assert "5% of the clients' samples, with their labels, at the server" in remedy.reason
    assert "samples" not in flashback_for(records(0.9, [0.88, 0.9], 0.6, FEW, public={"share": 0.1})).reason
    assert remedy.settings == ("method.name=flashback", "public.share=0.05")
    assert remedy.command("r/config.toml") == (
        "eunoe run r/config.toml --set method.name=flashback --set public.share=0.05"
    )


def test_the_remedy_of_a_run_with_a_name_has_another_name():
    remedy = flashback_for(records(0.9, [0.88, 0.9], 0.6, FEW))
    words = shlex.split(remedy.command("my runs/config.toml", "plain"))
    assert words[2] == "my runs/config.toml"
    assert words[-1] == "name=plain + flashback + public.share=0.05"


def test_label_counts_that_were_not_recorded_are_not_mentioned():
    diagnosis = diagnose(records(0.9, [0.5, 0.5], 0.8, None))
    assert diagnosis.kind == "local"
    assert "nan" not in " ".join(diagnosis.sentences)


def test_a_run_without_probes_is_not_judged():
    found = records(0.9, [0.5, 0.5], 0.8, FEW)
    assert (
        diagnose(RunRecords("run", found.metrics, [], config=found.config, label_counts=FEW)).kind
        == "unmeasured"
    )


@pytest.mark.parametrize(("after", "kind"), [(0.5, "local"), (0.88, "unmeasured")])
def test_what_training_costs_on_others_data_is_enough(after, kind):
    found = records(0.9, [], 0.8, MANY)
    matrix = {"probe": "client_matrix", "round": 2, "models": [0, 1], "data": [0, 1],
              "start": [0.9, 0.9], "after": [[0.95, after], [after, 0.95]]}  # fmt: skip
    judged = diagnose(
        RunRecords("run", found.metrics, [matrix], config=found.config, label_counts=found.label_counts)
    )
    assert judged.kind == kind
    assert [r.settings for r in judged.remedies[:1]] == (
        [("averaging.decay=0.9",)] if kind == "local" else []
    )


DIGITS = {
    "rounds": 20,
    "participation": 4,
    "data": {"name": "digits"},
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.1},
    "split": {"validation": 0.3},
    "public": {"share": 0.1},
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"epochs": 5, "batch_size": 16, "lr": 0.1},
    "evaluation": {"last": 10},
    "probes": [
        {"metric": "client_matrix", "at": [step / 10 for step in range(1, 11)], "data": "clients"},
        {"metric": "local_per_class", "at": [step / 20 for step in range(1, 21)]},
    ],
    "engine": {"name": "serial"},
}


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"partition": {"name": "classes", "clients": 20, "classes": 2}}, {"local"}),
        ({"partition": {"name": "dirichlet", "clients": 20, "alpha": 100.0}}, {"little"}),
        (
            {"partition": {"name": "iid", "clients": 20}, "shift": {"kind": "rotation", "strength": 90.0}},
            {"not labels", "little"},
        ),
    ],
)
def test_real_runs_get_the_diagnosis_they_deserve(tmp_path, change, kinds):
    done = run({**DIGITS, **change}, out=tmp_path / "run")
    found = diagnose(read_run(done.folder))
    assert found.kind in kinds
    proposed = [setting for remedy in found.remedies for setting in remedy.settings]
    assert ("loss.name=wsm" in proposed) == (found.kind == "local")


def test_clients_that_train_alone_have_nothing_to_cure(tmp_path: Path) -> None:
    done = run(
        rounds=2,
        participation=2,
        partition={"clients": 4},
        method="local",
        engine="serial",
        out=tmp_path / "run",
    )
    found = diagnose(done.read)
    assert (found.kind, found.remedies) == ("alone", ())
    assert "eunoe compare FED LOCAL --by client" in found.sentences[-1]


@pytest.mark.parametrize(
    ("loss", "method", "first"),
    [
        ("ce", {"name": "fedavg"}, ["replay.memory=100", "averaging.decay=0.9", "loss.name=wsm"]),
        ("wsm", {"name": "flashback"}, ["replay.memory=100", "method.decay=0.95", "averaging.decay=0.9"]),
    ],
)
def test_drift_is_told_from_label_skew(loss, method, first):
    skewed = records(0.9, [0.5, 0.5], 0.8, FEW, loss=loss, method=method, public={"share": 0.1})
    assert diagnose(changed(skewed, 0.6)).kind == "drift"
    assert proposed(changed(skewed, 0.6)) == first
    # What changed cost less than a round does: it is the labels.
    found = diagnose(changed(skewed, 0.85))
    assert found.kind == "local"
    assert "The changes of the data are not the cause of forgetting." in found.sentences
    again = replace(skewed, config={**skewed.config, "replay": {"memory": 9}})
    assert "replay.memory=100" not in proposed(changed(again, 0.6))


def changed(found, accuracy):
    """The same run, with a third round of this accuracy after a change of the data."""
    phases = [{**record, "phases": {"phase": 1, "began": 1}} for record in found.metrics]
    last = {**found.metrics[-1], "round": 3, "test": {"accuracy": accuracy, "per_class": [accuracy] * 4}}
    last["forgetting"] = {"round": None, "fedntd": 0.0}
    return replace(found, metrics=[*phases, {**last, "phases": {"phase": 2, "began": 3}}])


def test_a_start_model_that_is_forgotten_comes_first():
    forgets = records(0.9, [0.5, 0.5], 0.8, MANY)
    metrics = [{**record, "retention": {"share": 0.62}} for record in forgets.metrics]
    found = diagnose(replace(forgets, metrics=metrics))
    assert found.kind == "start"
    assert "62% of it is left" in str(found)
    # What needs a reference set fits no run without one.
    assert [each.changes for each in found.remedies] == [
        {"averaging": {"with_start": 0.3}},
        {"training": {"epochs": 1}},
    ]


@pytest.mark.parametrize(
    ("counts", "weights", "proposed"),
    [([90, 10], "none", ["class weights"]), ([50, 50], "none", []), ([90, 10], "balanced", [])],
)
def test_class_weights_are_proposed_for_a_useless_model_if_classes_are_rare(counts, weights, proposed):
    loss = {"name": "ce", "class_weights": weights}
    found = records(0.9, [0.9, 0.9], 0.9, np.tile(counts, (2, 1)), loss=loss)
    for record in found.metrics:
        record["test"]["per_class"] = [1.0, 0.0]
    for name in ("start", "merged"):
        found.probes[0][name] = [1.0, 0.0]
    found.probes[0]["local"] = [[1.0, 0.0]] * 2
    diagnosis = diagnose(found)
    assert diagnosis.kind == "useless"
    assert [remedy.name for remedy in diagnosis.remedies] == proposed

"""Runs whose server sees nothing but sums, without masks; the masks are tested with the federation."""

import json

import pytest
import torch

from eunoe.config.schema import make_config
from eunoe.errors import InputError, RunFailed
from eunoe.simulation.build import assemble
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.views import diagnose

METHODS = {
    **{name: {"method": name} for name in ("fedavg", "fedprox", "scaffold", "fednova", "feddyn", "fedcurv")},
    "fedcm": {"method": "fedcm"},
    "labelwise": {"method": "labelwise"},
    "gma": {"server_optimizer": {"name": "adam", "gma": 0.6}},
    "fedexp": {"server_optimizer": "fedexp"},
    "batch norm": {"model": "tests.flower.methods:Normed"},
    "stream": {"stream": "domain", "shift": {"kind": "contrast", "strength": 1.0}},
}


def values(**more):
    return {
        "seed": 4,
        "rounds": 2,
        "participation": 4,
        "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"epochs": 1, "batch_size": 64},
        "evaluation": {"every": 0, "last": 1},
        "loss": "wsm",
        "engine": {"name": "serial"},
        "probes": [],
        **more,
    }


def secure(**more):
    return values(secure_aggregation=more.pop("secure_aggregation", {}), **more)


def records(done: Run) -> list[dict]:
    return [json.loads(line) for line in (done.folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", METHODS)
def test_the_sums_are_those_of_the_plain_run_but_for_rounding(tmp_path, name):
    plain, summed = (run(make(**METHODS[name]), out=tmp_path / make.__name__) for make in (values, secure))
    for lane in ("parameters", "float_buffers"):
        torch.testing.assert_close(getattr(plain.weights(), lane), getattr(summed.weights(), lane))


def test_the_process_engine_has_the_bits_of_the_serial_one(tmp_path):
    serial, process = (
        run(secure(method="scaffold", engine={"name": name}), out=tmp_path / name)
        for name in ("serial", "process")
    )
    assert torch.equal(serial.weights().parameters, process.weights().parameters)
    assert records(serial) == records(process)


def test_the_record_has_means_and_no_number_of_a_single_client(tmp_path):
    plain, summed = (records(run(make(), out=tmp_path / make.__name__))[0] for make in (values, secure))
    means = summed["means"]
    for mean, each in (("size", "sizes"), ("steps", "steps"), ("update_norm", "update_norms")):
        assert summed[each] == []
        assert means[mean] == pytest.approx(sum(plain[each]) / 4, rel=1e-9)
    for loss in ("loss_before", "loss_after"):
        assert summed[loss] == []
        assert means[loss] == pytest.approx(sum(plain[loss]) / 4, rel=1e-6)
    assert summed["clients"] == plain["clients"]
    assert (summed["forwards"], summed["backwards"]) == (plain["forwards"], plain["backwards"])
    # 8 bytes for each parameter and for each of nine numbers.
    parameters = plain["bytes_down"] // 4 // 4
    assert summed["bytes_up"] == 4 * 8 * (parameters + 9)


def test_integer_buffers_stay_as_they_were(tmp_path):
    done = run(secure(**METHODS["batch norm"]), out=tmp_path / "run")
    assert done.weights().int_buffers.tolist() == [0] * len(done.weights().int_buffers)


def test_a_client_beyond_the_bound_leaves_the_round_and_too_few_end_it(tmp_path):
    attack = {"name": "nan", "share": 0.2}
    done = run(secure(participation=6, attack=attack), out=tmp_path / "one")
    first = records(done)[0]
    (bad,) = first["dropped"]
    assert bad["reason"] == "its update is not finite"
    assert sorted([*first["clients"], bad["client"]]) == list(range(6))
    with pytest.raises(RunFailed) as failed:
        run(secure(secure_aggregation={"bound": 1e-6, "bounds": {}}), out=tmp_path / "all")
    message = str(failed.value)
    assert message.startswith("secure aggregation: 0 of 4 clients are left in round 1, fewer than the thresh")
    assert "beyond the bound of 1e-06" in message
    assert "\n" not in message


def test_probes_are_left_out_with_a_warning(tmp_path):
    settings = secure(evaluation={"every": 1})
    del settings["probes"]
    _, warnings = assemble(make_config(settings))
    assert any("only round forgetting and clients' own measurements are recorded" in w for w in warnings)
    done = run(settings, out=tmp_path / "run")
    path = done.folder / "probes.jsonl"
    assert not path.exists() or not path.read_text()
    assert "Secure aggregation hides clients' models: round forgetting is known" in str(diagnose(done))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"method": "flashback", "public": {"share": 0.1}},
            "method='flashback': it needs every client's",
        ),
        ({"method": "feddf", "public": {"share": 0.1}}, "method='feddf': it needs every client's model"),
        ({"method": "central", "loss": "ce"}, "method='central': it trains no client"),
        ({"aggregation": "median"}, "requires aggregation='mean', not 'median'"),
        ({"training": {"single_class": "skip"}}, "reveals who has one class only"),
        ({"participation": 2}, "3 or more clients a round, not 2: raise participation"),
        (
            {"secure_aggregation": {"threshold": 2}},
            "threshold=2 means 2 of 4 clients: it must be more than half of them, 3 to 4",
        ),
        ({"secure_aggregation": {"threshold": 0.5}}, "threshold=0.5 means 2 of 4 clients"),
        ({"secure_aggregation": {"threshold": 5}}, "threshold=5 means 5 of 4 clients"),
        ({"secure_aggregation": {"bounds": {"chang": 1.0}}}, "did you mean 'change'"),
        (
            {"secure_aggregation": {"bounds": {"change": 0.0}}},
            "bounds.change: input should be greater than or equal to 0.000001",
        ),
        (
            {"secure_aggregation": {"bound": 1e-300}},
            "bound: input should be greater than or equal to 0.000001",
        ),
        ({"secure_aggregation": {"max_samples": 10}}, "max_samples=10 is too small: a client has"),
        ({"stream": {"name": "arrival", "day": 4}}, "stream 'arrival': it keeps clients away"),
        (
            {"stream": ["label_drift", "classes"], "secure_aggregation": {"max_samples": 1797}},
            "stream 'classes': it keeps clients away",
        ),
        ({"stream": "label_drift"}, r"set secure_aggregation\.max_samples to more than any client ever has"),
        ({"probes": [{"metric": "drift", "every": 1}]}, r"set probes = \[\]"),
    ],
)
def test_what_does_not_fit_is_refused_before_round_1(more, message):
    with pytest.raises(InputError, match=message):
        assemble(make_config(secure(**more)))


def test_clients_that_grow_by_label_drift_stay(tmp_path):
    more = {
        "partition": {"name": "quantity", "clients": 6, "alpha": 1.0},
        "participation": 6,
        "method": "fednova",
        "stream": {"name": "label_drift", "mode": "sudden", "start": 2},
        "replay": {"memory": 400},
    }
    done = run(secure(secure_aggregation={"max_samples": 1797}, **more), out=tmp_path / "run")
    before, after = done.simulation.federation.sizes, done.simulation.in_round(2).federation
    assert max(after.size(client) for client in range(6)) > before.max()
    assert [record["dropped"] for record in records(done)] == [[], []]


def test_the_bound_on_work_counts_the_samples_that_clients_keep():
    drift = {"stream": "label_drift", "method": "fednova"}
    limit = {"max_samples": 1000}
    bounds = [
        assemble(make_config(secure(secure_aggregation=limit, **drift, **more)))[0]
        .secure.fixed_point.entries["work"]
        .bound
        for more in ({}, {"replay": {"memory": 1000}})
    ]
    # 16 and 32 batches of 64.
    assert bounds[1] == 2 * bounds[0]


def test_thresholds():
    options = make_config(secure()).secure_aggregation
    assert [options.least(count) for count in (3, 4, 5, 10, 100)] == [2, 3, 4, 7, 66]

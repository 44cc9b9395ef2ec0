import json

import numpy as np
import pytest
import torch
from pydantic import PrivateAttr

from eunoe.config.options import Probe
from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.metrics import Metric
from eunoe.simulation.hooks import Round
from eunoe.simulation.probing import Probing
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import start_state
from tests.helpers import Net, blobs, make_simulation

METRICS = ("client_matrix", "local_per_class", "drift", "probability")


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_a_probe_changes_no_result(tmp_path, engine):
    texts = []
    for name, probes in (("none", []), ("all", [{"metric": metric, "every": 1} for metric in METRICS])):
        torch.manual_seed(0)
        done = run(
            federation=blobs(public=0.2), model=Net(), rounds=3, participation=2, probes=probes,
            engine={"name": engine}, out=tmp_path / name,
        )  # fmt: skip
        texts.append((tmp_path / name / "metrics.jsonl").read_text())
    assert texts[0] == texts[1]
    lines = [json.loads(line) for line in (done.folder / "probes.jsonl").read_text().splitlines()]
    assert [(line["round"], line["probe"]) for line in lines] == [(r, m) for r in (1, 2, 3) for m in METRICS]


def probing(tmp_path, probe, **values):
    simulation = make_simulation(**values)
    config = make_config({"probes": [probe.model_dump()], "rounds": 10})
    engine = Serial(simulation, ClientStates(tmp_path))
    return simulation, Probing(simulation, config, engine, start_state(simulation))


def measure(hook, start, local, end):
    """Return the record of a round with these models."""
    hook.before_training(1, list(local), start)
    hook.local, done = local, Round(1, end, end, {})
    hook.after_round(done)
    (record,) = done.probes
    return record


def moved(simulation, scale):
    vector = simulation.model.parameters + scale * torch.randn(
        simulation.model.parameters.shape, generator=torch.Generator().manual_seed(int(scale * 100))
    )
    return Weights(vector, simulation.model.float_buffers.clone(), simulation.model.int_buffers.clone())


@pytest.mark.parametrize("data", ["participants", "clients", "test"])
def test_models_that_stay_as_they_were_forget_nothing(tmp_path, data):
    simulation, hook = probing(tmp_path, Probe(metric="client_matrix", every=1, data=data))
    start = simulation.model.weights.copy()
    record = measure(hook, start, {1: start, 3: start}, start)
    assert record["models"] == [1, 3]
    assert record["data"] == ([0, 1, 2, 3] if data == "clients" else [1, 3])
    assert np.array_equal(np.array(record["after"]), np.array([record["start"]] * 2), equal_nan=True)


def test_the_matrix_on_validation_parts_is_each_models_accuracy_on_each_clients_rows(tmp_path):
    simulation, hook = probing(tmp_path, Probe(metric="client_matrix", every=1, data="participants"))
    local = {0: moved(simulation, 0.5), 2: moved(simulation, 0.9)}
    record = measure(hook, simulation.model.weights.copy(), local, local[0])
    for row, model in enumerate(local.values()):
        simulation.model.load(model)
        for column, client in enumerate(local):
            rows = torch.from_numpy(simulation.federation.rows(client, "validation"))
            right = (
                simulation.model.forward(simulation.federation.data.train.x[rows]).argmax(1)
                == simulation.federation.data.train.y[rows]
            )
            assert record["after"][row][column] == pytest.approx(right.double().mean().item())


def test_small_validation_parts_are_replaced_by_the_test_set_in_the_clients_mix(tmp_path):
    for size, where in ((40, "test"), (400, "validation")):
        simulation, hook = probing(
            tmp_path, Probe(metric="client_matrix", every=1), federation=blobs(size=size)
        )
        start = simulation.model.weights.copy()
        assert measure(hook, start, {0: start}, start)["on"] == where


def test_few_of_many_participants_are_looked_at(tmp_path):
    federation = blobs(clients=12)
    probe = Probe(metric="drift", every=1, models=3)
    simulation, hook = probing(tmp_path, probe, federation=federation)
    hook.before_training(1, list(range(12)), simulation.model.weights)
    assert len(hook.selected) == 3


class Sum(Metric):
    """Sums of the parameters, and how many local models were ever seen."""

    sees = ("start", "local", "global")
    _sums: list = PrivateAttr(default_factory=list)
    _seen: int = 0

    def reset(self):
        self._sums = []

    def update(self, model):
        assert model.evaluations == {}
        self._seen += model.role == "local"
        self._sums.append((model.role, model.client, float(model.parameters.sum())))

    def compute(self):
        return {"sums": self._sums, "seen": self._seen}

    def state(self):
        return {"seen": self._seen}

    def restore(self, state):
        self._seen = state["seen"]


def test_a_metric_of_the_users_own_looks_at_clients_models(tmp_path):
    values = {
        "federation": blobs(),
        "model": Net(),
        "participation": 2,
        "engine": "serial",
        "probes": [{"metric": f"{__name__}:Sum", "every": 2}],
    }
    done = run(**values, rounds=4, out=tmp_path / "run")
    lines = [json.loads(line) for line in (done.folder / "probes.jsonl").read_text().splitlines()]
    assert [(line["round"], line["probe"], line["seen"]) for line in lines] == [(2, "sum", 2), (4, "sum", 4)]
    assert [role for role, _, _ in lines[1]["sums"]] == ["start", "local", "local", "global"]
    total = float(done.weights().parameters.sum())
    assert lines[1]["sums"][-1][2] == total
    # What it remembers goes on with the run.
    run(**values, rounds=2, out=tmp_path / "short")
    resume(tmp_path / "short", rounds=4, federation=values["federation"], model=values["model"])
    assert (tmp_path / "short" / "probes.jsonl").read_bytes() == (done.folder / "probes.jsonl").read_bytes()

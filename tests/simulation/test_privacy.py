"""Differential privacy in a run: refusals, records, the budget, repeated rounds."""

import json
import logging
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged, InputError, RunFailed
from eunoe.server.privacy import Accountant
from eunoe.server.updates import Update
from eunoe.simulation.hooks import Hook
from eunoe.simulation.loop import run_round, run_rounds
from eunoe.simulation.privacy_budget import PrivacyBudget
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run, standard_hooks
from eunoe.store.checkpoints import start_state
from eunoe.store.folder import RunFolder
from tests.helpers import Net, blobs, make_aggregator, make_simulation, select

NOISY: dict[str, Any] = {"clip": 0.5, "noise": 4.0, "delta": 0.01}
UNIFORM = {"name": "fedavg", "weighting": "uniform"}


def secretly(simulation: Simulation) -> Simulation:
    """The simulation with clients and noise drawn from the operating system."""
    assert simulation.context.privacy is not None
    privacy = replace(simulation.context.privacy, secret=True)
    return replace(simulation, context=replace(simulation.context, privacy=privacy))


def private(out: Path, method: Any = UNIFORM, privacy: Any = NOISY, **values: Any) -> Run:
    base = {"rounds": 4, "participation": 2, "probes": [], "engine": "serial", "checkpoint_seconds": 0}
    given = {"method": method, **({} if privacy is None else {"privacy": privacy})}
    torch.manual_seed(0)
    return run({**base, **given, **values}, federation=blobs(), model=Net(), out=out, progress=False)


def parameters(done: Run) -> torch.Tensor:
    return done.weights().parameters


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddyn"])
def test_without_clip_and_noise_the_model_has_the_bits_of_uniform_weighting(
    tmp_path: Path, method: str
) -> None:
    uniform, nothing = {"name": method, "weighting": "uniform"}, {"clip": math.inf, "noise": 0, "delta": 0.01}
    plain = private(tmp_path / "plain", uniform, None)
    same = private(tmp_path / "same", uniform, nothing)
    assert torch.equal(parameters(same), parameters(plain))
    assert [record["test"] for record in same.records] == [record["test"] for record in plain.records]
    # Nothing is guaranteed, so there is no epsilon.
    assert same.records[-1]["privacy"] == {"epsilon": None, "delta": 0.01, "merges": 4}
    assert not torch.equal(parameters(private(tmp_path / "noisy", uniform)), parameters(plain))


def test_engines_agree_and_a_resumed_run_repeats_its_noise(tmp_path: Path) -> None:
    whole = private(tmp_path / "whole")
    assert torch.equal(parameters(private(tmp_path / "process", engine="process")), parameters(whole))
    private(tmp_path / "parts", rounds=2)
    torch.manual_seed(0)
    rest = resume(tmp_path / "parts", rounds=4, federation=blobs(), model=Net(), progress=False)
    assert torch.equal(parameters(rest), parameters(whole))
    assert (tmp_path / "parts/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()


def test_the_record_has_epsilon_and_nothing_of_a_single_client(tmp_path: Path) -> None:
    done = private(tmp_path / "run")
    accountant = Accountant(make_config({"privacy": NOISY}).privacy, 4, 2)  # type: ignore[arg-type]
    spent = [record["privacy"]["epsilon"] for record in done.records]
    assert spent == [accountant.epsilon(merges) for merges in (1, 2, 3, 4)]
    assert done.status["privacy"] == {"epsilon": spent[-1], "delta": 0.01, "merges": 4}
    for record in done.records:
        for name in ("sizes", "steps", "loss_before", "loss_after", "update_norms", "dropped"):
            assert record[name] == []
        assert not {"forwards", "backwards", "means"} & set(record)
    assert not (tmp_path / "run/privacy.json").exists()


def test_the_run_ends_at_its_budget_and_stays_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    accountant = Accountant(make_config({"privacy": NOISY}).privacy, 4, 2)  # type: ignore[arg-type]
    budget = (accountant.epsilon(2) + accountant.epsilon(3)) / 2
    with caplog.at_level(logging.WARNING):
        done = private(tmp_path / "run", privacy={**NOISY, "epsilon": budget}, rounds=9)
    assert "ends the run after round 2 of 9" in caplog.text
    assert "validation parts have no noise" in caplog.text
    assert len(done.records) == 2
    assert done.finished
    assert done.status["reason"].startswith(f"the privacy budget of epsilon = {budget:g} allows no further")
    torch.manual_seed(0)
    again = resume(tmp_path / "run", rounds=20, federation=blobs(), model=Net(), progress=False)
    assert len(again.records) == 2
    with pytest.raises(InputError, match=r"privacy\.epsilon is .* cannot become 100"):
        resume(tmp_path / "run", privacy={"epsilon": 100.0}, federation=blobs(), model=Net())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "fedavg"}, "privacy requires method.weighting = 'uniform'"),
        ({"method": {"name": "flashback"}, "public": {"share": 0.1}}, "method='flashback': it needs"),
        ({"method": {"name": "fednova", "weighting": "uniform"}}, "needs the upload 'work' without clipping"),
        ({"method": "fedcurv"}, "method='fedcurv': it needs what clients send without"),
        ({"method": "central", "public": {"share": 0.1}}, "it trains no client"),
        ({"method": UNIFORM, "aggregation": "median"}, "requires aggregation='mean', not 'median'"),
        (
            {"method": UNIFORM, "server_optimizer": {"name": "sgd", "gma": 0.5}},
            "means without clipping",
        ),
        ({"method": UNIFORM, "probes": [{"metric": "drift", "every": 1}]}, "set probes = \\[\\]"),
        ({"method": UNIFORM, "privacy": {**NOISY, "delta": 0.25}}, "must be below 1 / clients, here 1 / 4"),
        ({"method": UNIFORM, "privacy": {**NOISY, "epsilon": 0.01}}, "one round spends epsilon = "),
        ({"method": UNIFORM, "privacy": {**NOISY, "clip": math.inf}}, "clip=inf needs noise=0"),
        (
            {"method": UNIFORM, "privacy": {**NOISY, "noise": 0, "epsilon": 1.0}},
            "noise=0 guarantees nothing",
        ),
    ],
)
def test_what_the_guarantee_would_not_hold_for_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_simulation(**{"privacy": NOISY, **values})


def test_batch_normalization_is_refused() -> None:
    net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.raises(InputError, match="make variances negative"):
        make_simulation(net=net, method=UNIFORM, privacy=NOISY)


def test_no_client_decides_whether_another_one_counts() -> None:
    simulation = make_simulation(method=UNIFORM, privacy={"clip": 1.0, "noise": 0, "delta": 0.01})
    start = simulation.model.weights.copy()
    aggregator = make_aggregator(simulation.method, start, simulation.in_round(1).context)
    far = replace(start, parameters=start.parameters + 1e20)
    for client, weights in enumerate((far, start, start, start)):
        (settled,) = aggregator.receive(Update(client, 10, weights, {}))
        assert settled.problem is None
    assert list(aggregator.settle()) == []
    assert aggregator.norm_stats() == {}
    assert float(torch.linalg.vector_norm(aggregator.aggregate.sum("change"))) == pytest.approx(1.0)


class Crash(Hook):
    """Ends the process, as it were, after the noise of a round was drawn and before it is recorded."""

    def after_round(self, done: Any) -> None:
        raise KeyboardInterrupt


def test_a_round_repeated_with_fresh_noise_counts_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "rounds": 2,
        "method": UNIFORM,
        "privacy": NOISY,
        "probes": [],
        "evaluation": {"every": 0, "last": 0},
    }
    simulation = make_simulation(**given)
    simulation = secretly(simulation)
    config, records = make_config(given), list[Any]()

    def go(*first: Hook) -> Weights:
        states, state = ClientStates(tmp_path / "states"), start_state(simulation)
        with RunFolder(tmp_path) as folder:
            folder.restore(state, states)
            engine = Serial(simulation, states)
            hooks = standard_hooks(simulation, config, engine, folder, state, records.append)
            run_rounds(simulation, engine, state, config.rounds, [*first, *hooks])
        return state.weights

    with pytest.raises(KeyboardInterrupt):
        go(Crash())
    assert json.loads((tmp_path / "privacy.json").read_text()) == {"merges": 1}
    with caplog.at_level(logging.WARNING):
        go()
    assert "1 noisy aggregations in 0 rounds" in caplog.text
    assert [record["privacy"]["merges"] for record in records] == [2, 3]
    accountant = Accountant(config.privacy, 4, 2)  # type: ignore[arg-type]
    assert records[-1]["privacy"]["epsilon"] == accountant.epsilon(3)
    # Who took part is as secret as the noise.
    assert [(record["clients"], record["participants"]) for record in records] == [([], 2), ([], 2)]


def test_a_ledger_that_is_lost_or_damaged_gives_no_budget_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    simulation = make_simulation(method=UNIFORM, privacy=NOISY)
    simulation = secretly(simulation)
    state, ledger = replace(start_state(simulation), round=50), tmp_path / "privacy.json"
    accountant = Accountant(make_config({"privacy": NOISY}).privacy, 4, 2)  # type: ignore[arg-type]
    with RunFolder(tmp_path) as folder:
        spending = PrivacyBudget(simulation, folder, state)
        spending.before_run()
        assert folder.facts["privacy"] == {"epsilon": accountant.epsilon(50), "delta": 0.01, "merges": 50}
        assert "has 0 of 50 aggregations" in caplog.text
        spending.before_aggregation(51)
        assert json.loads(ledger.read_text()) == {"merges": 51}
        for text, says in (
            ('{"mer', "is not JSON"),
            ("[3]", "is not a JSON object"),
            ("{}", "does not have"),
        ):
            ledger.write_text(text)
            with pytest.raises(Damaged, match=rf"privacy\.json {says}.*; restore it$"):
                PrivacyBudget(simulation, folder, state)


def test_a_federations_server_draws_clients_and_noise_from_the_system() -> None:
    simulation = make_simulation(
        federation=blobs(clients=40), method=UNIFORM, privacy={**NOISY, "delta": 1e-3}
    )
    secret = secretly(simulation)
    secret = replace(secret, context=replace(secret.context, participants=20))
    assert len({tuple(sorted(select(secret, 1))) for _ in range(5)}) > 1
    assert len(set(select(secret, 1))) == 20
    models = []
    for _ in range(2):
        state = start_state(secret)
        run_round(secret, Serial(secret, ClientStates(Path("unused"))), state)
        models.append(state.weights.parameters)
    assert not torch.equal(*models)


def test_an_unusable_round_fails_without_naming_a_client(caplog: pytest.LogCaptureFixture) -> None:
    attack = {"name": "nan", "share": 0.99}
    simulation = make_simulation(method=UNIFORM, privacy=NOISY, attack=attack)
    with pytest.raises(RunFailed, match=r"^no update of round 1 could be used; the log has the reasons$"):
        run_round(simulation, Serial(simulation, ClientStates(Path("unused"))), start_state(simulation))
    assert "its update is not finite" in caplog.text


def test_under_secure_aggregation_clients_clip_and_the_sum_gets_the_same_noise(tmp_path: Path) -> None:
    more = {"participation": 3, "rounds": 2}
    plain = private(tmp_path / "plain", **more)
    summed = private(tmp_path / "summed", secure_aggregation={}, **more)
    torch.testing.assert_close(parameters(summed), parameters(plain), rtol=0, atol=1e-6)
    assert summed.records[-1]["privacy"] == plain.records[-1]["privacy"]
    assert "means" not in summed.records[-1]
    bare = private(tmp_path / "bare", privacy=None, secure_aggregation={}, **more)
    assert not torch.allclose(parameters(bare), parameters(summed), atol=1e-2)

"""What bad clients do, by hand, on every engine, and that none of it owns a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.config.options import Attack
from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.engines.attacks import attack_update, bad_clients, flip_labels
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.methods.base import Finished, Method
from eunoe.server.updates import Broadcast, Update
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import run_round
from eunoe.store.checkpoints import RunState, start_state
from tests.helpers import Net, blobs, make_simulation

EMPTY = torch.empty(0)


def sent(name: str, **options: Any) -> tuple[Update, Update]:
    """What client 0 has trained, and what is sent: the weights go from (1, 1) to (2, 1)."""
    simulation = make_simulation(method="scaffold", attack={"name": name, "share": 0.9, **options})
    (client, *_) = bad_clients(Attack(name=name, share=0.9), 4, 0)  # type: ignore[arg-type]
    start = Weights(torch.ones(2), EMPTY, EMPTY.long())
    update = Update(
        client, 6, replace(start, parameters=torch.tensor([2.0, 1.0])), {"c": torch.tensor([3.0])}
    )
    return update, attack_update(simulation, update, Broadcast(1, start))


def test_attacks_by_hand() -> None:
    assert sent("sign_flip")[1].weights.parameters.tolist() == [-9.0, 1.0]
    assert sent("scaled", scale=3)[1].weights.parameters.tolist() == [4.0, 1.0]
    assert sent("size_lie", scale=1e9)[1].size == 6 * 10**9
    assert sent("upload_lie", scale=-100)[1].uploads["c"].tolist() == [-300.0]
    assert bool(sent("nan")[1].weights.parameters.isnan().all())
    noise = sent("noise", scale=2)[1].weights.parameters
    assert torch.equal(noise, sent("noise", scale=2)[1].weights.parameters)
    assert not torch.equal(noise, torch.ones(2))


def test_only_bad_clients_change_and_they_follow_from_the_seed() -> None:
    attack = Attack(name="nan", share=0.3)
    assert len(bad_clients(attack, 10, 0)) == 3
    assert bad_clients(attack, 10, 0) == bad_clients(attack, 10, 0)
    assert len({tuple(bad_clients(attack, 10, seed)) for seed in range(5)}) > 1
    simulation = make_simulation(attack={"name": "nan", "share": 0.3})
    honest = next(k for k in range(4) if k not in bad_clients(attack, 4, 0))
    update = Update(honest, 1, simulation.model.weights, {})
    assert attack_update(simulation, update, Broadcast(1, simulation.model.weights)) is update


def test_flipped_labels_are_those_of_bad_clients_training_parts() -> None:
    federation = blobs(validation=0.3)
    attack = Attack(name="label_flip", share=0.25)
    (bad,) = bad_clients(attack, 4, 0)
    flipped = flip_labels(federation, attack, 0)
    for client in range(4):
        before, after = federation.counts(client), flipped.counts(client)
        assert torch.equal(after, before.flip(0) if client == bad else before)
        assert torch.equal(flipped.counts(client, "validation"), federation.counts(client, "validation"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"attack": {"name": "nan", "share": 0.1}}, "of 4 clients is none: set it to 0.25 or more"),
        ({"attack": {"name": "upload_lie", "share": 0.5}}, "send nothing but weights"),
        ({"attack": {"name": "nan", "scale": 3}}, "nan has no option scale"),
        ({"attack": {"name": "size_lie", "scale": 0.5}}, "scale of size_lie must be at least 1"),
    ],
)
def test_attacks_that_do_nothing_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_simulation(**values)


def run_of(
    simulation: Simulation, folder: Path, rounds: int = 3, engine: Any = Serial
) -> tuple[RunState, Any]:
    state, records = start_state(simulation), []
    with engine(simulation, ClientStates(folder)) as made:
        for _ in range(rounds):
            records.append(run_round(simulation, made, state).record)
    return state, records


def ten(**values: Any) -> Simulation:
    return make_simulation(blobs(clients=10, alpha=10.0), participation=10, **values)


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ({"name": "scaled", "scale": 1e30}, "its change has a norm of"),
        ({"name": "sign_flip", "scale": 1e6}, "its change has a norm of"),
        ({"name": "size_lie", "scale": 1e9}, "samples, not on its"),
        ({"name": "nan"}, "not finite"),
    ],
)
def test_what_is_absurd_is_dropped_and_the_honest_train_as_if_alone(
    tmp_path: Path, attack: dict[str, Any], reason: str
) -> None:
    simulation = ten(attack={**attack, "share": 0.1})
    (bad,) = bad_clients(simulation.attack, 10, 0)  # type: ignore[arg-type]
    state, records = run_of(simulation, tmp_path)
    for record in records:
        (one,) = record["dropped"]
        assert one["client"] == bad
        assert reason in one["reason"]
        assert len(record["clients"]) == 9
    # NaN is dropped by another check, and the honest clients end where they end under any attack.
    other, _ = run_of(ten(attack={"name": "nan", "share": 0.1}), tmp_path / "other")
    assert torch.equal(state.weights.parameters, other.weights.parameters)


class Once(Method):
    """Client 3 sends parameters of 1e30 in round 2."""

    def finish(self, client: Any) -> Finished:
        if client.id == 3 and client.context.round == 2:
            client.weights.fill_(1e30)
        return Finished()


@pytest.mark.parametrize("participation", [10, 4, 2])
def test_parameters_of_1e30_cost_one_update(tmp_path: Path, participation: int) -> None:
    values = {"data": "given", "partition": "given", "model": "given", "participation": participation}
    given = UserObjects(federation=blobs(clients=10), model=Net(), method=Once())
    _, records = run_of(assemble(make_config({**values, "method": "given"}), given)[0], tmp_path, 4)
    dropped = [(record["round"], one["client"]) for record in records for one in record["dropped"]]
    took_part = 3 in records[1]["clients"] or (2, 3) in dropped
    assert dropped == ([(2, 3)] if took_part else [])


@pytest.mark.parametrize(
    ("method", "scale", "reason"),
    [
        ({"name": "scaffold"}, -1e4, "its upload 'control_change' has a norm of"),
        ({"name": "fednova"}, 1e12, "its upload 'work' has a value of"),
        ({"name": "fedcm"}, -1.0, "its upload 'work' has a value of"),
        ({"name": "labelwise"}, 7.0, "its upload 'owned' has a value of 7, above 1"),
        ({"name": "fedcurv"}, 1e12, "its upload 'fisher' has a norm of"),
        ({"name": "flashback", "server_epochs": 0}, 1e12, "its upload 'counts' has a sum of"),
    ],
)
def test_lies_in_uploads_are_dropped(
    tmp_path: Path, method: dict[str, Any], scale: float, reason: str
) -> None:
    simulation = ten(method=method, attack={"name": "upload_lie", "share": 0.1, "scale": scale})
    (bad,) = bad_clients(simulation.attack, 10, 0)  # type: ignore[arg-type]
    _, records = run_of(simulation, tmp_path, 2)
    for record in records:
        assert [one["client"] for one in record["dropped"]] == [bad]
        assert reason in record["dropped"][0]["reason"]


@pytest.mark.parametrize("name", ["label_flip", "sign_flip", "noise", "upload_lie"])
def test_engines_agree_under_attack_and_a_robust_merge(tmp_path: Path, name: str) -> None:
    values = {"method": "scaffold", "aggregation": "median", "attack": {"name": name, "share": 0.2}}
    (one, first), (two, second) = (
        run_of(ten(**values), tmp_path / kind.__name__, 2, kind) for kind in (Serial, Process)
    )
    assert torch.equal(one.weights.parameters, two.weights.parameters)
    assert torch.equal(one.server["control"], two.server["control"])
    assert first == second
    assert one.norms == two.norms

"""Clients in several settings: numbers by hand, who gains, who loses, who is named."""

from typing import Any

import numpy as np
import pytest

from eunoe.analysis.by_client import ByClient
from eunoe.errors import InputError
from eunoe.store.run_records import RunRecords

NATURAL = {"partition": {"name": "natural"}}


def made_up(
    accuracies: list[list[float]], seed: int = 0, method: str = "fedavg", **options: Any
) -> RunRecords:
    """A run with these accuracies of clients 0, 1, ... in each round; client 3 has no test part."""
    place, values = options.pop("place", "client_test"), options.pop("config", NATURAL)
    metrics = [
        {
            "round": number,
            "clients": options.get("took_part", [0, 1, 2, 3]),
            place: {
                "by_client": {"clients": [0, 1, 2], "samples": [10, 20, 30], "accuracy": found, "loss": found}
            },
        }
        for number, found in enumerate(accuracies, 1)
    ]
    options.pop("took_part", None)
    config = {"seed": seed, "method": {"name": method}, "evaluation": {"last": 2}, **values}
    return RunRecords(method, metrics, config=config, **{"label_counts": np.ones((4, 2)), **options})


def test_means_of_the_last_rounds_and_who_gains_by_hand() -> None:
    federated = made_up([[0.0, 0.0, 0.0], [0.8, 0.6, 0.5], [0.6, 0.6, 0.5]])
    alone = made_up([[0.5, 0.7, 0.5], [0.5, 0.7, 0.5]], method="local")
    found = ByClient({"fed": [federated], "alone": [alone]})
    table = found.table()
    assert table.headings == ["client", "samples", "fed", "alone", "fed against alone"]
    assert table.rows == [
        ["client 0", "10", "0.700", "0.500", "+0.200"],
        ["client 1", "20", "0.600", "0.700", "-0.100"],
        ["client 2", "30", "0.500", "0.500", "+0.000"],
        ["mean of clients", "", "0.600", "0.567", "+0.033"],
        ["worst tenth", "", "0.500", "0.500", "+0.000"],
    ]
    assert found.sentences() == [
        "fed against alone, in points: 1 of 3 gain: client 0 (+20.0); 1 of 3 lose: client 1 (-10.0); 1 of 3 "
        "are the same: client 2 (+0.0); mean 60.0 against 56.7, worst tenth 50.0 against 50.0."
    ]
    assert "on its own test part" in table.note
    assert "without a test part: client 3" in table.note
    assert "one seed" in table.note


def test_the_clients_own_models_are_the_reference_wherever_they_stand() -> None:
    alone, central = made_up([[0.5] * 3], method="local"), made_up([[0.6] * 3], method="central")
    for groups in ({"a": [alone], "c": [central]}, {"c": [central], "a": [alone]}):
        assert ByClient(groups).reference == "a"
    assert ByClient({"c": [central], "f": [made_up([[0.7] * 3])]}).reference == "c"


def test_private_parameters_are_compared_with_the_global_model_local_and_fine_tuning() -> None:
    tuned = {**NATURAL, "model": {"name": "mlp", "start_from": "/global.safetensors"}}
    found = ByClient(
        {
            "global": [made_up([[0.5] * 3])],
            "alone": [made_up([[0.6] * 3], method="local")],
            "fine-tuned": [made_up([[0.7, 0.9, 0.7]], method="local", config=tuned)],
            "own": [made_up([[0.8] * 3], config={**NATURAL, "private": "classifier"})],
        }
    )
    assert found.reference == "alone"
    own = [sentence for sentence in found.sentences() if sentence.startswith("own against")]
    assert [sentence.split(",")[0] for sentence in own] == [
        "own against alone",
        "own against global",
        "own against fine-tuned",
    ]
    assert "3 of 3 gain: client 2 (+30.0)" in own[1]
    assert "2 of 3 gain: client 2 (+10.0), client 0 (+10.0); 1 of 3 lose: client 1 (-10.0)" in own[2]


def test_seeds_are_paired_and_chance_is_said() -> None:
    """Client 0 gains .1 in every seed; client 1 gains .3 and loses .1, which proves nothing."""
    fed = [made_up([[0.6, 0.8, 0.5]], 0), made_up([[0.7, 0.4, 0.5]], 1)]
    alone = [made_up([[0.5, 0.5, 0.5]], 0, "local"), made_up([[0.6, 0.5, 0.5]], 1, "local")]
    found = ByClient({"fed": fed, "alone": alone})
    assert found.table().rows[0][2:] == ["0.650 ± 0.071", "0.550 ± 0.071", "+0.100 [+0.100, +0.100]"]
    assert "1 of 3 gain: client 0 (+10.0); 2 of 3 have no significant difference" in found.sentences()[0]


def test_clients_of_a_random_partition_differ_by_seed() -> None:
    config = {"partition": {"name": "iid", "clients": 4}}
    fed = [made_up([[0.6] * 3], seed, "local", config=config, took_part=[0, 2, 3 * seed]) for seed in (0, 1)]
    table = ByClient({"fed": fed}).table()
    assert "every seed has other clients" in table.note
    assert "without a test part: client 3, seed 0, client 3, seed 1" in table.note
    assert "never took part: client 1, seed 0, client 3, seed 0, client 1, seed 1" in table.note
    assert [row[0] for row in table.rows][2:4] == ["client 2, seed 0", "client 0, seed 1"]
    assert table.rows[-2][2] == "0.600 ± 0.000"


def test_names_and_clients_that_never_took_part() -> None:
    names = ["bern", "oslo", "lima", "rome"]
    alone = made_up([[0.5] * 3], method="local", took_part=[0, 2], client_names=names, place="test")
    table = ByClient({"alone": [alone]}).table()
    assert [row[0] for row in table.rows[:3]] == names[:3]
    assert "its samples of the test set" in table.note
    assert "never took part: oslo, rome" in table.note


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ([RunRecords("x", [{"round": 1, "test": {"accuracy": 0.5}}], config=NATURAL)], "set split.test"),
        ([made_up([[0.5] * 3], label_counts=np.zeros((4, 2)))], "a and b have different clients"),
        ([made_up([[0.5] * 3]), made_up([[0.5] * 3], seed=7)], "a has no run with seed 7"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(others: list[RunRecords], says: str) -> None:
    with pytest.raises(InputError, match=says):
        ByClient({"a": [made_up([[0.5] * 3])], "b": others})


def test_less_loss_is_a_gain() -> None:
    fed, alone = made_up([[0.3, 0.7, 0.5]]), made_up([[0.5, 0.5, 0.5]], method="local")
    found = ByClient({"fed": [fed], "alone": [alone]}, "loss")
    assert found.table().rows[0] == ["client 0", "10", "0.300", "0.500", "-0.200"]
    # The worst tenth are those of the highest loss.
    assert found.table().rows[-1][:4] == ["worst tenth", "", "0.700", "0.500"]
    assert found.table().note.startswith("loss of a client on its own test part")
    assert found.sentences() == [
        "fed against alone, by loss: 1 of 3 gain: client 0 (-0.200); 1 of 3 lose: client 1 (+0.200); 1 of 3 "
        "are the same: client 2 (+0.000); mean 0.500 against 0.500, worst tenth 0.700 against 0.500."
    ]


def test_numbers_have_a_loss_alone() -> None:
    run = made_up([[0.3, 0.7, 0.5]])
    for record in run.metrics:
        del record["client_test"]["by_client"]["accuracy"]
    assert ByClient({"a": [run]}).metric == "loss"
    with pytest.raises(InputError, match="not all runs recorded accuracy by client; compare"):
        ByClient({"a": [run]}, "accuracy")

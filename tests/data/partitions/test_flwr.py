"""The partitioners of flwr-datasets: the same clients as theirs, in runs that repeat; what is refused."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eunoe
from eunoe.config import registry
from eunoe.errors import InputError

LABELS = np.random.default_rng(0).integers(0, 10, 600)


def divided(name: str, generator: int = 0, groups: Any = None, **options: Any) -> list[list[int]]:
    """The rows of each client."""
    made = registry.build("partition", f"flwr:{name}", options)
    order, offsets = made(LABELS, np.random.default_rng(generator), groups)
    return [part.tolist() for part in np.split(order, offsets[1:-1])]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(InputError, match="pip install flwr-datasets"):
        divided("IidPartitioner", num_partitions=3)


# The package is in the environment of the slow tests only.
@pytest.mark.slow
class TestThePackage:
    def test_clients_are_those_of_the_partitioner(self) -> None:
        from datasets import Dataset
        from flwr_datasets.partitioner import DirichletPartitioner

        assert version("flwr-datasets")
        theirs = DirichletPartitioner(num_partitions=5, partition_by="label", alpha=0.5, seed=3)
        theirs.dataset = Dataset.from_dict({"label": LABELS, "at": np.arange(len(LABELS))})
        expected = [list(theirs.load_partition(client)["at"]) for client in range(5)]
        assert divided("DirichletPartitioner", num_partitions=5, alpha=0.5, seed=3) == expected

    def test_the_seed_of_a_run_is_that_of_the_partitioner(self) -> None:
        options = {"num_partitions": 5, "alpha": 0.5}
        first = divided("DirichletPartitioner", 0, **options)
        assert divided("DirichletPartitioner", 0, **options) == first
        assert divided("DirichletPartitioner", 1, **options) != first
        assert sorted(row for part in first for row in part) == list(range(600))

    def test_clients_that_the_data_have(self) -> None:
        groups = np.repeat([7, 3, 5], 200)
        found = divided("NaturalIdPartitioner", groups=groups, partition_by="client")
        assert sorted(map(sorted, found)) == [list(range(k, k + 200)) for k in (0, 200, 400)]

    @pytest.mark.parametrize(
        ("name", "options", "words"),
        [
            ("DirichletPartitoner", {}, "did you mean 'DirichletPartitioner'"),
            ("DirichletPartitioner", {"clients": 5}, "has no option 'clients'; there are alpha"),
            ("DirichletPartitioner", {"alpha": 0.5}, "num_partitions"),
            ("IidPartitioner", {"num_partitions": 0}, "greater than zero"),
            ("IidPartitioner", {"num_partitions": 601}, "601 clients cannot share 600 samples"),
            ("NaturalIdPartitioner", {"partition_by": "client"}, "client"),
            ("VerticalEvenPartitioner", {"num_partitions": 2}, "divides columns"),
        ],
    )
    def test_what_cannot_be_divided_is_one_line(self, name: str, options: Any, words: str) -> None:
        with pytest.raises(InputError, match=words) as error:
            divided(name, **options)
        assert "\n" not in str(error.value)

    def test_a_run_repeats_and_resumes(self, tmp_path: Path) -> None:
        options: dict[str, Any] = {
            "data": "digits",
            "model": "logistic",
            "partition": {"name": "flwr:DirichletPartitioner", "num_partitions": 4, "alpha": 0.5},
            "participation": 2,
            "engine": "serial",
            "probes": [],
            "progress": False,
        }
        whole = eunoe.run(**options, rounds=4, out=tmp_path / "whole")
        eunoe.run(**options, rounds=2, out=tmp_path / "half")
        resumed = eunoe.resume(tmp_path / "half", rounds=4, progress=False)
        assert len(whole.simulation.federation) == 4
        assert resumed.records[-1]["test"] == whole.records[-1]["test"]

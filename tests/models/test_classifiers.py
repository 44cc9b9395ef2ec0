"""Classifiers that do not train: their geometry, and that they are neither trained nor sent."""

from pathlib import Path

import pytest
import torch
from torch import nn

from eunoe.errors import InputError
from eunoe.models.classifiers import SCALE, SimplexETF, fix_classifier
from eunoe.models.mlp import MLP, Logistic
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import blobs, make_simulation


@pytest.mark.parametrize(("size", "classes"), [(2, 2), (5, 3), (40, 40)])
def test_directions_are_of_length_one_and_equally_far_apart(size: int, classes: int) -> None:
    directions = SimplexETF(size, classes).directions.double()
    gram = directions @ directions.T
    expected = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64).fill_diagonal_(1.0)
    torch.testing.assert_close(gram, expected, rtol=0, atol=1e-6)


def test_logits_by_hand() -> None:
    classifier = SimplexETF(3, 2)
    with torch.no_grad():
        classifier.directions.copy_(torch.tensor([[0.6, 0.8, 0.0], [-0.6, -0.8, 0.0]]))
    # (3, 0, 4) is (0.6, 0, 0.8) at length 1; its length does not matter.
    logits = classifier(torch.tensor([[3.0, 0.0, 4.0], [30.0, 0.0, 40.0]]))
    torch.testing.assert_close(logits, SCALE * torch.tensor([[0.36, -0.36]] * 2))


@pytest.mark.parametrize("kind", ["frozen", "etf"])
def test_it_is_neither_trained_nor_sent(kind: str, tmp_path: Path) -> None:
    def trained(name: str, rounds: int = 2, engine: str = "serial") -> Run:
        model = {"name": "mlp", "hidden": [8], "classifier": kind}
        return run(
            federation=blobs(),
            model=model,
            participation=2,
            rounds=rounds,
            out=tmp_path / name,
            engine=engine,
        )

    serial = trained("serial")
    # The body of 8 x 5 weights and 8 biases, of 4 bytes each, from two clients.
    assert serial.records[0]["bytes_up"] == 2 * 48 * 4
    trained("parts", rounds=1)
    others = [trained("process", engine="process"), trained("vectorized", engine="vectorized")]
    for other in (*others, resume(tmp_path / "parts", {"rounds": 2}, federation=blobs())):
        torch.testing.assert_close(other.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-5)
        fixed, same = (model.model().get_submodule("classifier").state_dict() for model in (serial, other))
        assert fixed.keys() == same.keys()
        assert all(torch.equal(fixed[name], same[name]) for name in fixed)


def test_the_frozen_one_is_that_of_a_run_that_trains_it() -> None:
    begins = [
        make_simulation(model={"name": "given", "classifier": kind}).model.module.get_parameter(
            "classifier.weight"
        )
        for kind in ("trained", "frozen")
    ]
    assert torch.equal(*begins)


def test_what_cannot_be_fixed() -> None:
    with pytest.raises(InputError, match=r"features\(x\) and a classifier, not"):
        fix_classifier(nn.Linear(3, 2), "frozen", 2)
    with pytest.raises(InputError, match="needs at least 4 features, not 3"):
        fix_classifier(MLP((6,), 4, hidden=[3]), "etf", 4)
    deep = MLP((6,), 4, hidden=[5])
    deep.classifier = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 4))
    with pytest.raises(InputError, match="linear"):
        fix_classifier(deep, "etf", 4)
    with pytest.raises(InputError, match="no trainable parameter"):
        make_simulation(net=Logistic((5,), 3), model={"name": "given", "classifier": "frozen"})

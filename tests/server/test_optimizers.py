"""The server optimizers: their formulas by hand, their identities, and Flower's arithmetic."""

from pathlib import Path

import pytest
import torch

from eunoe.config.options import Training
from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.methods.context import DataInfo, ModelInfo, RoundContext
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fednova import FedNova
from eunoe.methods.scaffold import Scaffold
from eunoe.server.optimizers import SGD, Adagrad, Adam, FedExP, Momentum, ServerOptimizer, Yogi
from eunoe.server.updates import Update
from tests.helpers import make_aggregator
from tests.methods.helpers import Trial, random_parts

D = torch.tensor([0.5, -2.0], dtype=torch.float64)


def moves(step: ServerOptimizer, directions: list[torch.Tensor]) -> list[torch.Tensor]:
    """The moves of a step over rounds, its rate left out."""
    server = step.start(torch.zeros(len(directions[0])))
    return [step.move(pseudo_gradient, server) for pseudo_gradient in directions]


def merged(step: ServerOptimizer, changes: list[list[float]], sizes: list[int]) -> torch.Tensor:
    """New parameters from clients that changed zeros so."""
    empty = torch.empty(0, dtype=torch.float64)
    counters = torch.empty(0, dtype=torch.int64)
    start = Weights(torch.zeros(len(changes[0]), dtype=torch.float64), empty, counters)
    context = RoundContext(
        data=DataInfo(clients=9, classes=2, mean_size=1.0),
        model=ModelInfo(parameters=2),
        training=Training(),
        server_optimizer=step,
        seed=0,
        participants=3,
    )
    aggregator = make_aggregator(FedAvg(), start, context)
    for client, (change, size) in enumerate(zip(changes, sizes, strict=True)):
        weights = Weights(torch.tensor(change, dtype=torch.float64), empty, counters)
        aggregator.add(Update(client, size, weights, {}))
    server = step.start(start.parameters)
    return FedAvg().aggregate(server, aggregator.aggregate, context).weights.parameters


def test_average_and_its_rate() -> None:
    assert merged(SGD(), [[1.0], [4.0]], [1, 2]).tolist() == [3.0]
    assert merged(SGD(lr=0.5), [[1.0], [4.0]], [1, 2]).tolist() == [1.5]


def test_momentum_by_hand() -> None:
    first, second = moves(Momentum(beta=0.5), [D, D])
    assert first.tolist() == [0.5, -2.0]
    assert second.tolist() == [0.75, -3.0]
    assert torch.equal(torch.stack(moves(Momentum(beta=0), [D, 2 * D])), torch.stack([D, 2 * D]))


def test_adam_by_hand() -> None:
    # v0 = 0.01; v1 = 0.5 * 0.01 + 0.5 * 4 = 2.005; m1 = 0.1 * 2.
    [move] = moves(Adam(b1=0.9, b2=0.5, tau=0.1), [torch.tensor([2.0], dtype=torch.float64)])
    assert move.item() == pytest.approx(0.2 / (2.005**0.5 + 0.1), rel=1e-12)


def test_yogi_by_hand() -> None:
    # v1 = 9 - 0.5 * 4 * sign(9 - 4) = 7.
    [move] = moves(Yogi(b1=0.5, b2=0.5, tau=0.0, v0=9.0), [torch.tensor([2.0], dtype=torch.float64)])
    assert move.item() == pytest.approx(1 / 7**0.5, rel=1e-12)


def test_adagrad_by_hand() -> None:
    two = torch.tensor([2.0], dtype=torch.float64)
    first, second = moves(Adagrad(tau=0.0, v0=5.0), [two, 2 * two])
    assert first.item() == pytest.approx(2 / 3)
    assert second.item() == pytest.approx(4 / 5)


@pytest.mark.parametrize("step", [Adagrad(tau=0), Adam(tau=0)])
def test_first_step_from_nothing_is_the_sign(step: ServerOptimizer) -> None:
    torch.testing.assert_close(moves(step, [D])[0], torch.sign(D), rtol=1e-12, atol=0)


def test_yogi_and_adam_agree_in_the_first_round() -> None:
    assert torch.equal(moves(Adam(v0=0), [D])[0], moves(Yogi(v0=0), [D])[0])


def test_gma_by_hand() -> None:
    # Weights 1/2, 1/4, 1/4. Agreement of the coordinates: 1, 0.5, 0; means 1, 0.5, 0.25.
    changes = [[1.0, 1.0, 1.5], [1.0, 1.0, -1.0], [1.0, -1.0, -1.0]]
    sizes = [2, 1, 1]
    assert merged(SGD(gma=0.4), changes, sizes).tolist() == [1.0, 0.5, 0.0]
    assert merged(SGD(gma=0.5), changes, sizes).tolist() == [1.0, 0.5, 0.0]
    assert merged(SGD(gma=0.6), changes, sizes).tolist() == [1.0, 0.25, 0.0]
    assert merged(SGD(gma=1.0), changes, sizes).tolist() == [1.0, 0.25, 0.0]


def test_gma_of_zero_or_of_one_client_masks_nothing() -> None:
    changes, sizes = [[1.0, 2.0], [-3.0, 5.0]], [3, 1]
    assert torch.equal(merged(SGD(gma=0), changes, sizes), merged(SGD(), changes, sizes))
    assert merged(SGD(gma=1), [[1.0, -3.0]], [7]).tolist() == [1.0, -3.0]


def test_gma_masks_what_adam_sees() -> None:
    # Opposite changes of equal weight: no agreement, so the coordinate stays.
    result = merged(Adam(gma=0.5), [[1.0, 1.0], [-3.0, 1.0]], [1, 1])
    assert result[0] == 0
    assert result[1] > 0


def test_papers_names_are_fedavg_with_a_step() -> None:
    config = make_config({"method": {"name": "fedadam", "tau": 0.01, "weighting": "uniform"}})
    assert (config.method.name, config.method.options) == ("fedavg", {"weighting": "uniform"})
    assert (config.server_optimizer.name, config.server_optimizer.options) == ("adam", {"tau": 0.01})
    assert make_config({"method": "gma"}).server_optimizer.options == {"gma": 0.4}
    with pytest.raises(InputError, match="leave server_optimizer out"):
        make_config({"method": "fedyogi", "server_optimizer": "adam"})


def test_tiny_tau_is_warned_of() -> None:
    assert Adam(tau=1e-8).check()
    assert not Adam().check()
    with pytest.raises(InputError, match="may divide by 0"):
        Adam(tau=0).check()


@pytest.mark.parametrize("name", ["adam", "yogi", "adagrad", "momentum"])
def test_flowers_arithmetic(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four rounds of the same updates through Flower's strategy and ours."""
    import numpy as np

    pytest.importorskip("flwr")
    from flwr.common import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.serverapp import strategy
    from flwr.supercore.task_identity import TaskIdentity

    for part in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{part}", 1)
    options = {"eta": 0.3, "beta_1": 0.8, "beta_2": 0.9, "tau": 0.02}
    mine = {"lr": 0.3, "b1": 0.8, "b2": 0.9, "tau": 0.02, "v0": 0}
    theirs, ours = {
        "adam": (
            strategy.FedAdam(**options),
            Adam(**mine, bias_correction=True),
        ),
        "yogi": (strategy.FedYogi(**options), Yogi(**mine)),
        "adagrad": (strategy.FedAdagrad(eta=0.3, tau=0.02), Adagrad(lr=0.3, tau=0.02, v0=0)),
        "momentum": (
            strategy.FedAvgM(server_learning_rate=0.3, server_momentum=0.7),
            Momentum(lr=0.3, beta=0.7),
        ),
    }[name]
    rng = np.random.default_rng(5)
    weights = rng.normal(size=6)
    server, moved = ours.start(torch.zeros(6)), torch.tensor(weights)
    for round in range(1, 5):
        models, sizes = weights + rng.normal(size=(3, 6)), [5, 1, 2]
        theirs.current_arrays = ArrayRecord({"w": Array(weights)}) if name == "momentum" else {"w": weights}
        replies = []
        for model, size in zip(models, sizes, strict=True):
            content = RecordDict(
                {
                    "arrays": ArrayRecord({"w": Array(model)}),
                    "metrics": MetricRecord({"num-examples": size}),
                }
            )
            replies.append(Message(content, dst_node_id=1, message_type="train"))
        # Flower's bias correction takes the round plus one as its power.
        arrays, _ = theirs.aggregate_train(round - 1, replies)
        pseudo_gradient = torch.tensor(np.average(models - weights, 0, sizes))
        moved = moved + ours.lr * ours.move(pseudo_gradient, server)
        np.testing.assert_allclose(moved.numpy(), arrays["w"].numpy(), rtol=1e-9)
        weights = moved.numpy().copy()


def test_steps_follow_what_a_method_makes_of_the_updates(tmp_path: Path) -> None:
    """FedNova's direction, SCAFFOLD's mean: momentum's first round is the plain one, a mask only damps."""
    parts = random_parts([4, 8, 12], 3, 4)
    training = {"epochs": 1, "batch_size": 4, "lr": 0.1}
    for method in (FedNova(), Scaffold()):
        ends = []
        for number, step in enumerate((SGD(), Momentum(), SGD(gma=1.0))):
            folder = tmp_path / type(method).__name__ / str(number)
            trial = Trial(folder, parts, method, classes=4, step=step, training=training).rounds()
            ends.append(trial.parameters)
        assert torch.equal(ends[0], ends[1])
        assert bool((ends[2].abs() <= ends[0].abs()).all())
        assert float(ends[2].abs().sum()) < float(ends[0].abs().sum())


def test_right_angles_by_hand() -> None:
    # Four changes of squared norm 4 at right angles: their mean has 4 / 4, so eta = 4 / (2 * 1) = 2.
    changes = (2 * torch.eye(4, dtype=torch.float64)).tolist()
    assert merged(FedExP(epsilon=0), changes, [1] * 4).tolist() == [1.0] * 4
    assert merged(FedExP(epsilon=0, lr=0.5), changes, [1] * 4).tolist() == [0.5] * 4
    # With epsilon = 1/4: eta = 4 / (2 * 5/4) = 8/5.
    assert merged(FedExP(epsilon=0.25), changes, [1] * 4).tolist() == pytest.approx([0.8] * 4, rel=1e-15)


def test_norms_are_weighted_as_the_mean_is() -> None:
    # Weights 3/4 and 1/4: mean (3, -1) of squared norm 10; squared norms 16 and 16; eta is 1, by max(1, 0.8).
    assert merged(FedExP(epsilon=0), [[4.0, 0.0], [0.0, -4.0]], [3, 1]).tolist() == [3.0, -1.0]
    # Mean 4 * 3/4 - 8 * 1/4 = 1; squared norms 16 * 3/4 + 64 * 1/4 = 28; eta = 14.
    assert merged(FedExP(epsilon=0), [[4.0], [-8.0]], [3, 1]).tolist() == [14.0]


def test_it_never_goes_less_far_than_the_average() -> None:
    alike = [[1.0, 2.0], [1.0, 2.0]]
    assert merged(FedExP(), alike, [1, 1]).tolist() == merged(SGD(), alike, [1, 1]).tolist()


def test_no_change_is_no_division_by_zero() -> None:
    assert merged(FedExP(epsilon=0), [[0.0], [0.0]], [1, 1]).tolist() == [0.0]
    assert merged(FedExP(epsilon=0), [[1.0], [-1.0]], [1, 1]).tolist() == [0.0]


def test_it_goes_with_the_mask_of_signs() -> None:
    # Means (3, 1) with agreement 1 and 0.5; squared norms 13 and 9; eta is 1. The second is halved.
    assert merged(FedExP(gma=0.9), [[3.0, 2.0], [3.0, 0.0]], [1, 1]).tolist() == [3.0, 0.5]


def test_it_goes_with_other_methods(tmp_path: Path) -> None:
    parts = random_parts([7, 12, 5, 9], 3, 4)
    trial = Trial(tmp_path, parts, FedNova(), step=FedExP(), classes=4, training={"batch_size": 4, "lr": 0.2})
    assert bool(torch.isfinite(trial.rounds(3).parameters).all())

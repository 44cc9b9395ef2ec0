"""FedCurv: the sums u and v against the pairwise penalty, and who counts in them."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eunoe.methods.context import ClientContext
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedcurv import FedCurv
from tests.methods.helpers import Trial, random_parts

PARTS = random_parts([7, 12, 5, 9], 3, 4)
TRAINING: dict[str, Any] = {"epochs": 2, "lr": 0.1, "batch_size": 4}


def curved(
    folder: Path, rounds: int = 0, parts: Any = PARTS, participation: Any = 1.0, **options: Any
) -> Trial:
    trial = Trial(
        folder, parts, FedCurv(**options), classes=4, training=TRAINING, participation=participation
    )
    return trial.rounds(rounds)


def penalty_gradient(trial: Trial, client: int, at: Tensor) -> Tensor:
    """What the method adds to a gradient of zero at these parameters."""
    seen = []

    class Asked(FedCurv):
        def finish(self, client: ClientContext) -> Any:
            client.weights.copy_(at)
            seen.append(self.correct(client, torch.zeros_like(at)).clone())
            return super().finish(client)

    method = Asked(**dict(trial.simulation.method))
    object.__setattr__(trial.simulation, "method", method)
    trial.client(client)
    return seen[0]


def test_one_parameter_per_class_by_hand(tmp_path: Path) -> None:
    # One step of rate 1/2 from (0, 0) with label 0 at x = 1 leads to (1/4, -1/4), where the gradient is
    # (p - 1, 1 - p) with p = 1 / (1 + e^(-1/2)): both entries of I are (1 - p)^2.
    part = ([[1.0]], [0])
    trial = Trial(
        tmp_path, [part, part], FedCurv(), training={"steps": 1, "lr": 0.5, "batch_size": 0}
    ).rounds()
    fisher = (1 - 1 / (1 + torch.tensor(-0.5, dtype=torch.float64).exp())) ** 2
    torch.testing.assert_close(trial.server["u"], torch.stack([fisher, fisher]) * 2)
    torch.testing.assert_close(trial.server["v"], torch.stack([fisher, -fisher]) * 2 / 4)


def test_sums_give_the_pairwise_penalty(tmp_path: Path) -> None:
    weight = 0.7
    trial = curved(tmp_path, 2, weight=weight)
    states = [trial.states.load(client) for client in range(4)]
    at = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    penalty = sum(
        weight * (states[j]["fisher"] * (at - states[j]["weighted"] / states[j]["fisher"]) ** 2).sum()
        for j in range(4)
        if j != 1
    )
    expected = torch.autograd.grad(penalty, at)[0]
    torch.testing.assert_close(penalty_gradient(trial, 1, at.detach()), expected, rtol=1e-10, atol=1e-13)


def test_fisher_is_taken_at_the_final_local_model(tmp_path: Path) -> None:
    trial = curved(tmp_path, 1, weight=0.2)
    update, state = trial.client(2)
    x, y = PARTS[2]
    p = torch.softmax(x @ update.weights.parameters.view(4, 3).T, 1)
    p[torch.arange(len(y)), y] -= 1
    expected = (p[:, :, None] * x[:, None, :]).square().mean(0).flatten()
    torch.testing.assert_close(state["fisher"], expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(state["weighted"], expected * update.weights.parameters, rtol=1e-11, atol=0)


def test_constant_information_pulls_like_fedprox(tmp_path: Path) -> None:
    """With all I = c, the penalty is N - 1 terms of FedProx around each model, of strength 2 lambda c."""

    class Constant(FedCurv):
        def _fisher(self, client: ClientContext) -> Tensor:
            return torch.full_like(client.weights, 0.3)

    trial = Trial(tmp_path, PARTS, Constant(weight=0.5), classes=4, training=TRAINING).rounds()
    models = [trial.states.load(client)["weighted"] / 0.3 for client in range(4)]
    at = torch.linspace(-1, 1, 12, dtype=torch.float64)
    expected = sum(2 * 0.5 * 0.3 * (at - models[j]) for j in (0, 1, 2))
    torch.testing.assert_close(penalty_gradient(trial, 3, at), expected, rtol=1e-10, atol=1e-13)


def test_a_single_client_has_no_penalty(tmp_path: Path) -> None:
    trial = curved(tmp_path / "a", 3, parts=PARTS[:1], weight=5.0)
    plain = Trial(tmp_path / "b", PARTS[:1], FedAvg(), classes=4, training=TRAINING).rounds(3)
    torch.testing.assert_close(trial.parameters, plain.parameters, rtol=0, atol=1e-12)


def test_what_rounding_leaves_of_a_clients_own_term_pulls_nowhere(tmp_path: Path) -> None:
    trial = curved(tmp_path, 1, parts=PARTS[:1])
    trial.server["u"].sub_(1e-9)
    pull = penalty_gradient(trial, 0, torch.ones(12, dtype=torch.float64))
    assert torch.equal(pull, torch.zeros_like(pull))


def test_sums_hold_all_clients_seen(tmp_path: Path) -> None:
    trial = curved(tmp_path, participation=2, weight=0.1)
    for _ in range(5):
        trial.rounds()
        for name, term in (("u", "fisher"), ("v", "weighted")):
            seen = [trial.states.load(client)[term] for client in trial.states.accepted]
            torch.testing.assert_close(trial.server[name], torch.stack(seen).sum(0), rtol=0, atol=1e-13)


def test_sums_of_the_last_round_alone(tmp_path: Path) -> None:
    trial = curved(tmp_path, 4, participation=2, weight=0.1, memory="last_round")
    last = trial.record["clients"]
    seen = torch.stack([trial.states.load(client)["fisher"] for client in last]).sum(0)
    torch.testing.assert_close(trial.server["u"], seen, rtol=0, atol=1e-13)
    at = torch.ones(12, dtype=torch.float64)
    inside, other = last
    state = trial.states.load(other)
    expected = 2 * 0.1 * (state["fisher"] * at - state["weighted"])
    torch.testing.assert_close(penalty_gradient(trial, inside, at), expected, rtol=1e-9, atol=1e-13)
    outside = next(client for client in trial.states.accepted if client not in last)
    both = 2 * 0.1 * (trial.server["u"] * at - trial.server["v"])
    torch.testing.assert_close(penalty_gradient(trial, outside, at), both, rtol=1e-9, atol=1e-13)


def test_keeping_few_is_cheaper(tmp_path: Path) -> None:
    dense = curved(tmp_path / "dense", 2, weight=0.1)
    few = curved(tmp_path / "few", 2, weight=0.1, kept=0.25)
    state = few.states.load(0)
    assert int((state["fisher"] > 0).sum()) == 3
    assert state["fisher"].count_nonzero() == state["weighted"].count_nonzero()
    model = 12 * 8
    assert dense.record["bytes_up"] == 4 * 3 * model
    # 3 entries before and 3 now: an index of 4 bytes and two numbers of 8 each.
    assert few.record["bytes_up"] == 4 * (model + 6 * (4 + 2 * 8))
    assert few.record["bytes_down"] == dense.record["bytes_down"] == 4 * 3 * model
    # What the last round alone leaves is sent anew, so there are no entries of before; its number goes down.
    last = curved(tmp_path / "last", 2, weight=0.1, kept=0.25, memory="last_round")
    assert last.record["bytes_up"] == 4 * (model + 3 * (4 + 2 * 8))
    assert last.record["bytes_down"] == 4 * (3 * model + 8)


def test_largest_entries_are_the_ones_kept(tmp_path: Path) -> None:
    dense = curved(tmp_path / "dense", 1).states.load(1)["fisher"]
    few = curved(tmp_path / "few", 1, kept=0.5).states.load(1)["fisher"]
    largest = dense.topk(6).indices
    assert torch.equal(few[largest], dense[largest])
    assert int(few.count_nonzero()) == 6


def test_weights_change_at_the_kept_entries_only(tmp_path: Path) -> None:
    whole, few = (curved(tmp_path / str(only), kept=0.5, kept_change=only) for only in (False, True))
    start = few.run_state.weights.parameters.clone()
    (sent, state), (every, same) = few.client(1), whole.client(1)
    kept = state["fisher"] > 0
    assert torch.equal(sent.weights.parameters[kept], every.weights.parameters[kept])
    assert torch.equal(sent.weights.parameters[~kept], start[~kept])
    assert bool((every.weights.parameters[~kept] != start[~kept]).all())
    assert torch.equal(state["weighted"], same["weighted"])


def test_labels_drawn_from_the_model(tmp_path: Path) -> None:
    """With enough samples, drawn labels give the expectation over the model's own predictions."""
    x = torch.ones(4000, 1, dtype=torch.float64)
    part = (x, torch.zeros(4000, dtype=torch.int64))
    trial = Trial(
        tmp_path, [part], FedCurv(labels="sampled"), training={"steps": 1, "lr": 2.0, "batch_size": 0}
    )
    update, state = trial.client(0)
    p = torch.softmax(update.weights.parameters, 0)
    torch.testing.assert_close(state["fisher"], p * (1 - p), rtol=0.1, atol=0)


def test_few_samples_estimate_the_same(tmp_path: Path) -> None:
    parts = random_parts([400], 3, 4)
    whole = curved(tmp_path / "a", 1, parts=parts).states.load(0)["fisher"]
    part = curved(tmp_path / "b", 1, parts=parts, max_samples=300).states.load(0)["fisher"]
    assert not torch.equal(whole, part)
    torch.testing.assert_close(part, whole, rtol=0.3, atol=1e-3)


def test_a_penalty_that_overshoots_is_warned_of(tmp_path: Path) -> None:
    trial = curved(tmp_path, 1, weight=1e4)
    assert "lower method.weight" in trial.record["warnings"][0]
    assert "warnings" not in curved(tmp_path / "slight", 1, weight=1e-4).record
    # It is said once, where it begins.
    trial = curved(tmp_path / "again", 1, weight=100.0, parts=PARTS[:2])
    assert "warnings" in trial.record
    assert "warnings" not in trial.rounds().record


def test_a_round_in_which_no_client_trained_keeps_the_last_ones_terms(tmp_path: Path) -> None:
    trial = curved(tmp_path, 1, participation=2, weight=0.1, memory="last_round")
    inside, other = trial.record["clients"]
    trial.run_state.round += 1
    state, at = trial.states.load(other), torch.ones(12, dtype=torch.float64)
    expected = 2 * 0.1 * (state["fisher"] * at - state["weighted"])
    torch.testing.assert_close(penalty_gradient(trial, inside, at), expected, rtol=1e-9, atol=1e-13)


def test_what_is_remembered_fades_by_the_rounds_since(tmp_path: Path) -> None:
    trial = curved(tmp_path, 5, participation=2, decay=0.9)
    wanted = {"u": 0.0, "v": 0.0}
    for client in range(4):
        state = trial.states.load(client)
        age = 5 - int(state["round"]) if state else 0
        for name, own in (("u", "fisher"), ("v", "weighted")):
            wanted[name] = wanted[name] + 0.9**age * (state[own] if state else 0.0)
    for name, sum_of_terms in wanted.items():
        torch.testing.assert_close(trial.server[name], sum_of_terms)


def test_a_single_client_has_no_penalty_from_what_has_faded(tmp_path: Path) -> None:
    trial = curved(tmp_path, 3, parts=PARTS[:1], decay=0.5)
    at = torch.ones(12, dtype=torch.float64)
    torch.testing.assert_close(penalty_gradient(trial, 0, at), torch.zeros(12, dtype=torch.float64))

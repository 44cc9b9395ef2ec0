import pytest
import torch
from torch import nn

from eunoe.core.flat_model import FlatModel, Weights, load_state, save_state
from eunoe.errors import InputError
from tests.helpers import Net


def normed() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def test_the_module_lives_in_the_vectors():
    model = FlatModel(normed())
    assert model.parameters.numel() == 4 * 6 + 6 + 6 + 6 + 6 * 3 + 3
    model.parameters.zero_()
    assert all((parameter == 0).all() for parameter in model.module.parameters())
    model.module(torch.randn(8, 4))
    assert model.int_buffers.tolist() == [1]
    assert model.float_buffers.shape == (12,)
    assert not torch.equal(model.float_buffers, torch.cat([torch.zeros(6), torch.ones(6)]))


def test_variances_are_the_second_of_batch_norms_buffers():
    assert FlatModel(normed()).variances.tolist() == [False] * 6 + [True] * 6
    assert FlatModel(nn.Linear(2, 1)).variances.tolist() == []


def test_backward_fills_the_gradient_vector():
    model, plain = FlatModel(normed()), normed()
    x = torch.randn(8, 4)
    model.module(x).square().sum().backward()
    plain(x).square().sum().backward()
    assert torch.equal(model.gradient, torch.cat([p.grad.reshape(-1) for p in plain.parameters()]))


def test_frozen_parameters_belong_to_no_lane():
    module = normed()
    module[0].weight.requires_grad_(False)
    assert FlatModel(module).parameters.numel() == 6 + 6 + 6 + 6 * 3 + 3
    with pytest.raises(InputError, match="no trainable parameter"):
        FlatModel(nn.Sequential(nn.ReLU()))


def test_forward_at_any_vector_is_differentiable_and_leaves_the_module_alone():
    model = FlatModel(Net(), dtype=torch.float64)
    x, before = torch.randn(6, 5, dtype=torch.float64), model.parameters.clone()
    elsewhere = torch.randn_like(before).requires_grad_()
    (gradient,) = torch.autograd.grad(model.forward_at(elsewhere, x).sum(), elsewhere)
    assert torch.equal(model.parameters, before)
    other = FlatModel(Net(), dtype=torch.float64)
    other.parameters.copy_(elsewhere.detach())
    other.module(x).sum().backward()
    torch.testing.assert_close(gradient, other.gradient, rtol=1e-12, atol=1e-12)
    features, logits = model.features_at(elsewhere.detach(), x)
    assert features.shape == (6, 8)
    assert torch.equal(logits, model.forward_at(elsewhere.detach(), x))


def test_buffers_can_be_given_with_the_parameters():
    model = FlatModel(normed())
    model.module.eval()
    x = torch.randn(8, 4)
    float_buffers = torch.cat([torch.full((6,), 2.0), torch.full((6,), 9.0)])
    moved = model.forward_at(model.parameters, x, float_buffers)
    assert not torch.allclose(moved, model.forward(x))
    model.load(Weights(model.parameters.clone(), float_buffers, model.int_buffers.clone()))
    assert torch.equal(moved, model.forward(x))


def test_a_model_without_features_says_so():
    with pytest.raises(InputError, match="has no features"):
        FlatModel(normed()).features_at(None, torch.randn(2, 4))


def test_state_goes_to_a_file_and_back(tmp_path):
    model = FlatModel(normed())
    weights = Weights(torch.randn_like(model.parameters), torch.rand(12), torch.tensor([7]))
    model.load(weights)
    save_state(model.module.state_dict(), tmp_path / "state.safetensors")
    fresh = normed()
    assert load_state(fresh, tmp_path / "state.safetensors") == []
    again = FlatModel(fresh)
    assert torch.equal(again.parameters, weights.parameters)
    assert torch.equal(again.float_buffers, weights.float_buffers)
    assert again.int_buffers.tolist() == [7]


def test_a_partial_file_fills_what_it_has(tmp_path):
    path = tmp_path / "part.pt"
    torch.save({"0.weight": torch.ones(6, 4), "head.weight": torch.ones(2, 2)}, path)
    with pytest.raises(InputError, match="partial = true"):
        load_state(normed(), path)
    module = normed()
    left = load_state(module, path, partial=True)
    assert (module[0].weight == 1).all()
    assert "0.bias" in left


@pytest.mark.parametrize("content", [b"", b"not a state dict"])
def test_an_unreadable_state_file_is_one_clear_line(tmp_path, content):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(InputError, match="as a state_dict file"):
        load_state(normed(), path)
    with pytest.raises(InputError, match="not found"):
        load_state(normed(), tmp_path / "missing.safetensors")


@pytest.mark.parametrize("content", [torch.ones(3), [torch.ones(3)], 7])
def test_a_file_that_holds_no_names_is_one_clear_line(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(InputError, match=r"is not a state_dict file: it holds a (Tensor|list|int)$"):
        load_state(normed(), tmp_path / "other.pt")


def test_values_that_are_no_tensors_fit_nowhere(tmp_path):
    path = tmp_path / "other.pt"
    torch.save({"0.bias": 3.0, 1: torch.ones(6)}, path)
    with pytest.raises(InputError, match=r"no tensor of .* matches the model"):
        load_state(normed(), path, partial=True)
    torch.save({"0.bias": torch.ones(6), "3.bias": 3.0, 1: 2}, path)
    with pytest.raises(InputError, match=r"does not match the model .first at 1"):
        load_state(normed(), path)
    assert "3.bias" in load_state(normed(), path, partial=True)

"""All networks: the papers' parameter counts, features, vmap, input shapes, plain forms of the fast ones."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F

from eunoe.config import registry
from eunoe.errors import InputError
from eunoe.models.cnn import CNN, LeNet, MnistCNN, SmallCNN

CIFAR, MNIST, DIGITS = (3, 32, 32), (1, 28, 28), (1, 8, 8)


def build(name: str, shape: tuple[int, ...], classes: int = 10, **options: Any) -> Any:
    torch.manual_seed(0)
    supplied = {"vocabulary": VOCABULARY[name]} if name in VOCABULARY else {}
    return registry.build("model", name, options, shape=shape, classes=classes, **supplied)


def inputs(shape: tuple[int, ...], number: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(number, *shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def taken(name: str, number: int = 3) -> Tensor:
    """Inputs of a small model."""
    if name in VOCABULARY:
        generator = torch.Generator().manual_seed(1)
        return torch.randint(VOCABULARY[name], (number, *SMALL[name]), generator=generator)
    return inputs(SMALL[name], number)


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options", "expected"),
    [
        ("lenet", CIFAR, 10, {}, 62_006),
        ("lenet", CIFAR, 100, {}, 69_656),
        ("lenet", MNIST, 10, {}, 44_426),
        ("cnn", CIFAR, 10, {}, 2_156_490),
        ("cnn", MNIST, 10, {}, 1_663_370),
        ("cnn", CIFAR, 10, {"width": 8}, 76 * 8 + 201 * 16 + 1025 * 128 + 129 * 10),
        ("cnn", MNIST, 62, {}, 1_690_046),
        ("mnist_cnn", MNIST, 10, {}, 431_080),
        ("resnet18", CIFAR, 10, {"norm": "mixed"}, 11_178_762),
        ("resnet18", CIFAR, 100, {"norm": "mixed"}, 11_224_932),
        ("mlp", (64,), 10, {"hidden": [128]}, 65 * 128 + 129 * 10),
        ("mlp", DIGITS, 10, {"hidden": (5, 4)}, 65 * 5 + 6 * 4 + 5 * 10),
        ("mlp", (64,), 10, {"hidden": []}, 650),
        ("logistic", MNIST, 10, {}, 7_850),
        ("small_cnn", DIGITS, 10, {}, 6_090),
        ("signal_cnn", (128, 6), 12, {}, 32 * 43 + 64 * 161 + 12 * 65),
        ("text_bag", (6,), 5, {}, 11 * 128 + 5 * 129),
        ("text_cnn", (6,), 5, {}, 11 * 64 + 64 * (9 * 64 + 3) + 5 * (3 * 64 + 1)),
        ("text_cnn", (6,), 5, {"kernels": [2], "pool": "flat"}, 11 * 64 + 64 * 129 + 5 * (5 * 64 + 1)),
    ],
)
def test_parameter_counts(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], expected: int
) -> None:
    assert size(build(name, shape, classes, **options)) == expected


SMALL = {
    "mlp": DIGITS,
    "logistic": (7,),
    "small_cnn": DIGITS,
    "signal_cnn": (9, 3),
    "text_bag": (6,),
    "text_cnn": (6,),
    "lenet": (3, 16, 18),
    "cnn": (2, 9, 8),
    "mnist_cnn": (1, 17, 16),
    "resnet18": (2, 8, 10),
}
OPTIONS: dict[str, dict[str, Any]] = {"resnet18": {"width": 8}}
# What is supplied to models of token ids besides the shape.
VOCABULARY = {"text_bag": 11, "text_cnn": 11}


def small(name: str, classes: int = 5) -> Any:
    return build(name, SMALL[name], classes, **OPTIONS.get(name, {})).double()


def test_every_named_model_is_tested() -> None:
    # Those of the transformers library and language models have tests of their own.
    assert set(registry.names("model")) == {*SMALL, "hf", "char_gpt"}
    assert all(registry.summary("model", name) for name in SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_logits_are_classified_features(name: str) -> None:
    model, x = small(name), taken(name)
    features = model.features(x)
    assert features.shape == (3, model.classifier.in_features)
    assert torch.equal(model(x), model.classifier(features))
    assert model(x).shape == (3, 5)
    torch.testing.assert_close(model(x[:1]), model(x)[:1], rtol=1e-12, atol=1e-12)
    assert model(x[:0]).shape == (0, 5)


@pytest.mark.parametrize("name", SMALL)
def test_memory_layout_changes_no_bit_and_the_input_is_left_alone(name: str) -> None:
    model, x = small(name), taken(name)
    kept = x.clone()
    expected = model(x)
    assert torch.equal(x, kept)
    if x.ndim == 4:
        by_pixel = x.permute(0, 2, 3, 1).flatten().view(len(x), *x.shape[2:], x.shape[1]).permute(0, 3, 1, 2)
        assert by_pixel.stride(1) == 1
        assert torch.equal(model(by_pixel), expected)


@pytest.mark.parametrize("name", SMALL)
def test_vmapped_clients_equal_looped(name: str) -> None:
    models = [small(name) for _ in range(3)]
    for number, model in enumerate(models):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + number / 10).add_(number / 100)
    weights, buffers = stack_module_state(models)
    assert not buffers
    x = taken(name, 12).view(3, 4, *SMALL[name])
    y = torch.arange(12).view(3, 4) % 5

    def loss(w: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(models[0], w, (x,)), y)

    gradients = vmap(grad(loss))(weights, x, y)
    for client, model in enumerate(models):
        model.zero_grad()
        F.cross_entropy(model(x[client]), y[client]).backward()
        for key, p in model.named_parameters():
            assert p.grad is not None
            torch.testing.assert_close(gradients[key][client], p.grad, rtol=1e-10, atol=1e-12)


def plain_cnn(model: CNN, x: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, model.first.weight, model.first.bias, padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, model.second.weight, model.second.bias, padding=2)), 2)
    return model.classifier(F.relu(model.hidden(x.flatten(1))))


def plain_lenet(model: LeNet, x: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, model.first.weight, model.first.bias)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, model.second.weight, model.second.bias)), 2)
    return model.classifier(F.relu(model.last_hidden(F.relu(model.hidden(x.flatten(1))))))


def plain_mnist_cnn(model: MnistCNN, x: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, model.first.weight, model.first.bias)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, model.second.weight, model.second.bias)), 2)
    return model.classifier(F.relu(model.hidden(x.flatten(1))))


def plain_small_cnn(model: SmallCNN, x: Tensor) -> Tensor:
    x = F.max_pool2d(F.relu(F.conv2d(x, model.first.weight, model.first.bias, padding=1)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, model.second.weight, model.second.bias, padding=1)), 2)
    return model.classifier(x.flatten(1))


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cnn", plain_cnn),
        ("lenet", plain_lenet),
        ("mnist_cnn", plain_mnist_cnn),
        ("small_cnn", plain_small_cnn),
    ],
)
@pytest.mark.parametrize("shape", [CIFAR, MNIST])
def test_fast_forms_equal_the_plain_ones(
    name: str, plain: Callable[[Any, Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    model = build(name, shape).double()
    x, y = inputs(shape, 4), torch.tensor([1, 0, 9, 9])
    weights = list(model.parameters())
    mine, theirs = model(x), plain(model, x)
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(F.cross_entropy(mine, y), weights),
        torch.autograd.grad(F.cross_entropy(theirs, y), weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn", (64,)),
        ("lenet", (3, 15, 32)),
        ("lenet", DIGITS),
        ("mnist_cnn", (28, 28)),
        ("small_cnn", (1, 3, 8)),
        ("resnet18", (64,)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"model '{name}' needs images"):
        build(name, shape)


def test_options_are_checked() -> None:
    with pytest.raises(InputError, match="hidden"):
        build("mlp", (64,), hidden=[0])
    with pytest.raises(InputError, match="norm"):
        build("resnet18", CIFAR, norm="spectral")


def test_models_of_text_take_token_ids_alone() -> None:
    with pytest.raises(InputError, match=r"model 'text_cnn' needs integer token ids \[length\]"):
        registry.build("model", "text_cnn", {}, shape=(6,), classes=5)
    with pytest.raises(
        InputError, match="model 'text_cnn' needs texts of at least 4 tokens, but they have 3"
    ):
        build("text_cnn", (3,))
    with pytest.raises(InputError, match=r"model 'signal_cnn' needs at least 4 steps \[time, channels\]"):
        build("signal_cnn", (64,))


def test_padding_has_no_part_in_the_mean_of_a_bag() -> None:
    model = small("text_bag")
    padded = model.features(torch.tensor([[3, 4, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]))
    torch.testing.assert_close(padded[0], model.embedding.weight[3:5].mean(0))
    assert padded[1].abs().sum() == 0

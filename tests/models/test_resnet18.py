"""ResNet-18: its norms, pooling and width."""

import pytest
import torch
from torch import Tensor, nn

from eunoe.errors import InputError
from eunoe.models.resnet18 import Norm, ResNet18


def made(**options: object) -> ResNet18:
    torch.manual_seed(0)
    return ResNet18((3, 32, 32), 4, **{"width": 8, **options})  # type: ignore[arg-type]


def images(number: int = 3) -> Tensor:
    return torch.randn(number, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def kinds(model: nn.Module) -> dict[type, int]:
    norms = [type(m) for m in model.modules() if isinstance(m, nn.GroupNorm | nn.BatchNorm2d)]
    return {kind: norms.count(kind) for kind in set(norms)}


# The stem, eight blocks of two, and three shortcuts.
@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("group", {nn.GroupNorm: 20}),
        ("layer", {nn.GroupNorm: 20}),
        ("instance", {nn.GroupNorm: 20}),
        ("batch", {nn.BatchNorm2d: 20}),
        ("mixed", {nn.BatchNorm2d: 9, nn.GroupNorm: 11}),
        ("none", {}),
    ],
)
def test_norms(norm: Norm, expected: dict[type, int]) -> None:
    model = made(norm=norm)
    assert kinds(model) == expected
    logits = model(images())
    assert logits.shape == (3, 4)
    assert bool(logits.isfinite().all())


def test_mixed_norms_are_where_the_thesis_has_them() -> None:
    model = made(norm="mixed")
    assert isinstance(model.stem_norm, nn.BatchNorm2d)
    for block in model.blocks:
        assert isinstance(block.first_norm, nn.BatchNorm2d)
        assert isinstance(block.second_norm, nn.GroupNorm)
        assert block.second_norm.num_groups == 2
        shortcut = list(block.shortcut.modules())
        assert all(not isinstance(part, nn.BatchNorm2d) for part in shortcut)


def test_groups_of_each_norm() -> None:
    def groups(norm: Norm) -> int:
        first = made(norm=norm, groups=4).stem_norm
        assert isinstance(first, nn.GroupNorm)
        return first.num_groups

    assert [groups("group"), groups("layer"), groups("instance")] == [4, 1, 8]


def test_instance_norm_sees_one_channel_at_a_time() -> None:
    norm = made(norm="instance").stem_norm
    x = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(norm(x), nn.functional.instance_norm(x))


def test_maps_halve_from_the_second_stage_on() -> None:
    model, sides = made(), []
    x = model.stem(images(1))
    for block in model.blocks:
        x = block(x)
        sides.append((x.shape[1], x.shape[-1]))
    assert sides == [(8, 32), (8, 32), (16, 16), (16, 16), (32, 8), (32, 8), (64, 4), (64, 4)]


def test_corner_pooling_is_the_thesis_window() -> None:
    model = made(pool="corner")
    x = model.blocks(torch.relu(model.stem_norm(model.stem(images()))))
    expected = nn.AvgPool2d(3, stride=2)(x).flatten(1)
    torch.testing.assert_close(model.features(images()), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made().features(images()), x.mean((2, 3)), rtol=1e-4, atol=1e-5)


def test_small_images_fit() -> None:
    assert ResNet18((1, 8, 8), 10, width=8)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_groups_must_divide_the_width() -> None:
    with pytest.raises(InputError, match="not divisible by groups=3"):
        made(groups=3)
    assert made(norm="batch", groups=3)

"""Named components are found, built, described, and refused in one line."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.config.options import Split
from eunoe.config.registry import KINDS
from eunoe.errors import InputError
from eunoe.losses.wsm import WSM, LogitAdjusted
from eunoe.models.mlp import MLP

HERE = "tests.config.test_registry"


def adder(shape: tuple[int, ...], classes: int, *, times: int = 2, kind: type = dict) -> tuple[Any, ...]:
    """What a user's own function may look like.

    More is not shown in a list.
    """
    return shape, classes, times


def needy(*, must: float) -> float:
    return must


def nested(*, split: Split) -> float:
    return split.test


def free(**anything: Any) -> dict[str, Any]:
    return anything


@pytest.mark.parametrize("kind", KINDS)
def test_every_built_in_component_can_be_imported_and_has_a_summary(kind: str) -> None:
    for name in registry.names(kind):
        assert callable(registry.find(kind, name))
        assert registry.summary(kind, name)


def test_a_component_is_built_from_its_options_and_what_the_library_supplies() -> None:
    assert registry.build("loss", "logit_adjusted", {"tau": 2}) == LogitAdjusted(tau=2.0)
    assert registry.build("loss", "eunoe.losses.wsm:WSM", {}) == WSM()
    model = registry.build("model", "mlp", {"hidden": [7]}, shape=(4,), classes=3)
    assert isinstance(model, MLP)
    assert model.classifier.in_features == 7
    assert registry.build("model", f"{HERE}:adder", {"times": "5"}, shape=(4,), classes=3) == ((4,), 3, 5)
    assert registry.build("data_set", f"{HERE}:free", {"x": 1}, ignored=2) == {"x": 1}
    assert registry.build("data_set", f"{HERE}:nested", {"split": {"test": 0.3}}) == 0.3


@pytest.mark.parametrize(
    ("kind", "name", "given", "says"),
    [
        ("loss", "wms", {}, "no loss is called 'wms'; did you mean 'wsm'?"),
        ("loss", "qqq", {}, "there are balanced, bce,"),
        ("loss", "nowhere:Loss", {}, "no module 'nowhere'"),
        ("loss", "eunoe.nowhere:Loss", {}, "no module 'eunoe.nowhere'"),
        ("loss", "eunoe.losses.base:Nothing", {}, "module 'eunoe.losses.base' has no class or function"),
        ("loss", "os:sep", {}, "no class or function 'sep'"),
        ("loss", ":x", {}, "package.module:name"),
        ("loss", ".x:y", {}, "package.module:name"),
        ("loss", "x:", {}, "package.module:name"),
        ("loss", "logit_adjusted", {"tua": 1}, "has no option 'tua'; did you mean 'tau'?"),
        ("loss", "logit_adjusted", {"tau": -1}, "loss 'logit_adjusted': tau: input should be greater than"),
        ("loss", "logit_adjusted", {"tau": True}, "loss 'logit_adjusted': tau: must be a number"),
        ("partition", "iid", {"clients": True}, "partition 'iid': clients: must be a number"),
        (
            "server_optimizer",
            "sgd",
            {"gma": True},
            "server optimizer 'sgd': gma: must be a number",
        ),
        ("metric", "loss", {"tau": 1}, "there are none"),
        ("model", "mlp", {"hidden": 3}, "model 'mlp': hidden: input should be a list (not 3)"),
        ("model", "mlp", {"hidden": "a"}, "model 'mlp': hidden: input should be a list (not 'a')"),
        ("model", "mlp", {"hidden": [0]}, "model 'mlp': hidden: 0: input should be greater than 0 (not 0)"),
        ("model", "mlp", {"shape": (3,)}, "has no option 'shape'"),
        ("model", f"{HERE}:needy", {}, "needs the option 'must'"),
        ("model", f"{HERE}:needy", {"must": "x"}, "must: input should be a valid number"),
    ],
)
def test_what_cannot_be_built_is_reported_in_one_line(
    kind: str, name: str, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError) as caught:
        registry.build(kind, name, given, **({"shape": (4,), "classes": 3} if kind == "model" else {}))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_import_error_inside_the_users_own_file_arrives_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_that_breaks.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "mine_that_works.py").write_text("def thing(*, a: int = 1): return a\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        registry.find("loss", "mine_that_breaks:thing")
    assert registry.build("model", "mine_that_works:thing", {"a": 3}) == 3


@pytest.mark.parametrize("kind", ["method", "loss", "server_optimizer", "tracker"])
def test_what_is_no_class_of_its_kind_is_not_called(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**options: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("tests.config.test_registry.free", never)
    for name in (f"{HERE}:free", "subprocess:Popen", "theirs"):
        monkeypatch.setattr(
            registry, "entry_points", lambda group: [SimpleNamespace(name="theirs", load=lambda: never)]
        )
        with pytest.raises(InputError, match=f"{KINDS[kind].label} '{name}' must derive from eunoe"):
            registry.build(kind, name, {"args": "touch"})


def test_an_installed_entry_point_is_a_full_citizen(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(name="theirs", load=lambda: needy)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "eunoe.data_set" else [])
    assert "theirs" in registry.names("data_set")
    assert "theirs" not in registry.names("loss")
    assert registry.build("data_set", "theirs", {"must": 2}) == 2


def test_defaults_are_those_that_a_file_can_express() -> None:
    assert registry.defaults("loss", "logit_adjusted", {}) == {"tau": 1.0}
    assert registry.defaults("loss", "logit_adjusted", {"tau": 2.0}) == {"tau": 2.0}
    assert registry.defaults("model", f"{HERE}:adder", {}) == {"times": 2}


def test_the_first_line_of_the_docstring_is_the_summary() -> None:
    assert registry.summary("model", f"{HERE}:adder") == "What a user's own function may look like."
    assert registry.summary("method", "gma") == "fedavg with server optimizer sgd, gma = 0.4"


def test_a_name_for_fedavg_with_a_step_is_written_out() -> None:
    written = registry.expand_preset(
        {"method": {"name": "fedadam", "weighting": "uniform", "lr": 0.1}, "seed": 1}
    )
    assert written == {
        "method": {"name": "fedavg", "weighting": "uniform"},
        "server_optimizer": {"name": "adam", "lr": 0.1},
        "seed": 1,
    }
    assert registry.expand_preset({"method": "fedprox"}) == {"method": "fedprox"}
    assert registry.expand_preset({"method": {"name": [1]}}) == {"method": {"name": [1]}}


@pytest.mark.parametrize("step", ["sgd", {"name": "sgd", "lr": 1.0, "gma": None}, {"lr": 1}, None])
def test_the_step_that_is_none_gives_way_to_that_of_a_name(step: Any) -> None:
    written = registry.expand_preset({"method": "fedadam", "server_optimizer": step})
    assert written == {"method": {"name": "fedavg"}, "server_optimizer": {"name": "adam"}}


@pytest.mark.parametrize(
    "step", ["yogi", {"name": "yogi"}, {"name": "sgd", "lr": 0.5}, {"name": "sgd", "gma": 0.2}, 3]
)
def test_a_name_for_fedavg_with_a_step_takes_no_other_step(step: Any) -> None:
    with pytest.raises(InputError, match="leave server_optimizer out"):
        registry.expand_preset({"method": "fedadam", "server_optimizer": step})

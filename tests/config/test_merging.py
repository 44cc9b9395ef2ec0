"""Values of a config put over one another."""

from eunoe.config.merging import merge


def test_changes_are_put_over_option_by_option() -> None:
    base = {"seed": 1, "training": {"lr": 0.1, "epochs": 2}, "loss": "fedlc", "shift": None}
    merged = merge(
        base, {"training": {"lr": 0.5}, "loss": {"tau": 2}}, {"seed": 3, "shift": {"kind": "noise"}}
    )
    assert merged == {
        "seed": 3,
        "training": {"lr": 0.5, "epochs": 2},
        "loss": {"name": "fedlc", "tau": 2},
        "shift": {"kind": "noise"},
    }
    assert base["training"] == {"lr": 0.1, "epochs": 2}


def test_what_has_a_name_replaces_what_was_there() -> None:
    base = {"loss": {"name": "fedlc", "tau": 2}, "track": [{"name": "wandb"}]}
    assert merge(base, {"loss": {"name": "wsm"}})["loss"] == {"name": "wsm"}
    assert merge(base, {"loss": {"name": "fedlc"}})["loss"] == {"name": "fedlc"}
    assert merge(base, {"loss": "fedlc"})["loss"] == "fedlc"
    assert merge(base, {"track": {"offline": True}})["track"] == {"offline": True}

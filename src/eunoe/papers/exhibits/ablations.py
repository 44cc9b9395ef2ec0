"""One setting varied at a time: figure 4 of the TCE paper, 3.3 of the thesis, 6 of the WSM paper.

The texts name the values of alpha and the range of the share of clients; the other values are chosen here."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, Values
from eunoe.papers.exhibits.common import (
    BOTH_NORMS,
    GROUP,
    LENET,
    SMALL_RESNET,
    TCE,
    WITH_LENET,
    WSM,
    reweighting,
)
from eunoe.papers.measures import Measure, at_end, last_rounds

ALPHAS = (0.01, 0.1, 0.2, 0.5, 1, 10, 100)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
EPOCHS = (1, 2, 3, 5, 10, 20)

LAST_ROUNDS = last_rounds("accuracy")


def settings(epochs: bool) -> dict[str, Config]:
    """Every setting of the ablations, by name."""
    found: dict[str, Config] = {f"alpha={alpha}": {"partition": {"alpha": alpha}} for alpha in ALPHAS}
    found |= {f"share={share}": {"participation": share} for share in SHARES}
    return found | (
        {f"epochs={count}": {"training": {"epochs": count}} for count in EPOCHS} if epochs else {}
    )


def gap(first: str, second: str, base: str, better: str) -> Claim:
    """The claim that the gain is larger in the first setting than in the second."""

    def statistic(values: Values) -> float:
        first_gain, second_gain = (
            values[f"{at} {better}"] - values[f"{at} {base}"] for at in (first, second)
        )
        return first_gain - second_gain

    return Claim(f"{better} gains more at {first} than at {second}", statistic)


def recipe(
    name: str,
    common: Config,
    columns: dict[str, Config],
    small: Config,
    epochs: bool = True,
    exhibit: str = "",
    differs: str = "",
    measure: Measure = LAST_ROUNDS,
) -> Recipe:
    """An ablation of FedAvg (the first column) and a remedy (the second); further columns come in pairs."""
    names = list(columns)
    compared = [("alpha=0.01", "alpha=100"), ("share=0.02", "share=0.2")] + [
        ("epochs=10", "epochs=3")
    ] * epochs
    kept = [f"{setting} {column}" for pair in compared for setting in pair for column in names]
    return Recipe(
        name,
        common,
        tuple(
            Variant(f"{setting} {column}", merge(changes, columns[column]))
            for setting, changes in settings(epochs).items()
            for column in columns
        ),
        {"": measure},
        tuple(
            gap(*settings, *pair)
            for pair in zip(names[::2], names[1::2], strict=True)
            for settings in compared
        ),
        small,
        tuple(kept),
        exhibit_name=exhibit,
        differs=differs,
        draws="settings",
    )


RECIPES = (
    recipe(
        "tce-fig4",
        reweighting("tce"),
        {
            "fedavg group": merge(GROUP, {"training": {"lr": 0.1}}),
            "fedavg+tce group": merge(GROUP, TCE, {"training": {"lr": 0.03}}),
        },
        merge(SMALL_RESNET, {"rounds": 5}),
        epochs=False,
        measure=at_end("accuracy"),
    ),
    recipe(
        "thesis-fig3.3",
        reweighting("thesis"),
        {"fedavg": {}, "fedavg+wsm": WSM},
        merge(SMALL_RESNET, {"rounds": 5}),
    ),
    recipe(
        "wsm-fig6",
        reweighting("wsm"),
        {
            f"{norm}fedavg{suffix}": merge(model, loss)
            for norm, model in BOTH_NORMS.items()
            for suffix, loss in {"": {}, "+wsm": WSM}.items()
        },
        merge(SMALL_RESNET, {"rounds": 5}),
    ),
    recipe(
        "wsm-fig6-lenet",
        reweighting("wsm", LENET, {"training": {"lr": 0.01}}),
        {"fedavg": {}, "fedavg+wsm": WSM},
        # With a fifth of the data and half of the rounds LeNet stays near chance.
        {"rounds": 60, "evaluation": {"every": 20, "last": 5}, "probes": []},
        exhibit="wsm-fig6",
        differs=WITH_LENET,
    ),
)

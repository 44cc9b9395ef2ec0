"""One setting varied at a time: figure 4 of the TCE paper, 3.3 of the thesis, 6 of the WSM paper.

The texts name the values of alpha and the range of the share of clients; the other values are chosen here."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import above, gains_more
from eunoe.papers.exhibit import Config, Exhibit, Variant
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
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import Measure, at_end, last_rounds

ALPHAS = (0.01, 0.1, 0.2, 0.5, 1, 10, 100)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
EPOCHS = (1, 2, 3, 5, 10, 20)

LAST_ROUNDS = last_rounds("accuracy")


def settings(epochs: bool) -> dict[Key, Config]:
    """Every setting of the ablations."""
    found: dict[Key, Config] = {key(alpha=alpha): {"partition": {"alpha": alpha}} for alpha in ALPHAS}
    found |= {key(share=share): {"participation": share} for share in SHARES}
    return found | (
        {key(epochs=count): {"training": {"epochs": count}} for count in EPOCHS} if epochs else {}
    )


def spoken(column: str) -> str:
    """A column in the words of a claim."""
    method = next(word for word in column.split() if word.startswith("fedavg"))
    norm = column.replace(method, "").strip()
    return (method.partition("+")[2].upper() or "FedAvg") + f" with {norm} norm" * bool(norm)


def in_words(setting: Key) -> str:
    """A setting in the words of a claim."""
    ((name, value),) = setting.parts
    return {
        "alpha": f"alpha {value}",
        "share": f"{float(value):.0%} of the clients a round",
        "epochs": f"{value} local epochs",
    }[name]


def gap(first: Key, second: Key, base: str, better: str) -> Claim:
    """The claim that the gain is larger in the first setting than in the second."""
    pairs = [(setting.but(method=better), setting.but(method=base)) for setting in (first, second)]
    sentence = (
        f"{spoken(better)} gains more on {spoken(base)} at {in_words(first)} than at {in_words(second)}"
    )
    return Claim(sentence, gains_more(*pairs))


def drops_with_epochs(method: str) -> Claim:
    """The claim that longer local training makes a method worse."""
    few, many = (key(epochs=count, method=method) for count in (3, 10))
    return Claim(f"{spoken(method)} is worse with 10 local epochs than with 3", above(few, many))


def exhibit(
    name: str,
    common: Config,
    columns: dict[str, Config],
    small: Config,
    epochs: bool = True,
    source: str = "",
    differs: str = "",
    measure: Measure = LAST_ROUNDS,
) -> Exhibit:
    """An ablation of FedAvg (the first column) and a remedy (the second); further columns come in pairs."""
    names = list(columns)
    compared = [(key(alpha=0.01), key(alpha=100)), (key(share=0.02), key(share=0.2))]
    compared += [(key(epochs=10), key(epochs=3))] * epochs
    kept = tuple(setting.but(method=column) for pair in compared for setting in pair for column in names)
    return Exhibit(
        name,
        common,
        tuple(
            Variant(setting.but(method=column), merge(changes, columns[column]))
            for setting, changes in settings(epochs).items()
            for column in columns
        ),
        {"": measure},
        (
            *(gap(*both, *pair) for pair in zip(names[::2], names[1::2], strict=True) for both in compared),
            *(drops_with_epochs(name) for name in names[::2] if epochs),
        ),
        small,
        kept,
        source_name=source,
        differs=differs,
        draws="settings",
    )


EXHIBITS = (
    exhibit(
        "tce-fig4",
        reweighting("tce"),
        {
            "fedavg group": merge(GROUP, {"training": {"lr": 0.1}}),
            "fedavg+tce group": merge(GROUP, TCE, {"training": {"lr": 0.03}}),
        },
        SMALL_RESNET,
        epochs=False,
        measure=at_end("accuracy"),
    ),
    exhibit(
        "thesis-fig3.3",
        reweighting("thesis"),
        {"fedavg": {}, "fedavg+wsm": WSM},
        SMALL_RESNET,
    ),
    exhibit(
        "wsm-fig6",
        reweighting("wsm"),
        {
            f"{norm} fedavg{suffix}".strip(): merge(model, loss)
            for norm, model in BOTH_NORMS.items()
            for suffix, loss in {"": {}, "+wsm": WSM}.items()
        },
        SMALL_RESNET,
    ),
    exhibit(
        "wsm-fig6-lenet",
        reweighting("wsm", LENET, {"training": {"lr": 0.01}}),
        {"fedavg": {}, "fedavg+wsm": WSM},
        # With a fifth of the data and half of the rounds LeNet stays near chance.
        {"rounds": 60, "evaluation": {"every": 20, "last": 5}, "probes": []},
        source="wsm-fig6",
        differs=WITH_LENET,
    ),
)

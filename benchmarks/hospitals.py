"""Heart disease by hospital: what each hospital has alone, with the federation, and with its own class shares.

    eunoe sweep examples/hospitals.toml --over method.name=fedavg,local,central --seeds 0,1,2,3,4,5,6,7,8,9 --out runs/hospitals/ce
    eunoe sweep examples/hospitals.toml --over loss.name=wsm --seeds 0,1,2,3,4,5,6,7,8,9 --out runs/hospitals/wsm
    python benchmarks/hospitals.py runs/hospitals

Accuracies are of the last model (of `local`: each hospital's best by its validation part) on the hospital's
patients of the test set, which no choice has seen. "own shares" predicts with the class shares of the
hospital's training labels. The column `validation` is the mean over hospitals on their validation parts: what
one would choose by. Differences are against `local`, by seed, with 95% intervals.
"""  # noqa: E501

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from eunoe.analysis.statistics import mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.simulation.run import Run
from eunoe.store.groups import find_folders

Found = dict[str, dict[int, list[float]]]


def accuracies(run: Run) -> dict[str, tuple[list[float], list[float]]]:
    """Test and validation accuracy of each hospital, by the name of the way to predict."""
    federation, config = run.simulation.federation, run.config
    owners, found = federation.test_owners, {}
    assert owners is not None
    alone = config.method.name == "local"
    name = config.method.name if config.method.name != "fedavg" else f"fedavg, {config.loss.name}"
    for title, own in ((name, False), (f"{name}, own shares", True)):
        if own and (alone or config.method.name == "central"):
            continue
        test, validation = [], []
        for client in range(len(federation)):
            model = run.model("best" if alone else "last", client=client if alone else None)
            for part, samples, rows in (
                (test, federation.data.test, np.flatnonzero(owners == client)),
                (validation, federation.data.train, federation.rows(client, "validation")),
            ):
                inputs = federation.preprocess(samples.tensor[rows])
                logits = model(inputs).detach().numpy()
                if own:
                    counts = federation.counts(client).numpy()
                    logits = logits + np.log(counts / counts.sum())
                part.append(float((logits.argmax(1) == samples.y[rows].numpy()).mean()))
        found[title] = test, validation
    return found


def table(tests: Found, validations: Mapping[str, Mapping[int, list[float]]], names: list[str]) -> Table:
    """A row per hospital and one for their mean, a column per way; then what each gains over `local`."""
    ways = sorted(tests, key=lambda way: (way != "local", "central" in way, way))
    seeds = sorted(tests["local"])
    rows = []
    for at, name in [*enumerate(names), (None, "mean")]:
        cells = []
        for way in ways:
            values, alone = (
                [np.mean(found[seed]) if at is None else found[seed][at] for seed in seeds]
                for found in (tests[way], tests["local"])
            )
            gain = "" if way == "local" else f" ({paired_interval(values, alone).points()})"
            cells.append(mean_std(values, 3) + gain)
        rows.append([name, *cells])
    chosen = [mean_std([float(np.mean(validations[way][seed])) for seed in seeds], 3) for way in ways]
    return Table(["hospital", *ways], [*rows, ["validation", *chosen]])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="The folder of the runs.")
    tests: Found = {}
    validations: Found = {}
    names: list[str] = []
    for folder in find_folders([parser.parse_args().runs]):
        run = Run(folder)
        names = run.simulation.federation.client_names or names
        for way, (test, validation) in accuracies(run).items():
            tests.setdefault(way, {})[run.config.seed] = test
            validations.setdefault(way, {})[run.config.seed] = validation
    made = table(tests, validations, names)
    # A way per row is easier to read: hospitals are few.
    turned = list(zip(made.headings, *made.rows, strict=True))
    print(Table(turned[0], turned[1:]).markdown())


if __name__ == "__main__":
    main()

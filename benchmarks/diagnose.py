"""How often the first remedy that `eunoe diagnose` proposes lowers forgetting without losing accuracy.

    python benchmarks/diagnose.py [--out DIR] [--jobs N] [--only digits]

Twelve settings on digits and eight on MNIST (alpha x participation x local epochs), one seed each. A remedy
counts as a success if mean round forgetting falls and the final test accuracy is at most 0.5 points lower; a
setting without a proposal counts apart.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

from eunoe import diagnose
from eunoe.config.settings import apply_settings
from eunoe.search.sweep import Planned, execute
from eunoe.simulation.run import Run
from eunoe.store.reader import read_run

DIGITS: dict[str, Any] = {
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 20},
    "public": {"share": 0.1},
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"batch_size": 16, "lr": 0.1},
    "rounds": 60,
    "evaluation": {"last": 10},
}
MNIST: dict[str, Any] = {
    "data": "mnist",
    "partition": {"name": "dirichlet", "clients": 100},
    "public": {"share": 0.02},
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"batch_size": 32, "lr": 0.05},
    "rounds": 40,
    "evaluation": {"last": 10, "validation": False},
}


def settings() -> dict[str, dict[str, Any]]:
    found = {}
    for name, base, shares in (("digits", DIGITS, (2, 4)), ("mnist", MNIST, (5, 10))):
        alphas = (0.05, 0.1, 0.5) if name == "digits" else (0.05, 0.3)
        for alpha, share, epochs in itertools.product(alphas, shares, (1, 5)):
            changes = [f"partition.alpha={alpha}", f"participation={share}", f"training.epochs={epochs}"]
            found[f"{name} alpha={alpha} clients={share} epochs={epochs}"] = apply_settings(base, changes)
    return found


def judged(before: Run, after: Run) -> tuple[bool, str]:
    lower = after.forgetting < before.forgetting
    kept = after.accuracy >= before.accuracy - 0.005
    return lower and kept, (
        f"forgetting {before.forgetting:.4f} -> {after.forgetting:.4f}, "
        f"accuracy {before.accuracy:.3f} -> {after.accuracy:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/diagnose"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="Only settings that begin so, such as digits.")
    options = parser.parse_args()
    base = [
        Planned(name, values, options.out / name / "base")
        for name, values in settings().items()
        if name.startswith(options.only)
    ]
    untreated = dict(zip((planned.label for planned in base), execute(base, options.jobs), strict=True))
    treated, proposed = [], {}
    for planned in base:
        found = diagnose(read_run(planned.folder))
        proposed[planned.label] = found
        if found.remedies:
            values = apply_settings(planned.values, found.remedies[0].settings)
            treated.append(Planned(planned.label, values, options.out / planned.label / "remedy"))
    results = dict(zip((planned.label for planned in treated), execute(treated, options.jobs), strict=True))
    successes = 0
    for name, found in proposed.items():
        if name not in results:
            print(f"{name}: {found.kind}; nothing proposed (forgetting {untreated[name].forgetting:.4f})")
            continue
        good, words = judged(untreated[name], results[name])
        successes += good
        change = " ".join(found.remedies[0].settings)
        print(f"{name}: {found.kind}; {change}: {words}: {'better' if good else 'not'}")
    print(f"{successes} of {len(results)} first proposals lower forgetting without losing accuracy")


if __name__ == "__main__":
    main()

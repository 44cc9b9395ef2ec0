"""Options that no table of the papers uses, each against its default, on digits; writes what the docs show.

python benchmarks/options_on_digits.py [--out DIR] [--jobs N] [--seeds 0 1 2]
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from eunoe.analysis.comparison import Comparison
from eunoe.analysis.statistics import mean_std, student_interval
from eunoe.config.settings import apply_settings, read_config
from eunoe.search.sweep import Planned, execute, folder_name

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs/measured/options-on-digits.json"
PLAIN: tuple[str, ...] = ()
FLASHBACK = ("method.name=flashback",)
FEDCURV = ("method.name=fedcurv", "method.weight=0.1")
SCAFFOLD = ("method.name=scaffold",)
WSM = ("loss.name=wsm",)
# Without weight decay a client of one class changes nothing under WSM, whether it trains or not.
DECAYED = (*WSM, "training.weight_decay=0.001")
OPTIONS: dict[tuple[str, ...], Sequence[tuple[str, ...]]] = {
    PLAIN: [
        *((f"loss.name={loss}",) for loss in ("balanced", "fedlc", "fedrs", "logit_adjusted", "masked")),
        ("server_optimizer.name=momentum",),
        *(
            (f"server_optimizer.name={name}", "server_optimizer.lr=0.03")
            for name in ("adam", "yogi", "adagrad")
        ),
        ("server_optimizer.gma=0.4",),
        ("method.name=feddyn",),
        ("method.name=labelwise",),
        ("training.last_batch=drop",),
    ],
    WSM: [(*WSM, "training.label_counts=train_and_validation")],
    DECAYED: [(*DECAYED, f"training.single_class={choice}") for choice in ("no_decay", "skip")],
    SCAFFOLD: [(*SCAFFOLD, "method.option=I")],
    FEDCURV: [
        (*FEDCURV, "method.kept=0.1"),
        (*FEDCURV, "method.labels=sampled"),
        (*FEDCURV, "method.memory=last_round"),
    ],
    FLASHBACK: [
        (*FLASHBACK, "method.knowledge=relative"),
        (*FLASHBACK, "method.knowledge=probabilities"),
        (*FLASHBACK, "method.t_squared=true"),
    ],
}


def label(settings: tuple[str, ...]) -> str:
    """Settings as they are shown."""
    return ", ".join(setting.replace(".name", "") for setting in settings) or "fedavg, ce"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/options"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    asked = parser.parse_args()
    values = read_config(ROOT / "examples/digits.toml")
    lines = [line for base, options in OPTIONS.items() for line in (base, *options)]
    planned = [
        Planned(
            label(line),
            {**apply_settings(values, list(line)), "seed": seed, "name": label(line)},
            asked.out / folder_name(label(line)) / f"seed-{seed}",
        )
        for line in lines
        for seed in asked.seeds
    ]
    runs = execute(planned, asked.jobs)
    rows = {row.title: row for row in Comparison([run.read for run in runs]).rows}
    found = []
    for base, options in OPTIONS.items():
        for line in (base, *options):
            row, default = rows[label(line)], rows[label(base)]
            pairs = zip(row.values["accuracy"], default.values["accuracy"], strict=True)
            mean, low, high = (100 * value for value in student_interval([new - old for new, old in pairs]))
            gained = "" if line == base else f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
            cells = [mean_std(row.values[name], 3) for name in ("accuracy", "forgetting")]
            found.append([label(line), label(base) if gained else "", gained, *cells])
    seeds = ", ".join(map(str, asked.seeds))
    written = {
        "setting": "`examples/digits.toml`: 20 clients with few digits each, 4 in a round, 40 rounds, "
        f"seeds {seeds}; accuracy: mean of the last 10 rounds; forgetting: what a round takes from a class.",
        "headings": ["options", "against", "points of accuracy (95%)", "accuracy", "forgetting"],
        "rows": found,
    }
    TARGET.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(runs)} runs; table in {TARGET}")


if __name__ == "__main__":
    main()

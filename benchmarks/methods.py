"""Accuracy and forgetting of every method, loss and option on digits; writes tables that the docs show.

    python -m benchmarks.methods [section ...] [--out DIR] [--jobs N] [--seeds 0 1 2]

methods: every method with cross-entropy and with WSM (docs/measured/methods-on-digits.json); options: options
that no experiment of the papers uses, each against its default (options-on-digits.json). Finished runs in
--out are not repeated. Options have their defaults, except FedDF's 10,000 steps, meant for larger data.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import ROOT, run_sections, write_measured

from eunoe.analysis.comparison import Arm, Comparison
from eunoe.analysis.statistics import mean_std, paired_interval
from eunoe.config import registry
from eunoe.config.settings import apply_settings, read_config
from eunoe.search.sweep import folder_name, plan
from eunoe.simulation.many import Planned, execute

CONFIG = ROOT / "examples/digits.toml"
SETTING = "`examples/digits.toml`: 20 clients with few digits each, 4 in a round, 40 rounds"
FEDDF = {"name": "feddf", "steps": 300, "every": 50, "patience": 100}


def methods(out: Path, jobs: int, seeds: Sequence[int]) -> None:
    """Every method with cross-entropy and with WSM."""
    # Clients that train alone have no model for the test set, which is nobody's own.
    names = [FEDDF if name == "feddf" else name for name in registry.names("method") if name != "local"]
    planned = plan(read_config(CONFIG), {"method": names, "loss.name": ["ce", "wsm"]}, seeds, out / "methods")
    # Central training minimizes cross-entropy whatever the loss is.
    planned = [run for run in planned if run.label != "method=central, loss=wsm"]
    comparison = Comparison([run.read for run in execute(planned, jobs)])
    rows = {_method_and_loss(row): row for row in comparison.rows}
    # Without the column of seeds, which are the same in every row.
    table = comparison.table(comparison.named(["accuracy", "forgetting", "passes"])).pick([0, 2, 3, 4])
    values = {
        "seeds": list(seeds),
        "headings": table.headings,
        # The work of a client follows from its method and samples, not from the seed.
        "rows": [
            [name, *(cell.removesuffix(" ± 0.00") for cell in cells[1:])]
            for name, cells in zip(rows, table.rows, strict=True)
        ],
    }
    write_measured("methods-on-digits", values)
    fedavg = {loss: rows[f"fedavg + {loss}"].mean("accuracy") for loss in ("ce", "wsm")}
    low = [name for name, row in rows.items() if not row.mean("accuracy") >= fedavg[name.split(" + ")[1]] / 2]
    print(f"below half of FedAvg's accuracy: {', '.join(low) or 'none'}")


def _method_and_loss(row: Arm) -> str:
    """Return the title of a row without the method's options."""
    method, _, loss = row.title.removeprefix("method=").partition(", loss=")
    return f"{method.split()[0]} + {loss}"


FLASHBACK = ("method.name=flashback",)
FEDCURV = ("method.name=fedcurv", "method.weight=0.1")
SCAFFOLD = ("method.name=scaffold",)
WSM = ("loss.name=wsm",)
# Without weight decay a client of one class changes nothing under WSM, whether it trains or not.
DECAYED = (*WSM, "training.weight_decay=0.001")
# Settings to compare, by the settings that they are compared with.
OPTIONS: dict[tuple[str, ...], Sequence[tuple[str, ...]]] = {
    (): [
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


def options(out: Path, jobs: int, seeds: Sequence[int]) -> None:
    """Options that no experiment of the papers uses, each against its default."""
    config = read_config(CONFIG)
    pairs = [(settings, base) for base, others in OPTIONS.items() for settings in (base, *others)]
    planned = [
        Planned(
            _label(settings),
            {**apply_settings(config, list(settings)), "seed": seed, "name": _label(settings)},
            out / "options" / folder_name(_label(settings)) / f"seed-{seed}",
        )
        for settings, _ in pairs
        for seed in seeds
    ]
    by_title = {
        row.title: row.values for row in Comparison([run.read for run in execute(planned, jobs)]).rows
    }
    rows = []
    for settings, base in pairs:
        values, default = by_title[_label(settings)], by_title[_label(base)]
        cells = [mean_std(values[name], 3) for name in ("accuracy", "forgetting")]
        if settings == base:
            rows.append([_label(settings), "", "", *cells])
        else:
            mean, low, high = paired_interval(values["accuracy"], default["accuracy"])
            gain = f"{100 * mean:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            rows.append([_label(settings), _label(base), gain, *cells])
    write_measured(
        "options-on-digits",
        {
            "setting": f"{SETTING}, seeds {', '.join(map(str, seeds))}; accuracy: mean of the last 10 "
            "rounds; forgetting: what a round takes from a class.",
            "headings": ["options", "against", "points of accuracy (95%)", "accuracy", "forgetting"],
            "rows": rows,
        },
    )


def _label(settings: Sequence[str]) -> str:
    return ", ".join(setting.replace(".name", "") for setting in settings) or "fedavg, ce"


if __name__ == "__main__":
    run_sections(__doc__, [methods, options], out=Path("runs/methods"), jobs=2, seeds=(0, 1, 2))

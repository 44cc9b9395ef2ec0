"""Store the rows of a bench in the package's leaderboard: `python -m tools.store_leaderboard FOLDER...`.

FOLDER is the --out of `eunoe bench`. Rows of the same suite, setting, entry and seed are replaced. What the
trials of the design settings say of remedies goes to analysis/remedy_gains.toml, which orders them.
"""

import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from eunoe.analysis.leaderboard import Row
from eunoe.config.settings import to_toml
from eunoe.search.bench import read_stored
from eunoe.system.files import read_lines, replacing, write_text

PACKAGE = Path(__file__).parent.parent / "src/eunoe"
STORED = PACKAGE / "search/leaderboard.json.gz"
GAINS = PACKAGE / "analysis/remedy_gains.toml"
HEAD = """\
# What remedies gain in the design settings of the leaderboard, in points of validation accuracy over
# FedAvg at the setting's own learning rate: the better of the newest and the averaged model, each given by
# its best checkpoint, on the search seed. `clients`: label skew, samples per client, clients in a round.
# Written by tools/store_leaderboard.py.

"""
# The trials that show a remedy: entry and number of the point, without and with averaging.
TRIALS = {
    "averaging": [("averaging", 1)],
    "a third of the learning rate": [("fedavg", 0), ("averaging", 0)],
    "three times the learning rate": [("fedavg", 2), ("averaging", 2)],
    "ten times the learning rate": [("fedavg", 3)],
    "wsm": [("wsm", 1), ("wsm + averaging", 1)],
    "wsm, three times the learning rate": [("wsm", 2), ("wsm + averaging", 2)],
    "logit adjustment": [("logit adjustment", 0)],
    "fedacg, a third of the learning rate": [("fedacg", 1), ("fedacg + averaging", 1)],
    "fedacg with momentum 0.5, half of the learning rate": [("fedacg", 3), ("fedacg + averaging", 3)],
    "scaffold with server momentum": [("scaffold", 3)],
    "server momentum": [("server momentum", 0)],
    "fedntd": [("fedntd", 1)],
    "fedprox": [("fedprox", 0)],
    "fedsam": [("fedsam", 1)],
}


def store_rows(rows: Iterable[Row], path: Path = STORED) -> None:
    """Add rows to a stored table."""
    old = gzip.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []

    def key(row: Row) -> tuple[str, str, str, int]:
        return row["suite"], row["setting"], row["entry"], row.get("seed", -1)

    merged = {key(row): row for row in [*map(json.loads, old), *rows]}
    text = "".join(f"{json.dumps(merged[each])}\n" for each in sorted(merged))
    with replacing(path) as partial:
        # Without the time, so that the same rows make the same file.
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


def remedy_gains(rows: Sequence[Row]) -> str:
    """Return the text of remedy_gains.toml."""
    settings = []
    searched = [row for row in rows if row.get("half") == "design" and "trials" in row]
    for setting in dict.fromkeys(row["setting"] for row in searched):
        trials = {row["entry"]: row["trials"] for row in searched if row["setting"] == setting}
        clients = next(row["clients"] for row in searched if row["setting"] == setting)
        gains = {
            remedy: round(
                100 * (max(trials[entry][point] for entry, point in known) - trials["fedavg"][1]), 1
            )
            for remedy, shown in TRIALS.items()
            if (known := [(entry, point) for entry, point in shown if len(trials.get(entry, ())) > point])
        }
        rounded = [float(f"{number:.3g}") for number in clients]
        facts = to_toml({"name": setting, "clients": rounded})
        settings.append(f"[[setting]]\n{facts}\n[setting.gains]\n{to_toml(gains)}")
    return HEAD + "\n".join(settings)


if __name__ == "__main__":
    store_rows(row for folder in sys.argv[1:] for row in read_lines(Path(folder) / "results.jsonl"))
    write_text(GAINS, remedy_gains(read_stored()))

"""The tables of docs/leaderboard.md and docs/remedies.md and the rows of the README, from the stored
leaderboard; `make docs` writes them anew."""

import re
from pathlib import Path

from eunoe.analysis import remedies
from eunoe.analysis.leaderboard import Leaderboard
from eunoe.analysis.tables import Table
from eunoe.search.bench import read_stored, stored_board
from eunoe.search.suite import load_suite, suite_names

RECOMMENDED = remedies.REMEDIES["preset"].name
PAGE = Path(__file__).parent / "leaderboard.md"
REMEDIES = PAGE.with_name("remedies.md")
README = PAGE.parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- leaderboard -->\n).*?(?=<!-- end of leaderboard -->)", re.DOTALL)
SHOWN = 5
# What the recommended preset is compared with.
RIVALS = ("fedavg", "averaging", "wsm", "fedcurv", "scaffold", "fedntd")


def boards() -> dict[str, Leaderboard]:
    """Return the leaderboards of all suites with stored rows."""
    suites = {row["suite"] for row in read_stored()}
    return {name: stored_board(load_suite(name)) for name in suite_names() if name in suites}


def page_tables() -> str:
    """Return a table for each suite, and the settings that no entry has run in yet."""
    parts = []
    for name, board in boards().items():
        left = [each.name for each in load_suite(name).setting if each.name not in board.settings]
        missing = f"\n\nNot run yet: {'; '.join(left)}." if left else ""
        parts.append(f"### {name}\n\n{_markdown(board.table())}{missing}")
    return "\n" + "\n\n".join(parts) + "\n\n"


def preset_table() -> str:
    """Return how the recommended preset does in the judging settings."""
    rows = [row for row in read_stored() if row.get("half") == "judging" and row["suite"] != "public"]
    names = list(dict.fromkeys(row["setting"] for row in rows if row["entry"] == RECOMMENDED))
    board = Leaderboard("", rows, names)
    cells = []
    for rival in RIVALS:
        gains = [Leaderboard("", rows, [name]).difference(RECOMMENDED, rival) for name in names]
        better, worse = (sum(getattr(gain, sign) for gain in gains) for sign in ("positive", "negative"))
        mean = board.difference(RECOMMENDED, rival).points("")
        judged = sum(gain.mean == gain.mean for gain in gains)
        cells.append([rival, mean, str(better), str(worse), str(judged - better - worse)])
    table = Table(["against", "points", "better in", "worse in", "undecided"], cells)
    return f"{table.markdown()}\n\nJudging settings: {'; '.join(names)}.\n"


def readme_table() -> str:
    """Return the first rows of a suite, and FedAvg: core if more of its settings are stored than of quick."""
    stored = boards()
    name = max(
        [each for each in ("core", "quick") if each in stored], key=lambda each: len(stored[each].settings)
    )
    table = stored[name].table()
    names = [each.name for each in stored[name].standings]
    rows = [row for at, row in enumerate(table.rows) if at < SHOWN or names[at] == "fedavg"]
    columns = ("entry", "gain", "forgetting", "bytes")
    picked = Table(table.headings, rows).pick([table.headings.index(column) for column in columns])
    seeds = len({row["seed"] for row in stored[name].rows if "seed" in row})
    words = (
        f"Suite `{name}`: {len(stored[name].settings)} settings, {len(names)} entries with four trials each, "
        f"{seeds} fresh seeds, best checkpoints on validation data."
    )
    return f"{picked.markdown()}\n\n{words}\n"


def _markdown(table: Table) -> str:
    return f"{table.markdown()}\n\n{table.note}."


if __name__ == "__main__":
    for path, text in ((PAGE, page_tables()), (README, readme_table()), (REMEDIES, preset_table())):
        path.write_text(BLOCK.sub(lambda _, text=text: text, path.read_text("utf-8")), "utf-8")

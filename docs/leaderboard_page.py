"""The tables of docs/leaderboard.md and the rows of the README, from the stored leaderboard; `make docs`
writes them anew."""

import re
from pathlib import Path

from eunoe.analysis.leaderboard import Leaderboard
from eunoe.analysis.tables import Table
from eunoe.search.bench import read_stored, stored_board
from eunoe.search.suite import load_suite, suite_names

PAGE = Path(__file__).parent / "leaderboard.md"
README = PAGE.parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- leaderboard -->\n).*?(?=<!-- end of leaderboard -->)", re.DOTALL)
SHOWN = 5


def boards() -> dict[str, Leaderboard]:
    """Return the leaderboards of all suites with stored rows."""
    suites = {row["suite"] for row in read_stored()}
    return {name: stored_board(load_suite(name)) for name in suite_names() if name in suites}


def page_tables() -> str:
    """Return a table for each suite."""
    parts = [f"### {name}\n\n{_markdown(board.table())}" for name, board in boards().items()]
    return "\n" + "\n\n".join(parts) + "\n\n"


def readme_table() -> str:
    """Return the first rows of a suite, and FedAvg: core if it is stored, else quick."""
    stored = boards()
    name = "core" if "core" in stored else "quick"
    if name not in stored:
        return ""
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
    for path, text in ((PAGE, page_tables()), (README, readme_table())):
        path.write_text(BLOCK.sub(lambda _, text=text: text, path.read_text("utf-8")), "utf-8")

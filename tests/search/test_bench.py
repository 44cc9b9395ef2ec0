"""The bench: every entry with the same trials, fresh seeds, continuing, and what does not apply."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tools.store_leaderboard import store_rows

from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.search.bench import read_stored, run_bench, stored_settings
from eunoe.search.halving import Callbacks
from eunoe.search.suite import Entry, Point, Suite, load_entries, load_suite, method_entry, suite_names
from eunoe.simulation.build import assemble
from eunoe.simulation.many import Planned
from eunoe.simulation.user_objects import apply_preset
from tests.cli.command import eunoe

SUITE = Suite.model_validate(
    {
        "name": "mini",
        "title": "One setting",
        "search_seed": 100,
        "seeds": [0, 1],
        "config": {"data": "digits", "rounds": 3, "model": "logistic", "training": {"epochs": 1, "lr": 1e-4}},
        "setting": [{"name": "two of twenty", "half": "design", "config": {"participation": 2}}],
    }
)
FASTER = Entry(name="faster", points=(Point(lr=1e-3), Point(lr=3000.0)))
NEEDY = Entry(name="needy", config={"method": "flashback"})


def test_an_entry_is_tuned_on_one_seed_and_run_on_fresh_ones(tmp_path: Path) -> None:
    board = run_bench(SUITE, [FASTER, NEEDY], tmp_path, stored=[])
    assert board.standings[0].name == "faster"
    assert board.standings[-1].missing["two of twenty"].startswith("method 'flashback'") or (
        "public" in board.standings[-1].missing["two of twenty"]
    )
    rows = [row for row in board.rows if row["entry"] == "faster"]
    assert [row["seed"] for row in rows] == [0, 1]
    assert {row["point"] for row in rows} == {1}
    folders = {path.name for path in (tmp_path / "runs" / "mini" / "two_of_twenty").rglob("seed-*")}
    assert folders == {"seed-0", "seed-1", "seed-100"}
    # The same table from the same folder; nothing runs again.
    again = run_bench(SUITE, [FASTER, NEEDY], tmp_path, stored=[], callbacks=Callbacks(on_round=refuse))
    assert again.table() == board.table()


def refuse(planned: Planned, record: dict[str, Any] | None) -> None:
    raise AssertionError(planned.folder)


def test_a_bench_that_was_cut_off_continues(tmp_path: Path) -> None:
    whole = run_bench(SUITE, [FASTER], tmp_path / "whole", stored=[])
    count = 0

    def stop(planned: Planned, record: dict[str, Any] | None) -> None:
        nonlocal count
        count += record is not None
        if count == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_bench(SUITE, [FASTER], tmp_path / "cut", stored=[], callbacks=Callbacks(on_round=stop))
    assert run_bench(SUITE, [FASTER], tmp_path / "cut", stored=[]).table() == whole.table()


def test_stored_entries_are_not_run_again(tmp_path: Path) -> None:
    first = run_bench(SUITE, [], tmp_path / "stored", stored=[])
    store_rows(first.rows, tmp_path / "table.gz")
    store_rows(first.rows, tmp_path / "again.gz")
    assert (tmp_path / "table.gz").read_bytes() == (tmp_path / "again.gz").read_bytes()
    board = run_bench(SUITE, [FASTER], tmp_path / "new", stored=first.rows)
    assert {each.name for each in board.standings} == {"fedavg", "faster"}
    assert not list((tmp_path / "new" / "runs").rglob("fedavg*"))


def test_a_method_of_ones_own_gets_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bench_method.py").write_text("from eunoe.methods.fedprox import FedProx as Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    suite = SUITE.model_dump(exclude={"name"}, exclude_none=True)
    lines = [f"title = '{suite['title']}'", "search_seed = 100", "seeds = [0, 1]"]
    lines += ["[config]", "data = 'digits'", "rounds = 2", "model = 'logistic'"]
    lines += ["[[setting]]", "name = 'a'", "half = 'design'", "config = {participation = 2}"]
    Path("mini.toml").write_text("\n".join(lines))
    done = eunoe("bench", "mini.toml", "--method", "bench_method:Mine", "--jobs", 1)
    sys.modules.pop("bench_method", None)
    assert done.code == 0, done.error
    assert "mine is " in done.out
    assert (tmp_path / "runs" / "bench" / "mini.html").exists()


def test_every_suite_and_entry_is_valid() -> None:
    assert suite_names() == ["core", "natural", "public", "quick"]
    entries = load_entries()
    assert len({entry.name for entry in entries}) == len(entries) >= 15
    quick = load_suite("quick")
    for entry in entries:
        for point in entry.points:
            assemble(make_config(apply_preset(entry.apply(quick.values(quick.setting[0]), point))))
    public = load_suite("public", "alpha 0.1")
    for entry in public.entries:
        for point in entry.points:
            assemble(make_config(entry.apply(public.values(public.setting[0]), point)))
    core = load_suite("core")
    assert len(core.setting) == 12
    assert sum(setting.half == "design" for setting in core.setting) == 6
    assert all(row["suite"] in suite_names() for row in read_stored())


def test_settings_without_stored_rows_are_left_out() -> None:
    quick = load_suite("quick")
    rows = [row for row in read_stored() if row["setting"] == quick.setting[1].name]
    assert [setting.name for setting in stored_settings(quick, rows)] == ["alpha 0.5, 2 of 20"]
    assert [setting.name for setting in load_suite("quick", "two").setting] == ["two classes each, 3 of 30"]


def test_a_stored_row_is_repeated_by_name(tmp_path: Path) -> None:
    done = eunoe("bench", "quick", "--repeat", "wsm", "--only", "1 epoch", "--out", tmp_path, "--jobs", 1)
    assert done.code == 0, done.error
    cells = [cell.strip() for cell in done.out.splitlines()[-2].split("│")]
    assert cells[1] == "unequal sizes, 1 epoch, 5 of 20"
    assert float(cells[3]) == pytest.approx(float(cells[4]), abs=0.02)
    unknown = eunoe("bench", "quick", "--repeat", "wms")
    assert "has no stored entry 'wms': did you mean 'wsm'?" in unknown.error


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"setting": "a"}', "has no 'suite'"),
        ('{"suite": "s", "setting": "a", "entry": "b", "accuracy": 0.5}', "has no 'seed'"),
        ('{"suite": "s", "setting": "a", "entry": "b", "accuracy": []}', "accuracy: input should be"),
    ],
)
def test_results_that_do_not_fit_get_one_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "results.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError, match=says):
        run_bench(SUITE, [], tmp_path, stored=[])


def test_wrong_input_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no suite 'quik': did you mean 'quick'\?"):
        load_suite("quik")
    (tmp_path / "my.toml").write_text("config = {loss = 'wsm'}\npoints = [{lr = -1}]\n")
    with pytest.raises(InputError, match=r"my\.toml: points\.0\.lr"):
        load_entries(tmp_path / "my.toml")
    for text in ("entry = 3", "entry = [3]"):
        (tmp_path / "my.toml").write_text(text)
        with pytest.raises(InputError, match=r"my\.toml: entry is not a list of sections"):
            load_entries(tmp_path / "my.toml")
    for rounds in ("'x'", "{}"):
        about = "title = 't'\nsearch_seed = 0\nseeds = [1]\nsetting = [{name = 'a', half = 'design', "
        (tmp_path / "my.toml").write_text(f"{about}config = {{rounds = {rounds}}}}}]")
        suite = load_suite(str(tmp_path / "my.toml"))
        with pytest.raises(InputError, match="rounds"):
            suite.values(suite.setting[0])
    assert method_entry("package.module:Mine").name == "mine"
    nothing = eunoe("bench", "quick")
    assert nothing.code == 2
    assert "pass --entry, --method or --all" in nothing.error

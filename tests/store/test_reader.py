"""Run folders as records: labels, missing numbers, files still being written."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eunoe.errors import Damaged, InputError
from eunoe.store.reader import find_folders, read_run, read_runs
from eunoe.store.run_records import numbers
from eunoe.store.schema import LocalPerClassRecord, validate
from eunoe.system.files import plain

LINES = [
    {"schema": 1, "round": 1, "test": {"accuracy": 0.5, "loss": 1.0, "per_class": [0.5, None]}},
    {"schema": 1, "round": 2, "forgetting": {"round": None, "fedntd": None}},
    {
        "schema": 1,
        "round": 3,
        "test": {"accuracy": 0.4, "loss": 0.9, "per_class": [0.4, None]},
        "forgetting": {"round": 0.1, "fedntd": 0.1},
    },
]


def write(folder, config='[data]\nname = "digits"\n', lines=LINES, tail=""):
    folder.mkdir()
    (folder / "config.toml").write_text(config)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return folder


def test_numbers_and_back():
    assert plain(numbers([[1, None], [0.5, 2]])) == [[1.0, None], [0.5, 2.0]]
    assert plain(math.nan) is None


def test_a_folder_gives_arrays_of_the_measured_rounds(tmp_path):
    run = read_run(write(tmp_path / "a", tail='{"schema": 1, "rou'))
    assert run.rounds == [1, 3]
    np.testing.assert_array_equal(run.curve("accuracy"), [0.5, 0.4])
    np.testing.assert_array_equal(run.per_class, [[0.5, np.nan], [0.4, np.nan]])
    np.testing.assert_array_equal(run.forgetting("round"), [np.nan, 0.1])
    assert run.part == "test"
    assert run.names(2) == ["0", "1"]


def test_a_path_gives_the_records_that_have_a_value_there(tmp_path):
    own = {"schema": 1, "round": 4, "mine": 0.5, "parts": {"a": 1, "b": "text"}, "clients": [3, 5]}
    run = read_run(write(tmp_path / "a", lines=[*LINES, own]))
    rows, values = run.known("test", "accuracy")
    assert (rows.tolist(), values) == ([0, 2], [0.5, 0.4])
    assert run.known("forgetting", "round")[0].tolist() == [2]
    assert run.known("clients")[1] == [[3, 5]]
    for path in (("nothing",), ("mine", "nothing"), ("nothing", "at", "all")):
        assert run.known(*path)[1] == []
    assert run.own_metrics == ["mine", "parts.a"]
    assert run.series("mine")[0].tolist() == [4]
    assert run.latest("test.accuracy") == 0.4


def test_validation_stands_in_for_a_missing_test_set(tmp_path):
    lines = [{"schema": 1, "round": 1, "validation": {"accuracy": 0.7, "loss": 1.0}, "test": None}]
    run = read_run(write(tmp_path / "a", lines=lines))
    assert run.part == "validation"
    assert run.curve("accuracy").tolist() == [0.7]
    assert run.per_class.size == 0


@pytest.mark.parametrize(
    ("lines", "tail", "message"),
    [
        ([], "", "no finished round"),
        (LINES[:1], "nonsense\n{}\n", "line 2 .* is not JSON"),
        ([{"schema": 9, "round": 1}], "", "schema 9; this version of eunoe reads schema 1"),
    ],
)
def test_a_folder_that_cannot_be_read_is_explained(tmp_path, lines, tail, message):
    with pytest.raises(InputError, match=message):
        read_run(write(tmp_path / "a", lines=lines, tail=tail))


def test_seeds_share_a_label_and_other_settings_do_not(tmp_path):
    same = [write(tmp_path / f"s{seed}", f"seed = {seed}\n") for seed in (0, 1)]
    default = write(tmp_path / "default", "seed = 2\nparticipation = 0.1\n")
    other = write(tmp_path / "longer", "rounds = 77\n")
    labels = [run.label for run in read_runs([*same, default, other])]
    assert labels[0] == labels[1] == labels[2]
    assert labels[0] == "fedavg, rounds=100"
    assert labels[3] == "fedavg, rounds=77"
    assert [run.label for run in read_runs([*same, other], ["short", "long"])] == ["short", "short", "long"]
    for names in (["one"], ["same", "same"], ["a", "b", "c"]):
        with pytest.raises(InputError, match="needs 2 different names"):
            read_runs([*same, other], names)


def test_a_loss_that_all_runs_share_is_not_named(tmp_path):
    texts = {name: f"method = '{name}'\n" for name in ("fedavg", "scaffold")} | {"wsm": "loss = 'wsm'\n"}
    folders = [write(tmp_path / name, text) for name, text in texts.items()]
    assert [run.label for run in read_runs(folders[:2])] == ["fedavg", "scaffold"]
    assert [run.label for run in read_runs(folders)] == ["fedavg · ce", "scaffold · ce", "fedavg · wsm"]


def test_options_that_a_configuration_lacks_are_not_named(tmp_path):
    schedule = write(tmp_path / "one", "participation = {start = 1, end = 3}\n")
    labels = [run.label for run in read_runs([schedule, write(tmp_path / "two", "participation = 2\n")])]
    over = "participation.over=100, participation.start=1"
    assert labels == [f"fedavg, participation.end=3, {over}", "fedavg, participation=2"]


def test_runs_are_found_by_what_they_recorded(tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    (app / "config.toml").write_text("rounds = 5\n")
    with pytest.raises(InputError, match="app contains no run"):
        find_folders([app])
    watched, begun = write(app / "run"), tmp_path / "begun"
    begun.mkdir()
    for name in ("config.toml", "status.json"):
        (begun / name).touch()
    assert find_folders([app, tmp_path]) == [watched, watched, begun]


def test_numbers_by_client_are_kept_of_the_last_rounds_that_have_them(tmp_path):
    config = '[data]\nname = "digits"\n[evaluation]\nlast = 3\n'
    lines = [
        {"schema": 1, "round": round, "clients": [1], "loss_before": [2.0], "update_norms": [0.5]}
        | ({"client_test": {"accuracy": 0.5, "by_client": {"accuracy": [round / 10]}}} if round % 2 else {})
        for round in range(1, 9)
    ]
    folder = write(tmp_path / "a", config, lines)
    assert list(read_run(folder).metrics) == lines
    part = read_run(folder, whole=False)
    # Of rounds 1, 3, 5 and 7, the last three rounds up to 7 are 5 to 7.
    positions, values = part.known("client_test", "by_client", "accuracy")
    assert (positions.tolist(), values) == ([4, 6], [[0.5], [0.7]])
    assert part.final("client_test.by_client.accuracy") == read_run(folder).final(
        "client_test.by_client.accuracy"
    )
    assert part.series("client_test.accuracy")[0].tolist() == [1, 3, 5, 7]
    assert part.known("clients")[1] == [[1]] * 8
    assert not part.known("loss_before")[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda probe: probe.update(begin=probe.pop("start")), "has no 'start'"),
        (lambda probe: probe["local"].pop(), "'local' does not fit 'clients' and 'start'"),
        (lambda probe: probe["merged"].append(0.5), "'merged' does not fit 'start'"),
        (lambda probe: probe["merged"].__setitem__(0, 1e308), "merged"),
        (lambda probe: probe.clear(), "has no 'round'"),
    ],
)
def test_a_probe_that_does_not_fit_the_schema_is_one_line(
    change: Callable[[dict[str, Any]], object], message: str
) -> None:
    probe = {"round": 1, "probe": "local_per_class", "clients": [3, 5]}
    probe |= {"start": [0.5, 0.5], "local": [[0.1, 0.2], [0.3, None]], "merged": [0.5, 0.6]}
    assert validate(probe, LocalPerClassRecord, "probes.jsonl") is probe
    change(probe)
    with pytest.raises(Damaged, match=message):
        validate(probe, LocalPerClassRecord, "probes.jsonl")

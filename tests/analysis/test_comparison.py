"""Runs side by side: numbers by hand, groups of seeds, and three ways to write a table."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eunoe.analysis.comparison import COLUMNS, MAIN, Arm, Column, Comparison, Paired, legend, numbers
from eunoe.analysis.statistics import paired_interval
from eunoe.config.settings import to_toml
from eunoe.errors import InputError
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords

TWO = MAIN


def opened(folder: Path) -> RunRecords:
    return read_run(folder, begun=False)


def table(
    runs: Sequence[RunRecords], columns: Sequence[Column] | None = None
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    made = Comparison(runs).table(columns)
    return made.headings, made.rows


def made_up(folder: Path, accuracies: list[float], state: str = "finished", **values: Any) -> RunRecords:
    """A run folder with these test accuracies, one per round."""
    folder.mkdir(parents=True)
    training = {"epochs": 2, "batch_size": 10}
    config = {"rounds": max(len(accuracies), 1), "evaluation": {"last": 2}, "training": training, **values}
    (folder / "config.toml").write_text(to_toml(config))
    (folder / "status.json").write_text(
        json.dumps({"state": state, "round": len(accuracies), "reason": "", "seconds": 12.5})
    )
    lines = [
        {
            "round": round,
            "sizes": [10, 15],
            "steps": [2, 4],
            "bytes_up": 2_000_000,
            "bytes_down": 4_000_000,
            "forwards": 100,
            "backwards": 50,
            "test": {"accuracy": accuracy},
            "validation": {"accuracy": 0.0, "clients": {"worst_tenth": accuracy / 2}},
            "forgetting": {"round": None if round == 1 else 0.1 * round, "fedntd": 0.25},
        }
        for round, accuracy in enumerate(accuracies, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return opened(folder)


def test_the_numbers_of_a_run_by_hand(tmp_path: Path) -> None:
    found = numbers(made_up(tmp_path / "run", [0.2, 0.4, 0.8]))
    # Client 1 takes 2 steps, 2 epochs of 10 samples; client 2 takes 4, 2 epochs of 15: 50 samples trained on.
    assert found == {
        "accuracy": pytest.approx(0.6),
        "forgetting": pytest.approx(0.25),
        "fedntd": pytest.approx(0.25),
        "worst_tenth": pytest.approx(0.3),
        # What was not measured.
        **dict.fromkeys(
            (
                *("score", "retention", "balanced_accuracy", "sent_forgetting", "client_test"),
                *("without_prior", "with_prior", "epsilon"),
            ),
            pytest.approx(float("nan"), nan_ok=True),
        ),
        "up": 2.0,
        "down": 4.0,
        "passes": pytest.approx((100 + 2 * 50) / (3 * 50)),
        "seconds": 12.5,
    }
    assert {column.metric for column in COLUMNS if "classification" in column.tasks} == set(found)


@pytest.mark.parametrize(
    ("training", "sizes", "steps", "samples"),
    [
        ({"epochs": 3, "last_batch": "drop"}, [450], [21], 3 * 448),
        ({"steps": 3}, [450], [3], 3 * 64),
        # Batch normalization joins the last sample to the batch before.
        ({"epochs": 3, "batch_size": 10}, [21], [6], 3 * 21),
    ],
    ids=["drop", "steps", "joined"],
)
def test_plain_training_is_one_pass(
    tmp_path: Path, training: dict[str, Any], sizes: list[int], steps: list[int], samples: int
) -> None:
    run = made_up(tmp_path / "run", [0.5], training=training)
    record = {**run.metrics[0], "sizes": sizes, "steps": steps, "forwards": samples, "backwards": samples}
    (tmp_path / "run" / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    assert numbers(opened(tmp_path / "run"))["passes"] == 1


def test_seeds_make_one_row(tmp_path: Path) -> None:
    runs = [
        made_up(tmp_path / str(seed), [0.0, value, value], seed=seed) for seed, value in enumerate((0.4, 0.6))
    ]
    headings, rows = table(runs, TWO)
    assert headings == ["run", "seeds", "accuracy", "forgetting"]
    assert rows == [["fedavg · ce", "2", "0.500 ± 0.141", "0.2500 ± 0.0000"]]


def test_only_runs_that_differ_in_their_seed_alone_are_averaged(tmp_path: Path) -> None:
    runs = [
        made_up(tmp_path / "a", [0.5, 0.5], training={"lr": 0.1}),
        made_up(tmp_path / "b", [0.7, 0.7], training={"lr": 0.2}),
        made_up(tmp_path / "c", [0.9, 0.9], loss={"name": "wsm"}),
        made_up(tmp_path / "d", [0.5, 0.5], training={"lr": 0.1}, seed=1, engine={"name": "serial"}),
    ]
    rows = table(runs, TWO[:1])[1]
    assert rows == [
        ["fedavg · ce, training.lr=0.1", "2", "0.500 ± 0.000"],
        ["fedavg · ce, training.lr=0.2", "1", "0.700"],
        ["fedavg · wsm", "1", "0.900"],
    ]


def test_one_seed_run_twice_is_one_seed(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / name, [0.5, 0.5]) for name in "ab"]
    assert table(runs, TWO[:1])[1][0][1] == "1"


def test_a_run_that_diverged_is_not_converged(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / "0", [0.5, 0.5]), made_up(tmp_path / "1", [0.5, 0.5], "diverged", seed=1)]
    columns = (*TWO, Column("seconds", "seconds", 1))
    assert table(runs, columns)[1] == [["fedavg · ce", "2", "NC", "NC", "12.5 ± 0.0"]]


def test_a_run_that_broke_off_for_another_reason_has_failed(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / "0", [0.5, 0.5]), made_up(tmp_path / "1", [0.5, 0.5], "failed", seed=1)]
    assert table(runs, TWO)[1] == [["fedavg · ce", "2", "failed", "failed"]]


def test_a_run_that_has_not_begun_has_no_numbers(tmp_path: Path) -> None:
    made_up(tmp_path / "run", [])
    (tmp_path / "run" / "config.toml").write_text("rounds = 5\n")
    assert table([opened(tmp_path / "run")], TWO)[1] == [["fedavg · ce", "1", "–", "–"]]


def test_the_legend_says_where_runs_are_of_different_length(tmp_path: Path) -> None:
    short, long = made_up(tmp_path / "a", [0.1, 0.2]), made_up(tmp_path / "b", [0.1, 0.2, 0.3])
    assert legend([short, long]).startswith("the runs are of different length: 2, 3 rounds; ")
    assert legend([short, short]).startswith("accuracy on the test set")


def test_accuracy_with_priors_is_shown_where_a_run_has_it(tmp_path: Path) -> None:
    plain, personal = made_up(tmp_path / "a", [0.5]), made_up(tmp_path / "b", [0.5], seed=1, name="b")
    record = {**personal.metrics[0], "personal": {"clients": 2, "without_prior": 0.25, "with_prior": 0.75}}
    (tmp_path / "b/metrics.jsonl").write_text(json.dumps(record) + "\n")
    assert "with prior" not in table([plain])[0]
    headings, rows = table([plain, opened(tmp_path / "b")])
    at = headings.index("on own mix")
    assert headings[at : at + 2] == ["on own mix", "with prior"]
    assert [row[at : at + 2] for row in rows] == [["–", "–"], ["0.250", "0.750"]]


def test_accuracy_on_the_clients_own_tests_is_shown_where_a_run_has_it(tmp_path: Path) -> None:
    run = made_up(tmp_path / "run", [0.5, 0.5])
    records = [{**r, "client_test": {"accuracy": 0.2 * r["round"]}} for r in run.metrics]
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    headings, rows = table([opened(tmp_path / "run")])
    assert rows[0][headings.index("on clients' tests")] == "0.300"
    assert "on clients' tests" not in table([made_up(tmp_path / "b", [0.5])])[0]


def test_an_option_at_its_default_does_not_tell_runs_apart(tmp_path: Path) -> None:
    old, new = made_up(tmp_path / "a", [0.5]), made_up(tmp_path / "b", [0.7], seed=1, participation=0.1)
    assert [row[:3] for row in table([old, new], TWO)[1]] == [["fedavg · ce", "2", "0.600 ± 0.141"]]


def with_own(folder: Path, **own: Any) -> RunRecords:
    """A run of two rounds with metrics of the user's own in its second."""
    first, second = made_up(folder, [0.5, 0.5]).metrics
    lines = [first, {**second, **own}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return opened(folder)


def test_metrics_of_the_users_own_have_columns(tmp_path: Path) -> None:
    run = with_own(tmp_path / "run", auroc=0.75, shift={"mean": 2.0, "names": ["a"]})
    assert run.own_metrics == ["auroc", "shift.mean"]
    headings, [row] = table([run])
    assert (headings[-2:], row[-2:]) == (["auroc", "shift.mean"], ["0.7500", "2.0000"])
    other = made_up(tmp_path / "other", [0.5, 0.5], name="other")
    assert [row[-2] for row in table([run, other])[1]] == ["0.7500", "–"]
    assert "own metrics: mean of the last 2 rounds" in legend([run], [Column("auroc", "auroc", path="auroc")])


def test_rows_have_numbers(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / str(seed), [0.0, x, x], seed=seed) for seed, x in enumerate((0.4, 0.6))]
    [row] = Comparison(runs).rows
    assert (row.title, row.seeds, row.ended) == ("fedavg · ce", (0, 1), "")
    assert row.mean("accuracy") == pytest.approx(0.5)
    assert row.values["accuracy"] == pytest.approx([0.4, 0.6])
    assert math.isnan(row.mean("with_prior"))
    [row] = Comparison([made_up(tmp_path / "nc", [0.5], "diverged")]).rows
    assert math.isnan(row.mean("accuracy"))
    assert row.mean("seconds") == 12.5


def test_a_comparison_is_text_and_html(tmp_path: Path) -> None:
    made = Comparison([made_up(tmp_path / "run", [0.0, 0.5, 0.5], name="<b>")])
    assert repr(made).splitlines() == [
        "run  seeds  accuracy  forgetting",
        "---  -----  --------  ----------",
        "<b>      1     0.500      0.2500",
    ]
    assert ">seconds</th>" in made._repr_html_()
    assert "&lt;b&gt;" in made._repr_html_()


def test_columns_are_named_by_title_or_metric(tmp_path: Path) -> None:
    made = Comparison([made_up(tmp_path / "run", [0.5])])
    assert [column.metric for column in made.find_columns(["worst tenth", "up"])] == ["worst_tenth", "up"]
    with pytest.raises(InputError, match="no column 'accurcy': did you mean 'accuracy'"):
        made.find_columns(["accurcy"])


def test_where_models_are_averaged_the_forgetting_of_both_is_shown(tmp_path: Path) -> None:
    plain = made_up(tmp_path / "plain", [0.2, 0.4])
    mean = made_up(tmp_path / "mean", [0.2, 0.4, 0.4], averaging={"decay": 0.9})
    lines = [
        {**line, "sent": {"test": {"accuracy": 0.3}, "forgetting": {"round": lost}}}
        for line, lost in zip(mean.metrics, (None, 0.5, 0.25), strict=True)
    ]
    (tmp_path / "mean" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    headings, rows = table([plain, opened(tmp_path / "mean")], MAIN)
    assert headings[2:] == ["accuracy", "forgetting", "forgetting of clients' model"]
    # (0.2 + 0.3) / 2 of the mean and (0.5 + 0.25) / 2 of the newest model.
    assert rows == [
        ["fedavg", "1", "0.300", "0.2000", "–"],
        ["fedavg + averaging", "1", "0.400", "0.2500", "0.3750"],
    ]
    # Without averaging there is no such column.
    assert table([plain], MAIN)[0][2:] == ["accuracy", "forgetting"]
    assert "sent" not in opened(tmp_path / "mean").own_metrics


def test_one_seed_or_unequal_ones_are_refused() -> None:
    with pytest.raises(InputError, match="at least two seeds"):
        paired_interval([0.5], [0.4])
    with pytest.raises(InputError, match="2 and 1 values cannot be paired"):
        paired_interval([0.5, 0.6], [0.4])
    one, two = Arm("one", (0, 1), "", {}), Arm("two", (1, 2), "", {})
    with pytest.raises(InputError, match="two has seeds 1, 2 and one has 0, 1: paired differences"):
        Paired([one, two])
    with pytest.raises(InputError, match="at least two seeds"):
        Paired([Arm("one", (0,), "", {}), Arm("two", (0,), "", {})]).difference("two")
    with pytest.raises(InputError, match="at least two configurations"):
        Paired([one])


def test_runs_are_paired_by_their_seed_whatever_their_order(tmp_path: Path) -> None:
    runs = [
        made_up(tmp_path / "a1", [0.4, 0.5], seed=1),
        made_up(tmp_path / "a0", [0.2, 0.3], seed=0),
        made_up(tmp_path / "b0", [0.3, 0.4], seed=0, loss="wsm"),
        made_up(tmp_path / "b1", [0.5, 0.6], seed=1, loss="wsm"),
    ]
    paired = Comparison(runs).paired()
    gain = paired.difference("fedavg · wsm")
    assert (gain.mean, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))
    reference, other = paired.table([Column("accuracy", "accuracy")]).rows
    assert reference == ["fedavg · ce", "2", "0.350 ± 0.141", ""]
    assert other == ["fedavg · wsm", "2", "+0.100 [+0.100, +0.100]", "yes"]
    assert "+0.100" in repr(paired)
    with pytest.raises(InputError, match="no configuration 'x' to compare with 'fedavg · ce'"):
        paired.difference("x")
    with pytest.raises(InputError, match="several runs with the same seed"):
        Comparison([runs[0], *runs]).paired()


def test_a_run_that_diverged_has_no_difference(tmp_path: Path) -> None:
    runs = [made_up(tmp_path / f"a{seed}", [0.4], seed=seed) for seed in (0, 1)]
    runs += [made_up(tmp_path / "b0", [0.9], seed=0, loss="wsm")]
    runs += [made_up(tmp_path / "b1", [0.9], "diverged", seed=1, loss="wsm")]
    (_, other) = Comparison(runs).paired().table([Column("accuracy", "accuracy")]).rows
    assert other[2:] == ["–", "no"]

"""The partition figure's data, order and colors, and that it renders."""

import re
from typing import Any

import numpy as np

from eunoe.report.figures.partition import COLORS, partition_chart

COUNTS = np.array([[3, 0, 1], [0, 5, 5]])


def data_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    (rows,) = spec["datasets"].values()
    return rows


def test_shares_and_sizes_of_the_classes_that_clients_have() -> None:
    spec = partition_chart({"half": COUNTS}, [4, 9], ["cat", "dog", "owl"]).to_dict()
    rows = [(row["client"], row["class"], row["share"]) for row in data_of(spec)]
    assert rows == [(4, "cat", 0.75), (4, "owl", 0.25), (9, "dog", 0.5), (9, "owl", 0.5)]
    assert data_of(spec)[0]["label"] == "Client 4: 3 of class cat (75.0%)"
    assert spec["title"] == "half"
    assert "2.0 classes per client" in spec["description"]
    scale = spec["encoding"]["color"]["scale"]
    assert scale == {"domain": ["cat", "dog", "owl"], "range": list(COLORS[:3])}


def test_panels_stand_in_the_order_given_and_share_a_legend() -> None:
    spec = partition_chart({"b": COUNTS, "a": COUNTS, "c": COUNTS}, [0, 1], columns=3).to_dict()
    assert spec["facet"]["sort"] == ["b", "a", "c"]
    assert spec["columns"] == 3
    assert {row["panel"] for row in data_of(spec)} == {"a", "b", "c"}


def test_many_classes_run_through_one_scale() -> None:
    spec = partition_chart({"many": np.eye(11, dtype=int)}, range(11)).to_dict()
    assert spec["encoding"]["color"]["field"] == "number"
    assert spec["encoding"]["color"]["scale"] == {"scheme": "viridis"}


def test_it_renders() -> None:
    import vl_convert

    spec = partition_chart({"one": COUNTS, "two": COUNTS}, [0, 1]).to_json()
    drawn = vl_convert.vegalite_to_svg(partition_chart({"wide": np.ones((96, 2), int)}, range(96)).to_json())
    # Of 96 numbers that would run into each other only every second one is written.
    hidden = [
        re.search(rf'<text [^>]*opacity="0"[^>]*>{client}</text>', drawn) is not None for client in range(4)
    ]
    assert hidden == [False, True, False, True]
    assert vl_convert.vegalite_to_svg(spec).count('aria-roledescription="bar"') == 8

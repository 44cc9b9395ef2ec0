"""Streams in a federation: nodes must be able to follow them."""

from typing import Any

import pytest

from eunoe.config.schema import make_config
from eunoe.errors import InputError
from eunoe.flower.server import RunOptions, check_options

PARTITION = RunOptions.model_construct(data="partition")
OWN = RunOptions.model_construct(data="own")


def test_a_stream_whose_rounds_are_set_is_taken() -> None:
    check_options(
        make_config({"stream": {"name": "classes", "every": 5}, "replay": {"memory": 9}}), PARTITION
    )
    check_options(make_config({}), OWN)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ({"stream": "classes"}, PARTITION, "set start, end, every or over"),
        ({"stream": {"name": "classes", "every": 5}}, OWN, "cannot be combined with stream or replay"),
        ({"replay": {"memory": 5}}, OWN, "cannot be combined with stream or replay"),
    ],
)
def test_what_nodes_cannot_follow_is_refused(values: dict[str, Any], options: RunOptions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_options(make_config(values), options)

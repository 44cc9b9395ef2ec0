"""Stored runs are matched with the plans of their exhibit."""

from dataclasses import replace
from pathlib import Path

import pytest

from eunoe.config.schema import Named
from eunoe.errors import InputError
from eunoe.papers import find_exhibit
from eunoe.papers.found import FoundRun, check_config
from eunoe.papers.store import StoredRun, key_of
from eunoe.simulation.streams import with_streams
from eunoe.store.run_records import RunRecords


def test_a_run_whose_stream_was_settled_by_its_rounds_is_that_of_the_plan() -> None:
    planned = find_exhibit("stream-classes").plan("full", [0])[0]
    ran = with_streams(planned.config)
    assert ran != planned.config
    records = RunRecords("run", [], config=ran.model_dump(mode="json"))
    found = FoundRun(planned, StoredRun(key_of(planned), records))
    check_config(found, Path("here"))
    other = ran.model_copy(update={"stream": (Named.model_validate({"name": "classes", "every": 9}),)})
    again = replace(found.run, records=replace(records, config=other.model_dump(mode="json")))
    with pytest.raises(InputError, match="stream is"):
        check_config(replace(found, run=again), Path("here"))

"""The environment of a run."""

from dataclasses import replace

import pytest
import torch

from eunoe.store.environment import describe_environment, environment_warnings
from tests.helpers import blobs


def test_the_hashes_follow_data_and_partition() -> None:
    federation = blobs()
    first, again = describe_environment(federation), describe_environment(blobs())
    assert first == again
    assert first["torch"] == torch.__version__
    other = describe_environment(blobs(alpha=5.0))
    assert other["data_sha256"] == first["data_sha256"]
    assert other["partition_sha256"] != first["partition_sha256"]
    test = replace(federation.data.test, x=federation.data.test.x + 1)
    changed = describe_environment(replace(federation, data=replace(federation.data, test=test)))
    assert changed["data_sha256"] != first["data_sha256"]


def test_outside_a_repository_there_is_no_commit(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("none")))
    assert describe_environment(blobs())["git_commit"] is None


def test_only_what_may_change_bits_is_warned_of() -> None:
    now = {"torch": "2", "cpu": "a", "python": "3.12"}
    assert environment_warnings({"torch": "2", "cpu": "a", "python": "3.11"}, now) == []
    assert environment_warnings({"torch": "1"}, now) == [
        "torch was '1' and is '2' now: results may differ in the last bits"
    ]

"""When a probe looks."""

from eunoe.config.probes import Probe


def test_rounds_are_a_list_every_so_many_or_fractions() -> None:
    probe = Probe(metric="drift", rounds=(3,), every=5, at=(0.01, 0.9))
    assert [round for round in range(1, 21) if probe.due(round, 20)] == [1, 3, 5, 10, 15, 18, 20]

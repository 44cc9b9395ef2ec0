"""`eunoe diagnose`: commands for a simulation, changes of its own config for a federation."""

from pathlib import Path

from eunoe.simulation.running import run
from tests.cli.command import eunoe

SETTING = {
    "rounds": 3,
    "participation": 2,
    "engine": "serial",
    "partition": {"name": "classes", "clients": 10, "classes": 2},
    "training": {"epochs": 3, "lr": 0.1, "batch_size": 16},
    "probes": [{"metric": "local_per_class", "at": [0.6, 1.0]}],
}


def test_a_federation_is_not_told_to_run_a_simulation(tmp_path: Path) -> None:
    folder = run(SETTING, out=tmp_path / "run").folder
    simulated = eunoe("diagnose", folder).out
    assert f"eunoe run {folder}/config.toml --set loss.name=wsm\n" in simulated
    (folder / "flower.json").write_text('{"run": "a"}\n')
    deployed = eunoe("diagnose", folder).out
    assert "eunoe run" not in deployed
    assert "then start the federation again with another `folder` in its pyproject.toml:" in deployed
    assert 'in config.toml of the app: loss.name = "wsm"\n' in deployed
    assert "in config.toml of the app: averaging.decay = 0.9\n" in deployed

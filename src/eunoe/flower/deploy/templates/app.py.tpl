"""The @role@ app of this federation."""

from pathlib import Path

from eunoe.flower.@role@ import @role@_app

app = @role@_app(Path(__file__).with_name("config.toml"))

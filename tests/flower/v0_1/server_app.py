"""The server of this federation."""

from pathlib import Path

from eunoe.flower.server import server_app

app = server_app(Path(__file__).with_name("config.toml"))

"""A client of this federation."""

from pathlib import Path

from eunoe.flower.client import client_app

app = client_app(Path(__file__).with_name("config.toml"))

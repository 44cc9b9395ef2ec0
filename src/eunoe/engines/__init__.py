"""Engines: where clients train and models are evaluated, and one client's participation (client.py).

The type to know is `Engine`. What the server does with updates is in eunoe.server, the round loop in
eunoe.simulation.
"""

from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.engines.simulation import Simulation
from eunoe.server.updates import Broadcast, Update

__all__ = ["Broadcast", "ClientStates", "Engine", "Serial", "Simulation", "Update"]

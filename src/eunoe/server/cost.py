"""What a method or a server optimizer costs, in multiples of the model."""

from typing import NamedTuple


class Cost(NamedTuple):
    """What a method costs a client and a round compared with FedAvg, in multiples of the model."""

    client_state: str = "0"
    up: str = "1"
    down: str = "1"
    client_compute: str = "0"
    server_extra: str = "0"

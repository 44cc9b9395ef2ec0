"""A method whose clients meet planned faults, and what tests ask of runs that met them."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from eunoe.engines.client_states import ClientStates
from eunoe.methods.base import Finished, Method, Upload
from eunoe.methods.context import ClientContext, RoundContext
from eunoe.simulation.run import Run
from eunoe.store.checkpoints import newest_checkpoint
from tests.waiting import until

# Faults of a client that the server must refuse; they come again whenever the client trains again.
EXCLUDING = ("nan", "inf", "wrong size")


class OwnError(Exception):
    """A user's own exception, which takes more than a message."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what, code)
        self.code = code


class Faulty(Method):
    """Averaging with a memory in every client, so that a lost or wrong state shows in the weights."""

    faults: dict[str, str] = Field({}, description="What happens to a client: 'round/client' to kind.")
    marks: str = Field("", description="Folder in which a fault that happens once leaves a mark.")
    pause: float = Field(0.0, description="Seconds that every client takes on top.")
    last_round: str = Field("", description="File with the last round that clients may begin.")

    def client_state(self, context: RoundContext) -> dict[str, int]:
        return {"memory": context.model.parameters}

    def uploads(self, context: RoundContext) -> dict[str, Upload]:
        return {"age": Upload("sum", 1)}

    def begin(self, client: ClientContext) -> None:
        time.sleep(self.pause)
        if self.last_round:
            until(lambda: client.context.round <= int(Path(self.last_round).read_text() or 0))
        match self.faults.get(f"{client.context.round}/{client.id}"):
            case "kill" if self._first(client):
                os.kill(os.getpid(), signal.SIGKILL)
            case "wait" if self._first(client):
                time.sleep(600)
            case "slow" if self._first(client):
                time.sleep(0.5)
            case "mark":
                self._first(client)
            case "error":
                raise OwnError("it does not work", 7)

    def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
        return gradient + 0.1 * client.state["memory"]

    def finish(self, client: ClientContext) -> Finished:
        memory = client.weights - client.start.parameters
        age = torch.ones(1, dtype=memory.dtype)
        match self.faults.get(f"{client.context.round}/{client.id}"):
            case "nan":
                client.weights[0] = float("nan")
            case "inf":
                client.weights[-1] = float("inf")
            case "wrong size":
                age = torch.ones(2, dtype=memory.dtype)
        return Finished({"age": age}, {"memory": memory})

    def _first(self, client: ClientContext) -> bool:
        """Whether this fault happens for the first time; from now on it has happened."""
        try:
            with open(Path(self.marks) / f"{client.context.round}-{client.id}", "x") as mark:
                mark.write(f"{os.getpid()} {os.getppid()}")
        except FileExistsError:
            return False
        return True


def results(run: Run) -> dict[str, Any]:
    """All that two equal runs have in common: metrics, final weights and the clients' states."""
    states = ClientStates(run.folder / "states")
    saved, _ = newest_checkpoint(run.folder)
    assert saved is not None
    states.accepted = dict(saved.manifest.accepted)
    # Where nothing is merged, the models are the clients' states.
    vectors = run.weights().vectors().values() if run.simulation.method.aggregates else ()
    return {
        "metrics": (run.folder / "metrics.jsonl").read_bytes(),
        "weights": [value.numpy().tobytes() for value in vectors],
        "states": {entry: states.path(*entry).read_bytes() for entry in states.accepted.items()},
    }


def children(pid: int | None) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

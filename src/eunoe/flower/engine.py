"""The server's engine: clients train on their own machines, and a round waits for their replies."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Message, RecordDict
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.core.tasks import LABELED
from eunoe.engines.base import Engine
from eunoe.engines.client import SKIPPED
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.flower import wire
from eunoe.flower.own_data import Facts, RemoteFederation, encode_facts
from eunoe.flower.roster import Roster
from eunoe.flower.wire import missing_update, one_line
from eunoe.metrics.forgetting import spread
from eunoe.metrics.sums import Sums, metrics_from_sums, score_from_sums, validate_sums
from eunoe.server.updates import Broadcast, Update

logger = logging.getLogger(__name__)


class RemoteStates(ClientStates):
    """The round of each client's current state; the states themselves are on the clients' disks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # Client and round of states that clients have saved and the round has not accepted yet.
        self.pending: set[tuple[int, int]] = set()

    def load(self, client: int, round: int | None = None) -> dict[str, Tensor]:
        """Return nothing: the server has no client's state."""
        return {}

    def accept(self, client: int, round: int) -> None:
        if (client, round) in self.pending:
            self.accepted[client] = round
        self.pending.discard((client, round))

    def discard(self, client: int, round: int) -> None:
        self.pending.discard((client, round))

    def sync(self) -> None:
        """Do nothing: clients make their own states durable."""

    def check(self, accepted: Mapping[int, int], digests: Mapping[int, bytes]) -> None:
        """Do nothing: clients check their own states."""

    def explain_failure(self, client: int, reason: str | None) -> str:
        """Return why a client failed; a state that it does not have is not requested again."""
        text = f"it failed: {one_line(reason)}"
        if wire.NO_STATE in text and self.accepted.pop(client, None) is not None:
            return f"{text}; it starts afresh in its next round"
        return text


class RemoteEngine(Engine):
    """Clients train on their own machines; models are evaluated here and, with `validate`, also there.

    Replies after `timeout` seconds are dropped. A round with fewer than `quorum` replies ends the run.
    """

    states: RemoteStates

    def __init__(
        self,
        simulation: Simulation,
        states: RemoteStates,
        roster: Roster,
        run: str,
        facts: Facts | None,
        *,
        timeout: float,
        quorum: int,
        validate: bool,
    ) -> None:
        super().__init__(simulation, states)
        self.roster, self.run, self.facts = roster, run, facts
        self.timeout, self.quorum, self.validate = timeout, quorum, validate
        self._warned = set[str]()

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        common = wire.encode_broadcast(broadcast) | encode_facts(self.facts)
        waiting, updates, replied = list(clients), dict[int, Update](), 0
        message = partial(self.message, broadcast, common)
        for client, reply in self.roster.ask("train", clients, message, self.timeout):
            updates[client] = update = self._read(simulation, client, reply, broadcast)
            # A skipped client counts toward the quorum: it has replied.
            replied += update.skipped in (None, SKIPPED)
            while waiting and waiting[0] in updates:
                yield updates.pop(waiting.pop(0))
        if replied < min(self.quorum, len(clients)):
            silent = ", ".join(str(client) for client in waiting if client not in updates) or "none"
            raise RunFailed(
                f"{replied} of {len(clients)} clients sent an update in round {broadcast.round}, fewer than "
                f"the quorum of {self.quorum}; no reply within {self.timeout:g} s from: {silent}"
            )
        for client in waiting:
            reason = f"it did not reply within {self.timeout:g} s"
            yield updates.get(client) or missing_update(client, broadcast.weights, reason)

    def message(self, broadcast: Broadcast, common: Mapping[str, Any], client: int) -> RecordDict:
        """Return the message that tells a client to train: what all receive, and its own order."""
        start = self.states.accepted.get(client)
        return RecordDict({**common, "order": wire.encode_order(self.run, broadcast.round, start)})

    def _read(self, simulation: Simulation, client: int, reply: Message, broadcast: Broadcast) -> Update:
        start, federation = broadcast.weights, simulation.federation
        if reply.has_error():
            return missing_update(client, start, self.states.explain_failure(client, reply.error.reason))
        uploads = simulation.method.uploads(simulation.context)
        layout = wire.Layout(start, uploads, simulation.compression, simulation.private)
        update, keeps_state = wire.decode_update(reply.content, client, layout)
        if self.facts is not None and self.facts.growing and isinstance(federation, RemoteFederation):
            federation.grow(client, update.size)
        if keeps_state:
            self.states.pending.add((client, broadcast.round))
        return update

    def evaluate_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        """Return accuracy (or F1 or R²) and loss from the sums of the clients that agree, if any replied."""
        if not self.validate:
            return {}
        agree = sorted(client for client, member in self.roster.members.items() if member.validates)
        if not agree:
            self._warn("no client agrees to evaluate models (validate=true in its --node-config)")
            return {}
        broadcast = Broadcast(max(self.states.accepted.values(), default=1), weights)
        common = wire.encode_broadcast(broadcast) | encode_facts(self.facts)
        message = partial(self.message, broadcast, common)
        replies = sorted(self.roster.ask("evaluate", agree, message, self.timeout))
        results = {client: self._read_sums(client, reply) for client, reply in replies}
        known = {client: found for client, found in results.items() if found and found[0]["samples"].sum()}
        if not known:
            return {}
        task = self.simulation.federation.task
        sums, losses = zip(*known.values(), strict=True)
        total = {name: np.sum([each[name] for each in sums], axis=0) for name in sums[0]}
        sizes = [int(each["samples"].sum()) for each in sums]
        measures = {
            **metrics_from_sums(task, total),
            "loss": sum(losses) / sum(sizes),
            "clients": spread([score_from_sums(task, each) for each in sums])._asdict(),
            "by": list(known),
        }
        if task.name not in LABELED:
            by_client = [loss / size for loss, size in zip(losses, sizes, strict=True)]
            measures["by_client"] = {"clients": list(known), "samples": sizes, "loss": by_client}
            if task.name == "language_model":
                measures["by_client"]["accuracy"] = [score_from_sums(task, each) for each in sums]
        return {"validation": measures}

    def _read_sums(self, client: int, reply: Message) -> tuple[Sums, float] | None:
        """Return the sums of the task and of the losses; warn and return None if they are invalid."""
        if reply.has_error():
            self._warn(f"client {client} did not evaluate: {one_line(reply.error.reason)}")
            return None
        federation = self.simulation.federation
        try:
            record = reply.content.config_records["counts"]
            sums = validate_sums(federation.task, federation.classes, record, wire.MAX_SAMPLES)
            loss = float(str(reply.content.metric_records["numbers"]["loss"]))
            if not np.isfinite(loss):
                raise ValueError("its loss is not finite")
        except (KeyError, TypeError, ValueError) as error:
            self._warn(f"client {client}'s evaluation cannot be read: {error}")
            return None
        return sums, loss

    def _warn(self, text: str) -> None:
        """Warn once."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text)

"""The server's side of a round: clients train elsewhere, answers are awaited, whoever is late is left out."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.errors import RunFailed
from eunoe.flower.own_data import Facts
from eunoe.flower.roster import MOST_SAMPLES, Roster
from eunoe.flower.wire import (
    Order,
    absent,
    broadcast_out,
    one_line,
    order_out,
    sits_out,
    update_in,
    vectors_out,
)
from eunoe.metrics.forgetting import spread
from eunoe.training.client import Broadcast, Update
from eunoe.training.simulation import Simulation


class RemoteStates(ClientStates):
    """Which of its states counts for each client; the states themselves are on the clients' disks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: set[tuple[int, int]] = set()

    def accept(self, client: int, round: int) -> None:
        if (client, round) in self.kept:
            self.accepted[client] = round
        self.kept.discard((client, round))

    def discard(self, client: int, round: int) -> None:
        self.kept.discard((client, round))

    def prune(self, oldest_kept: int) -> None:
        """Nothing: a client removes its old states itself."""

    def remove_strays(self, wanted: set[Path]) -> None:
        """Nothing, for the same reason."""


class Remote(Serial):
    """Trains clients on their own machines; evaluates here, and at the clients that agree."""

    def __init__(
        self,
        simulation: Simulation,
        states: RemoteStates,
        roster: Roster,
        run: str,
        *,
        timeout: float,
        quorum: int,
        facts: Facts | None = None,
        validate_on_clients: bool = False,
    ) -> None:
        super().__init__(simulation, states)
        self.remote_states, self.roster, self.run = states, roster, run
        self.timeout, self.quorum, self.facts = timeout, quorum, facts
        self.validate_on_clients = validate_on_clients
        self._said = set[str]()

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        common = broadcast_out(broadcast) | self._common()

        def order(client: int) -> RecordDict:
            start = Order(self.run, self.states.accepted.get(client))
            return RecordDict({**common, "order": order_out(start, broadcast.round)})

        left, answers, good = list(clients), dict[int, Update](), 0
        for client, reply in self.roster.ask("train", clients, order, self.timeout):
            answers[client] = update = self._update(client, reply, broadcast)
            # A client that had nothing to learn from has done its duty.
            good += update.skipped is None or (reply.has_content() and sits_out(reply.content))
            while left and left[0] in answers:
                yield answers.pop(left.pop(0))
        if good < min(self.quorum, len(clients)):
            silent = ", ".join(str(client) for client in left if client not in answers) or "none"
            raise RunFailed(
                f"{good} of {len(clients)} clients gave an update in round {broadcast.round}, fewer than the "
                f"quorum of {self.quorum}; no answer within {self.timeout:g} s from: {silent}"
            )
        for client in left:
            reason = f"it did not answer within {self.timeout:g} s"
            yield answers.get(client) or absent(client, broadcast.weights, reason)

    def _update(self, client: int, reply: Message, broadcast: Broadcast) -> Update:
        if reply.has_error():
            return absent(client, broadcast.weights, f"it failed: {one_line(reply.error.reason)}")
        update, keeps = update_in(reply.content, client, broadcast.weights)
        size = int(self.simulation.federation.sizes[client])
        if update.skipped is None and update.size != size:
            return absent(
                client, broadcast.weights, f"it trained on {update.size} samples, not on its {size}"
            )
        if keeps:
            self.remote_states.kept.add((client, broadcast.round))
        return update

    def measured_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        """Accuracy on the validation parts of the clients that agree, from their counts."""
        if not self.validate_on_clients:
            return {}
        agree = sorted(client for client, member in self.roster.members.items() if member.validates)
        if not agree:
            self._tell("no client agrees to evaluate models (validate=true in its --node-config)")
            return {}
        content = RecordDict({"weights": vectors_out(weights.vectors()), **self._common()})
        answers = dict(self.roster.ask("evaluate", agree, lambda client: content, self.timeout))
        found = {client: self._counts(client, reply) for client, reply in sorted(answers.items())}
        counts = {client: count for client, count in found.items() if count is not None and count[1].sum()}
        if not counts:
            return {}
        right, samples = (np.sum([count[i] for count in counts.values()], axis=0) for i in (0, 1))
        numbers = spread([count[0].sum() / count[1].sum() for count in counts.values()])
        measures = {
            "accuracy": float(right.sum() / samples.sum()),
            "loss": sum(count[2] for count in counts.values()) / int(samples.sum()),
            "per_class": np.where(samples > 0, right / np.maximum(samples, 1), np.nan).tolist(),
            "clients": {
                "mean": numbers.mean,
                "deviation": numbers.deviation,
                "worst_tenth": numbers.worst_tenth,
            },
            "by": list(counts),
        }
        return {"validation": measures}

    def _counts(self, client: int, reply: Message) -> tuple[Any, Any, float] | None:
        """Right answers and samples per class and the sum of losses; None, and why, if they make no sense."""
        if reply.has_error():
            self._tell(f"client {client} did not evaluate: {one_line(reply.error.reason)}")
            return None
        try:
            record: ConfigRecord = reply.content.config_records["counts"]
            right, samples = (np.array(record[name], np.int64) for name in ("right", "samples"))
            loss = float(str(reply.content.metric_records["numbers"]["loss"]))
            if right.shape != (self.simulation.federation.classes,) or right.shape != samples.shape:
                raise ValueError(f"it has counts of {right.shape} and {samples.shape} classes")
            # The bound keeps the sums over clients and classes from overflowing.
            if (right < 0).any() or (right > samples).any() or (samples > MOST_SAMPLES).any():
                raise ValueError("its counts cannot be")
            if not np.isfinite(loss):
                raise ValueError("its loss is not finite")
        except (KeyError, TypeError, ValueError) as error:
            self._tell(f"client {client}'s evaluation cannot be read: {error}")
            return None
        return right, samples, loss

    def _tell(self, text: str) -> None:
        """Say something once."""
        if text not in self._said:
            self._said.add(text)
            self.roster.say(f"warning: {text}")

    def _common(self) -> dict[str, ConfigRecord]:
        return {} if self.facts is None else {"facts": self.facts.record()}

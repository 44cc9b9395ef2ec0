"""The server's engine in a federation: clients train remotely, and a round waits for their replies."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from eunoe.core.flat_model import Weights
from eunoe.core.tasks import Task
from eunoe.engines.base import Engine
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import LocalEvaluator
from eunoe.engines.simulation import Simulation
from eunoe.errors import RunFailed
from eunoe.flower.own_data import Facts, Scattered, facts_out
from eunoe.flower.parts import Parts
from eunoe.flower.roster import MOST_SAMPLES, Roster
from eunoe.flower.wire import (
    NO_STATE,
    Order,
    absent,
    broadcast_out,
    is_skipped,
    one_line,
    order_out,
    update_in,
    vectors_out,
)
from eunoe.metrics.forgetting import spread
from eunoe.metrics.sums import Sums, metrics_from_sums, score_from_sums, validate_sums

logger = logging.getLogger(__name__)


class RemoteStates(ClientStates):
    """Which state is current for each client; the states themselves are on the clients' disks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.kept: set[tuple[int, int]] = set()

    def accept(self, client: int, round: int) -> None:
        if (client, round) in self.kept:
            self.accepted[client] = round
        self.kept.discard((client, round))

    def discard(self, client: int, round: int) -> None:
        self.kept.discard((client, round))

    def sync(self) -> None:
        """Do nothing: clients' files are theirs."""

    def check(self, accepted: Mapping[int, int], digests: Mapping[int, bytes]) -> None:
        """Do nothing, for the same reason."""

    def restore(
        self,
        accepted: Mapping[int, int],
        digests: Mapping[int, bytes],
        older: Sequence[Mapping[int, int]] = (),
    ) -> None:
        self.accepted = dict(accepted)

    def failed(self, client: int, reason: str | None) -> str:
        """Why a client has failed; a state that it does not have is not asked of it again."""
        text = f"it failed: {one_line(reason)}"
        if NO_STATE in text and self.accepted.pop(client, None) is not None:
            return f"{text}; it starts afresh in its next round"
        return text

    def prune(self, kept: Sequence[int]) -> None:
        """Do nothing: a client removes its old states itself."""


class RemoteTrainer:
    """Trains clients on their own machines; late replies are dropped."""

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
    ) -> None:
        self.simulation, self.states, self.roster = simulation, states, roster
        self.run, self.facts, self.timeout, self.quorum = run, facts, timeout, quorum

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        common = broadcast_out(broadcast) | facts_out(self.facts)

        def order(client: int) -> RecordDict:
            start = Order(self.run, self.states.accepted.get(client))
            return RecordDict({**common, "order": order_out(start, broadcast.round)})

        left, answers, good = list(clients), dict[int, Update](), 0
        for client, reply in self.roster.ask("train", clients, order, self.timeout):
            answers[client] = update = self._update(client, reply, broadcast)
            # A skipped client counts toward the quorum: it has answered.
            good += update.skipped is None or (reply.has_content() and is_skipped(reply.content))
            while left and left[0] in answers:
                yield answers.pop(left.pop(0))
        if good < min(self.quorum, len(clients)):
            silent = ", ".join(str(client) for client in left if client not in answers) or "none"
            raise RunFailed(
                f"{good} of {len(clients)} clients sent an update in round {broadcast.round}, fewer than the "
                f"quorum of {self.quorum}; no answer within {self.timeout:g} s from: {silent}"
            )
        for client in left:
            reason = f"it did not answer within {self.timeout:g} s"
            yield answers.get(client) or absent(client, broadcast.weights, reason)

    def _update(self, client: int, reply: Message, broadcast: Broadcast) -> Update:
        if reply.has_error():
            return absent(client, broadcast.weights, self.states.failed(client, reply.error.reason))
        uploads = self.simulation.method.uploads(self.simulation.context_in(broadcast.round))
        parts = Parts(broadcast.weights, uploads, self.simulation.compress)
        update, keeps = update_in(reply.content, client, parts)
        federation = self.simulation.in_round(broadcast.round).federation
        if self.facts is not None and self.facts.growing and isinstance(federation, Scattered):
            federation.grow(client, update.size)
        size = federation.size(client)
        if update.skipped is None and update.size != size:
            return absent(
                client, broadcast.weights, f"it trained on {update.size} samples, not on its {size}"
            )
        if keeps:
            self.states.kept.add((client, broadcast.round))
        return update


class ClientValidation:
    """Evaluates a model on the validation parts of the clients that agree."""

    def __init__(self, task: Task, outputs: int, roster: Roster, facts: Facts | None, timeout: float) -> None:
        self.task, self.outputs = task, outputs
        self.roster, self.facts, self.timeout = roster, facts, timeout
        self._warned = set[str]()

    def measures(self, weights: Weights) -> dict[str, Any]:
        """Accuracy (or F1 or R²) and loss from the sums of those that answered; nothing if none did."""
        agree = sorted(client for client, member in self.roster.members.items() if member.validates)
        if not agree:
            self._warn("no client agrees to evaluate models (validate=true in its --node-config)")
            return {}
        content = RecordDict({"weights": vectors_out(weights.vectors()), **facts_out(self.facts)})
        answers = dict(self.roster.ask("evaluate", agree, lambda client: content, self.timeout))
        found = {client: self._sums(client, reply) for client, reply in sorted(answers.items())}
        known = {client: one for client, one in found.items() if one is not None and one[0]["samples"].sum()}
        if not known:
            return {}
        each, losses = [sums for sums, _ in known.values()], [loss for _, loss in known.values()]
        total = {name: np.sum([sums[name] for sums in each], axis=0) for name in each[0]}
        sizes = [int(sums["samples"].sum()) for sums in each]
        measured = {
            **metrics_from_sums(self.task, total),
            "loss": sum(losses) / sum(sizes),
            "clients": spread([score_from_sums(self.task, sums) for sums in each])._asdict(),
            "by": list(known),
        }
        if self.task.name == "regression":
            by_client = [loss / size for loss, size in zip(losses, sizes, strict=True)]
            measured["by_client"] = {"clients": list(known), "samples": sizes, "loss": by_client}
        return measured

    def _sums(self, client: int, reply: Message) -> tuple[Sums, float] | None:
        """The sums of the task and of the losses; None and a reason if invalid."""
        if reply.has_error():
            self._warn(f"client {client} did not evaluate: {one_line(reply.error.reason)}")
            return None
        try:
            record: ConfigRecord = reply.content.config_records["counts"]
            sums = validate_sums(self.task, self.outputs, record, MOST_SAMPLES)
            loss = float(str(reply.content.metric_records["numbers"]["loss"]))
            if not np.isfinite(loss):
                raise ValueError("its loss is not finite")
        except (KeyError, TypeError, ValueError) as error:
            self._warn(f"client {client}'s evaluation cannot be read: {error}")
            return None
        return sums, loss

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            logger.warning(text)


class Remote(Engine):
    """Clients train on their own machines; models are evaluated here, and at the clients that agree."""

    def __init__(
        self,
        simulation: Simulation,
        states: RemoteStates,
        trainer: RemoteTrainer,
        validation: ClientValidation | None = None,
    ) -> None:
        super().__init__(simulation, states, trainer, LocalEvaluator(simulation))
        self.validation = validation

    def measured_elsewhere(self, weights: Weights) -> dict[str, dict[str, Any]]:
        measures = self.validation.measures(weights) if self.validation else {}
        return {"validation": measures} if measures else {}

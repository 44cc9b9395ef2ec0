"""A server that drops, reorders, repeats and alters messages as it likes, found by hypothesis.

Whatever it does, it can read no sum over fewer honest clients than the threshold minus the colluders, and a
sum that the true server would accept is the true one.
"""

import contextlib
import copy
import itertools
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

pytest.importorskip("flwr")

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from eunoe.errors import InputError
from eunoe.flower.secure import client as handlers
from eunoe.flower.secure.primitives import BadShares
from eunoe.system import files
from tests.flower.secure.nodes import Nodes, Server, lists_against, make_keys

MOST = 6
ALL = 2**MOST - 1
REFUSED = (InputError, ValueError)
KEYS = tempfile.TemporaryDirectory()
# Clients, threshold and colluders: 2 t > n + c.
COHORTS = [(3, 2, 0), (4, 3, 1), (5, 3, 0), (5, 4, 2), (6, 4, 1)]
# Sets of clients as bits: any, or mostly all or none of them.
some = st.integers(0, ALL)
most = st.one_of(st.just(ALL), st.just(ALL), some)
few = st.one_of(st.just(0), st.just(0), st.just(0), some)
clients = st.integers(0, MOST - 1)
# Which clients are said to be lost: the number of a set, the same for all or one for each.
number = st.integers(0, 1000)
losses = st.one_of(number.map(lambda k: [k] * MOST), st.lists(number, min_size=MOST, max_size=MOST))
hardly_any = st.one_of(st.just([0] * MOST), st.just([0] * MOST), losses)
rarely = st.integers(0, 7).map(lambda number: number == 7)


class ActiveServer(RuleBasedStateMachine):
    """The moves of a server: it plays stages with some of the clients, and tells them different things."""

    @initialize(cohort=st.sampled_from(COHORTS), lost=few, peers=hardly_any, model=few)
    def start(self, cohort, lost, peers, model):
        self.count, threshold, colluders = cohort
        keys = Path(KEYS.name) / str(self.count)
        if not keys.exists():
            make_keys(keys, self.count)
        self.folder = tempfile.TemporaryDirectory()
        nodes = Nodes(Path(self.folder.name), keys, self.count, threshold)
        self.patches = [
            mock.patch.object(handlers, "train_and_save", nodes.train),
            # Here histories need not reach the disk.
            mock.patch.object(files, "sync_to_disk", return_value=None),
        ]
        for patch in self.patches:
            patch.start()
        self.server = Server(nodes, range(self.count - colluders, self.count))
        self.least = threshold - colluders
        self.snapshots = {client: [copy.deepcopy(nodes.memory[client])] for client in nodes.clients}
        self.revealed: dict[int, dict[int, bytes]] = {}
        self.lost = [
            set(lost)
            for size in range(self.count - threshold + 1)
            for lost in itertools.combinations(range(self.count), size)
        ]
        self.play_three_stages(ALL, lost, peers, model)

    def teardown(self):
        for patch in getattr(self, "patches", ()):
            patch.stop()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def chosen(self, bits):
        return [client for client in range(self.count) if bits >> client & 1]

    def tell(self, bits, step):
        """Send a message to some clients; note the memories before it, which may come back."""
        for client in self.chosen(bits):
            before = copy.deepcopy(self.server.nodes.memory[client])
            with contextlib.suppress(*REFUSED):
                step(client)
                self.snapshots[client].append(before)

    def without(self, clients, number, told):
        """Return clients without those of a set of losses, mostly with the one that is told."""
        lost = self.lost[number % len(self.lost)] - ({told} if number % 8 else set())
        return [client for client in clients if client not in lost]

    @rule(bits=most, lost=few, peers=hardly_any, model=few)
    def play_three_stages(self, bits, lost, peers, model):
        """Play the stages up to the vectors; some clients are lost before they share."""
        self.publish(bits)
        self.share(bits & ~lost, False, 0)
        self.train(bits & ~lost, peers, model)

    @rule(bits=some, stage=st.integers(0, 2), old=rarely, whose=clients, peers=hardly_any, model=few)
    def repeat_an_early_stage(self, bits, stage, old, whose, peers, model):
        (
            lambda: self.publish(bits),
            lambda: self.share(bits, old, whose),
            lambda: self.train(bits, peers, model),
        )[stage]()

    def publish(self, bits):
        self.tell(bits, self.server.publish)
        self.revealed.clear()

    def share(self, bits, old, whose):
        keys = dict(self.server.keys)
        published = self.server.published[whose % self.count]
        if old and published:
            keys[whose % self.count] = published[0]
        self.tell(bits, lambda client: self.server.share(client, keys))

    def train(self, bits, peers, model):
        """Each client has its own peers; those in `model` have another model."""
        known = list(self.server.sealed)
        self.tell(
            bits,
            lambda client: self.server.train(
                client, self.without(known, peers[client], client), float(model >> client & 1)
            ),
        )

    def arrived(self, number, told):
        """Return the clients that sent a vector, without some."""
        return self.without(sorted({sent.client for sent in self.server.sent}), number, told)

    @rule(bits=most, lost=losses)
    def confirm(self, bits, lost):
        self.tell(bits, lambda client: self.server.confirm(client, self.arrived(lost[client], client)))

    @rule(bits=most, lost=losses, mixed=rarely)
    def confirm_and_reveal(self, bits, lost, mixed):
        self.confirm(bits, lost)
        self.reveal(bits, lost, mixed)

    @rule(bits=most, lost=losses, mixed=rarely)
    def reveal(self, bits, lost, mixed):
        every = None
        if mixed:
            signed = self.server.signatures.values()
            every = {one: signature for by_client in signed for one, signature in by_client.items()}

        def reveal(client):
            alive = self.arrived(lost[client], client)
            self.revealed[client] = self.server.reveal(client, alive, every)
            self.check_sum(alive)

        self.tell(bits, reveal)

    @rule(victim=clients)
    def attack(self, victim):
        """Tell each client what would expose the victim, and ask everybody to sign all of it."""
        victim %= self.count
        few, alive = lists_against(victim, range(self.count), self.server.session.threshold)
        self.publish(ALL)
        self.share(ALL, False, 0)
        self.tell(
            ALL, lambda client: self.server.train(client, few if client == victim else range(self.count))
        )
        self.tell(ALL, lambda client: self.server.confirm(client, alive[client]))
        for each in alive.values():
            self.tell(ALL, lambda client, each=each: self.server.confirm(client, each))
        self.tell(ALL, lambda client: self.server.reveal(client, alive[client]))

    def check_sum(self, alive):
        """The sum is right, or the round fails."""
        try:
            words = self.server.unmask(alive, self.revealed)
        except (BadShares, KeyError):
            return
        if words is not None:
            assert np.array_equal(words, self.server.true_sum(alive))

    @rule(client=clients, when=st.integers(0, 20))
    def lose_memory(self, client, when):
        """Bring back a memory that the node had before."""
        client %= self.count
        before = self.snapshots[client]
        self.server.nodes.memory[client] = copy.deepcopy(before[when % len(before)])

    @invariant()
    def only_large_sums_can_be_read(self):
        for readable in self.server.exposed() if hasattr(self, "server") else ():
            assert len(readable) >= self.least

    @invariant()
    def no_client_is_without_its_masks(self):
        server = getattr(self, "server", None)
        for sent in server.sent if server else ():
            if sent.client not in server.colluders:
                assert server._unknown_masks(sent) or not server.knows("seed", sent.keys[sent.client])


def run(examples: int) -> None:
    run_state_machine_as_test(
        ActiveServer,
        settings=settings(
            max_examples=examples,
            stateful_step_count=8,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_an_active_server_reads_large_sums_only():
    run(60)


@pytest.mark.slow
def test_an_active_server_reads_large_sums_only_in_many_attempts():
    run(2000)

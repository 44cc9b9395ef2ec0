"""The protocol without a network: sums come out exactly, whoever drops out, and nothing else does."""

import numpy as np
import pytest

pytest.importorskip("flwr")

from eunoe.flower.secure import primitives
from eunoe.flower.secure.primitives import BadShares
from eunoe.flower.secure.protocol import Participant, Secrets, Session, unmask

SESSION = Session("run", 3, 3)
CLIENTS = (2, 5, 7, 8, 11)


class Round:
    """Five clients up to the moment when the server has their masked vectors."""

    def __init__(self, session: Session = SESSION, size: int = 50) -> None:
        rng = np.random.default_rng(1)
        self.session = session
        self.vectors = {c: rng.integers(-(2**40), 2**40, size).view(np.uint64) for c in CLIENTS}
        self.secrets = {client: Secrets.new() for client in CLIENTS}
        self.keys = {client: secrets.public for client, secrets in self.secrets.items()}
        self.clients = {c: Participant(session, c, self.secrets[c], self.keys) for c in CLIENTS}
        self.sealed = {c: one.shares() for c, one in self.clients.items()}
        self.masked = {c: one.mask(self.vectors[c]) for c, one in self.clients.items()}

    def reveal(self, alive, by):
        return {
            client: self.clients[client].reveal({c: self.sealed[c][client] for c in CLIENTS}, alive)
            for client in by
        }

    def total(self, alive):
        return sum((self.masked[client] for client in alive), np.zeros(50, np.uint64))

    def unmask(self, alive, by):
        return unmask(self.session, self.total(alive), self.keys, alive, self.reveal(alive, by))

    def true_sum(self, alive):
        return sum((self.vectors[client] for client in alive), np.zeros(50, np.uint64))


@pytest.mark.parametrize(
    ("alive", "by"),
    [
        (CLIENTS, CLIENTS),
        (CLIENTS, (2, 5, 7)),
        ((2, 7, 8, 11), (2, 7, 8, 11)),
        # Its vector arrived, and then it was lost: its self-mask is rebuilt from the others' shares.
        (CLIENTS, (2, 7, 8)),
        # Two never sent, and the other three are enough.
        ((5, 7, 11), (5, 7, 11)),
        ((2, 5, 8, 11), (2, 5, 11)),
    ],
)
def test_the_sum_is_that_of_the_vectors_which_arrived(alive, by):
    here = Round()
    assert np.array_equal(here.unmask(alive, by), here.true_sum(alive))


def test_fewer_shares_than_the_threshold_unmask_nothing():
    here = Round()
    with pytest.raises(BadShares, match="there are 2 shares of client 2's secret"):
        here.unmask(CLIENTS, (5, 7))
    with pytest.raises(ValueError, match="2 vectors arrived, fewer than 3"):
        here.reveal((2, 5), (2, 5))


def test_a_client_reveals_one_of_the_two_shares_of_another():
    here = Round()
    alive = (2, 5, 7)
    revealed = here.reveal(alive, (2,))[2]
    assert sorted(revealed) == list(CLIENTS)
    for other in CLIENTS:
        opened = here.clients[2]
        both = primitives.unseal(opened._sealing_key(other, 2), here.sealed[other][2])
        seed, mask = both[: len(both) // 2], both[len(both) // 2 :]
        assert seed != mask
        assert revealed[other] == (seed if other in alive else mask)


def test_a_client_that_is_told_that_it_dropped_signs_and_reveals_nothing():
    here = Round()
    with pytest.raises(ValueError, match="the server says that this client's vector did not arrive"):
        here.reveal((2, 5, 7, 8), (11,))
    with pytest.raises(ValueError, match="the server says that this client's vector did not arrive"):
        here.clients[11].statement((2, 5, 7, 8))


def test_a_statement_depends_on_keys_peers_and_arrivals_but_not_on_their_order():
    here = Round()
    one = here.clients[2]
    assert one.statement(CLIENTS) == one.statement(CLIENTS[::-1]) == here.clients[5].statement(CLIENTS)
    fewer = Participant(here.session, 2, here.secrets[2], here.keys, (2, 5, 7, 8))
    other = {**here.keys, 11: Secrets.new().public}
    later = Round(SESSION._replace(round=4))
    statements = {
        *(one.statement(CLIENTS), one.statement((2, 5, 7, 8)), fewer.statement((2, 5, 7, 8))),
        *(Participant(here.session, 2, here.secrets[2], other).statement(CLIENTS),),
        later.clients[2].statement(CLIENTS),
    }
    assert len(statements) == 5


def test_masks_of_different_models_do_not_cancel():
    here = Round()
    models = dict.fromkeys(CLIENTS, b"model") | {8: b"another"}
    total = sum((here.clients[c].mask(here.vectors[c], models[c]) for c in CLIENTS), np.zeros(50, np.uint64))
    revealed = here.reveal(CLIENTS, CLIENTS)
    words = unmask(here.session, total, here.keys, CLIENTS, revealed, b"model")
    assert not np.any(words == here.true_sum(CLIENTS))


def test_masked_vectors_look_random():
    """Zeros under a mask have no bit that is more often 0 or 1, and no two are alike."""
    here = Round(size=20_000)
    zeros = np.zeros(20_000, np.uint64)
    masked = {client: one.mask(zeros) for client, one in here.clients.items()}
    for words in masked.values():
        share = np.unpackbits(words.view(np.uint8)).mean()
        assert abs(share - 0.5) < 0.005
        assert len(np.unique(words)) == len(words)
    # A single one does not give itself away by all others' pairwise masks: its own mask is left.
    assert np.any(sum(masked.values(), zeros) != zeros)


@pytest.mark.parametrize("change", [{"run": "other"}, {"round": 4}, {"threshold": 4}])
def test_another_session_has_other_masks_and_signatures(change):
    other = SESSION._replace(**change)
    secrets = {client: Secrets.new() for client in CLIENTS}
    keys = {client: one.public for client, one in secrets.items()}
    zeros = np.zeros(8, np.uint64)
    first, second = (Participant(session, 2, secrets[2], keys).mask(zeros) for session in (SESSION, other))
    assert not np.any(first == second)
    assert keys[2].message(SESSION, 2) != keys[2].message(other, 2)


def test_shares_that_were_changed_or_meant_for_others_are_not_used():
    here = Round()
    sealed = {c: here.sealed[c][2] for c in CLIENTS}
    sealed[5] = sealed[5][:-1] + bytes([sealed[5][-1] ^ 1])
    sealed[7] = here.sealed[7][8]
    assert sorted(here.clients[2].reveal(sealed, CLIENTS)) == [2, 8, 11]


def test_wrong_shares_are_noticed():
    here = Round()
    alive = (2, 5, 7, 8)
    revealed = here.reveal(alive, (2, 5, 7))
    wrong = bytearray(revealed[5][11])
    wrong[10] ^= 1
    revealed[5][11] = bytes(wrong)
    with pytest.raises(BadShares, match=r"do not belong together|client 11's key are wrong"):
        unmask(here.session, here.total(alive), here.keys, alive, revealed)


@pytest.mark.parametrize(
    ("threshold", "swap", "message"),
    [
        (2, {}, "a threshold of 2 of 5 clients is not safe"),
        (6, {}, "a threshold of 6 of 5 clients is not safe"),
        (3, {2: 5}, "other keys as those of this client"),
        (3, {7: 5}, "two clients have the same key"),
    ],
)
def test_a_client_does_not_take_part_in_what_is_not_safe(threshold, swap, message):
    secrets = {client: Secrets.new() for client in CLIENTS}
    keys = {client: secrets[swap.get(client, client)].public for client in CLIENTS}
    with pytest.raises(ValueError, match=message):
        Participant(Session("run", 1, threshold), 2, secrets[2], keys)


@pytest.mark.parametrize(
    ("peers", "message"),
    [
        ((5, 7, 8, 11), "peers without this client"),
        ((2, 5, 7, 9), "or without keys"),
        ((2, 5), "a threshold of 3 of 2 clients is not safe"),
    ],
)
def test_a_client_does_not_mask_for_too_few_or_unknown_peers(peers, message):
    here = Round()
    with pytest.raises(ValueError, match=message):
        Participant(SESSION, 2, here.secrets[2], here.keys, peers)

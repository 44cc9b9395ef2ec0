"""Servers that deviate from the protocol get nothing but sums over enough clients."""

import contextlib
import copy

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord

from eunoe.errors import Damaged, InputError
from eunoe.flower.deploy.credentials import make_node_key, sign_message
from eunoe.flower.secure import client as handlers
from eunoe.flower.secure.messages import decode_clients
from eunoe.flower.secure.protocol import Participant, PublicKeys, Secrets
from eunoe.server.secure_sum import OutOfBound
from tests.flower.secure.nodes import Nodes, Server, lists_against, make_keys

SIZES = (3, 5, 10, 20, 40)


@pytest.fixture(scope="module", name="keys")
def _keys(tmp_path_factory):
    made = {}

    def keys(count):
        if count not in made:
            made[count] = make_keys(tmp_path_factory.mktemp(f"keys-{count}"), count)
        return made[count]

    return keys


@pytest.fixture(name="server_of")
def _server_of(tmp_path, keys, monkeypatch):
    def server_of(count=5, threshold=0.6, colluders=()):
        nodes = Nodes(tmp_path / "state", keys(count), count, threshold)
        monkeypatch.setattr(handlers, "train_and_save", nodes.train)
        return Server(nodes, colluders)

    return server_of


def up_to_masked(server, clients=None, change=0.0):
    """Play the first three stages as an honest server does."""
    clients = list(server.nodes.clients if clients is None else clients)
    for stage in (server.publish, server.share):
        for client in clients:
            stage(client)
    for client in clients:
        server.train(client, change=change)


def finish(server, alive):
    """Play the last two stages as an honest server does; return the sum."""
    for client in alive:
        server.confirm(client, alive)
    revealed = {client: server.reveal(client, alive) for client in list(alive)[: server.session.threshold]}
    return server.unmask(alive, revealed)


@pytest.mark.parametrize("count", SIZES)
def test_an_honest_server_gets_the_sum(server_of, count):
    server = server_of(count)
    up_to_masked(server)
    alive = list(server.nodes.clients)[: server.session.threshold]
    assert np.array_equal(finish(server, alive), server.true_sum(alive))
    assert server.exposed() == [set(alive)]


def attack_client_0(server):
    """Let client 0 mask for few peers, of each of which enough clients are told that it dropped out."""
    clients = server.nodes.clients
    for stage in (server.publish, server.share):
        for client in clients:
            stage(client)
    few, alive = lists_against(0, clients, server.session.threshold)
    for client in clients:
        server.train(client, few if client == 0 else clients)
    refusals = {}
    for client in clients:
        with contextlib.suppress(ValueError):
            server.confirm(client, alive[client])
        try:
            server.reveal(client, alive[client])
        except (InputError, ValueError) as refused:
            refusals[client] = str(refused)
    return refusals


@pytest.mark.parametrize("count", SIZES)
def test_different_peers_and_survivors_for_each_client(server_of, count):
    server = server_of(count)
    refusals = attack_client_0(server)
    assert len(refusals) == count
    assert all(
        "clients signed which vectors" in text or "did not arrive" in text for text in refusals.values()
    )
    assert not server.exposed()
    assert not any(server.shares.values())


@pytest.mark.parametrize("count", SIZES[:3])
def test_without_the_checks_of_nodes_the_attack_succeeds(server_of, monkeypatch, count):
    monkeypatch.setattr(handlers.Round, "_check_agreement", lambda *_: None)
    monkeypatch.setattr(Participant, "_check_alive", lambda self, alive: set(alive))
    server = server_of(count)
    assert attack_client_0(server) == {}
    assert {0} in server.exposed()


def test_a_client_that_is_told_that_it_dropped_reveals_nothing(server_of):
    server = server_of()
    up_to_masked(server)
    alive = [0, 1, 2, 3]
    for client in alive:
        server.confirm(client, alive)
    statement = server.statement(0, alive)
    for call in (
        lambda: server.confirm(4, alive),
        lambda: server.reveal(4, alive, server.signatures[statement]),
    ):
        with pytest.raises(ValueError, match="the server says that this client's vector did not arrive"):
            call()


def test_alive_sets_of_different_size_have_no_common_signatures(server_of):
    server = server_of()
    up_to_masked(server)
    lists = [[0, 1, 2, 3, 4], [0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 4], [0, 2, 4]]
    for client, alive in enumerate(lists):
        with contextlib.suppress(ValueError):
            server.confirm(client, alive)
    for client in server.nodes.clients:
        for alive in lists:
            every = {one: made for signed in server.signatures.values() for one, made in signed.items()}
            with pytest.raises((InputError, ValueError), match=r"clients signed which|did not arrive"):
                server.reveal(client, alive, every)
    with pytest.raises(ValueError, match="2 vectors arrived, fewer than 3"):
        server.confirm(0, [0, 1])


def test_a_client_signs_one_statement_for_its_secrets_also_if_its_memory_is_lost(server_of):
    server = server_of()
    up_to_masked(server)
    before = copy.deepcopy(server.nodes.memory[0])
    server.confirm(0, [0, 1, 2, 3, 4])
    server.confirm(0, [0, 1, 2, 3, 4])
    server.nodes.memory[0] = before
    with pytest.raises(InputError, match="it has already signed a different statement"):
        server.confirm(0, [0, 1, 2, 3])
    # Nor does it reveal by another statement that others signed.
    for client in (1, 2, 3):
        server.confirm(client, [0, 1, 2, 3])
    with pytest.raises(InputError, match="it has already signed a different statement"):
        server.reveal(0, [0, 1, 2, 3])


def test_signers_count_once_and_only_if_their_vectors_arrived(server_of):
    server = server_of()
    up_to_masked(server)
    alive = [0, 1, 2]
    for client in (0, 1):
        server.confirm(client, alive)
    statement = server.statement(0, alive)
    signed = server.signatures[statement]
    keys = server.nodes.keys
    forged = {
        "too few": signed,
        "a signer whose vector did not arrive": signed | {3: sign_message(keys / "node-3.key", statement)},
        "one signature under two names": signed | {2: signed[1]},
        "another statement": signed | {2: sign_message(keys / "node-2.key", statement + b"x")},
        "nonsense": signed | {2: b"x" * 100},
    }
    for signatures in forged.values():
        with pytest.raises(InputError, match="2 clients signed which vectors arrived, fewer than 3"):
            server.reveal(0, alive, signatures)
    with pytest.raises(ValueError, match="a client is named twice"):
        decode_clients(ConfigRecord({"clients": [0, 1, 1]}))


def test_signatures_of_an_aborted_attempt_are_worthless(server_of):
    server = server_of()
    up_to_masked(server)
    alive = list(server.nodes.clients)
    for client in alive:
        server.confirm(client, alive)
    old = server.signatures[server.statement(0, alive)]
    up_to_masked(server)
    with pytest.raises(InputError, match="0 clients signed which vectors arrived"):
        server.reveal(0, alive, old)
    assert np.array_equal(finish(server, alive), server.true_sum(alive))


def test_swapped_and_invented_keys(server_of, tmp_path):
    server = server_of()
    for client in server.nodes.clients:
        server.publish(client)
    own = Secrets.new().public
    make_node_key(tmp_path, "node-9")
    sybil = own._replace(signature=sign_message(tmp_path / "node-9.key", own.message(server.session, 9)))
    lists = {
        "of client 1 are not signed": {1: own._replace(signature=server.keys[1].signature)},
        "client 1 are not signed by its node": {1: server.keys[2], 2: server.keys[1]},
        "other keys as those of this client": {0: server.keys[0]._replace(masks=own.masks)},
        "node-9.pub is not a node's public key": {9: sybil},
    }
    for changed in lists.values():
        with pytest.raises((InputError, ValueError), match=r"are not signed by its node|node-9\.pub is not"):
            server.share(0, server.keys | changed)
    # Keys of another round or threshold.
    later = server.session._replace(round=2)
    stale = {client: PublicKeys(*keys) for client, keys in server.keys.items()}
    server.session = later
    server.publish(0)
    with pytest.raises(InputError, match="the keys sent for client 1 are not signed"):
        server.share(0, {**stale, 0: server.keys[0]})


@pytest.mark.parametrize("threshold", [1, 2, 4, 5])
def test_the_threshold_is_that_of_the_nodes_config(server_of, threshold):
    server = server_of()
    server.session = server.session._replace(threshold=threshold)
    for client in server.nodes.clients:
        server.publish(client)

    def share_and_train():
        for client in server.nodes.clients:
            server.share(client)
        server.train(0)

    with pytest.raises((InputError, ValueError), match=r"is not safe|but that of the config is 3"):
        share_and_train()
    assert not server.sent


def test_different_thresholds_for_each_client_do_not_fit_together(server_of):
    server = server_of()
    for client in server.nodes.clients:
        server.session = server.session._replace(threshold=3 if client else 4)
        server.publish(client)
    server.session = server.session._replace(threshold=3)
    with pytest.raises(InputError, match="the keys sent for client 0 are not signed"):
        server.share(1)


def test_a_vector_is_masked_once_also_if_memory_is_lost(server_of):
    server = server_of()
    clients = server.nodes.clients
    for stage in (server.publish, server.share):
        for client in clients:
            stage(client)
    before = copy.deepcopy(server.nodes.memory[0])
    server.train(0)
    for change, message in ((0.0, "it has already masked with these secrets"), (1e-7, "a different model")):
        server.nodes.memory[0] = copy.deepcopy(before)
        with pytest.raises(InputError, match=message):
            server.train(0, change=change)
    # Nor are its secrets shared a second time.
    server.nodes.memory[1] = copy.deepcopy(server.nodes.memory[1])
    server.nodes.memory[1].config_records["secure_aggregation"]["stage"] = 1
    with pytest.raises(InputError, match="it has already shared these secrets"):
        server.share(1)


def test_a_damaged_history_is_not_an_empty_one(server_of):
    server = server_of()
    up_to_masked(server)
    path = server.nodes.options[0].state / "sums-0.json"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(Damaged, match=r"sums-0\.json"):
        server.confirm(0, server.nodes.clients)


def test_a_round_has_one_vector_and_one_sum_but_for_exact_repeats(server_of):
    """Two sums of nearly the same model over different clients would differ by one client's vector."""
    server = server_of(threshold=0.8)
    alive = list(server.nodes.clients)
    up_to_masked(server)
    first = finish(server, alive)
    assert np.array_equal(first, server.true_sum(alive))
    up_to_masked(server)
    for client in alive[1:]:
        server.confirm(client, alive[1:])
    with pytest.raises(InputError, match="it has already helped to unmask a different sum of round 1"):
        server.reveal(1, alive[1:])
    # Another last bit of one weight.
    for stage in (server.publish, server.share):
        for client in alive:
            stage(client)
    change = float(np.spacing(np.float32(server.broadcast().weights.parameters[0])))
    with pytest.raises(InputError, match="it has already trained a different model in round 1 of this run"):
        server.train(0, change=change)
    # Exact repeats give the same sum.
    up_to_masked(server)
    assert np.array_equal(finish(server, alive), first)
    # Other names of the run are refused.
    server.session = server.session._replace(run="0" * 32)
    with pytest.raises(InputError, match="the server names another run than that of this node's config"):
        server.publish(0)


def test_failed_trainings_answer_one_question_in_a_round(server_of, monkeypatch):
    """Whether an update exceeds its bounds depends on the model and the data: one model per round."""
    server = server_of()
    for stage in (server.publish, server.share):
        for client in server.nodes.clients:
            stage(client)

    def exceed(*_):
        raise OutOfBound("a value of 12345")

    with monkeypatch.context() as patched:
        patched.setattr(handlers, "encode_update", exceed)
        for _ in range(2):
            with pytest.raises(InputError, match="its values exceed the bounds") as refused:
                server.train(0, change=1.0)
            assert "12345" not in str(refused.value)
        with pytest.raises(InputError, match="it has already trained a different model in round 1"):
            server.train(0, change=2.0)
    # Nor with new secrets.
    for stage in (server.publish, server.share):
        for client in server.nodes.clients:
            stage(client)
    with pytest.raises(InputError, match="it has already trained a different model in round 1"):
        server.train(0)


def test_a_round_has_one_vector_for_a_model(server_of):
    """The server names the state that a client starts from, which may change its vector."""
    server = server_of()
    up_to_masked(server)
    for stage in (server.publish, server.share):
        for client in server.nodes.clients:
            stage(client)
    true = server.nodes.update

    def update(client, broadcast):
        found = true(client, broadcast)
        found.weights.parameters[0] += 1e-6
        return found

    server.nodes.update = update
    with pytest.raises(InputError, match="it has already sent a different vector in round 1 of this run"):
        server.train(0)


def test_clients_with_another_model_spoil_the_sum(server_of):
    """A model that leaves all but one client without a gradient would reveal the update of that one."""
    server = server_of()
    alive = list(server.nodes.clients)
    for stage in (server.publish, server.share):
        for client in alive:
            stage(client)
    for client in alive:
        server.train(client, change=1.0 if client == 0 else 0.0)
    assert finish(server, alive) is None
    assert {0} not in server.exposed()


@pytest.mark.parametrize(("count", "threshold"), [(5, 0.8), (10, 0.66), (20, 0.66)])
def test_as_many_colluders_as_promised_do_not_help(server_of, count, threshold):
    """They sign every statement and show their shares; the same attack needs one more."""
    tolerated = 2 * server_of(count, threshold).nodes.threshold - count - 1
    assert tolerated > 0
    server = server_of(count, threshold, range(count - tolerated, count))
    clients, least = server.nodes.clients, server.session.threshold
    for stage in (server.publish, server.share):
        for client in clients:
            stage(client)
    honest = [client for client in clients if client not in server.colluders]
    # Client 0 masks for the colluders and as few honest clients as it accepts.
    few = [0, *honest[1 : least - tolerated], *server.colluders]
    for client in honest:
        server.train(client, few if client == 0 else clients)
    alive = [client for client in clients if client not in few or client == 0 or client in server.colluders]
    alive += few[1 : 1 + max(0, least - len(alive))]
    for client in honest:
        with contextlib.suppress(ValueError, InputError):
            server.confirm(client, alive)
    for client in honest:
        with contextlib.suppress(ValueError, InputError):
            server.reveal(client, alive)
    for readable in server.exposed():
        assert len(readable) >= least - tolerated


def test_shares_of_both_kinds_do_not_come_from_two_attempts(server_of):
    """Client 0 keeps its secrets while the others make new ones; each attempt has other survivors."""
    server = server_of(threshold=0.6)
    clients = list(server.nodes.clients)
    up_to_masked(server)
    sealed = {client: dict(shares) for client, shares in server.sealed.items()}
    for client in clients:
        server.confirm(client, clients)
    for client in clients[3:]:
        server.reveal(client, clients)
    kept = server.nodes.memory[0]
    for stage in (server.publish, server.share):
        for client in clients[1:]:
            with contextlib.suppress(ValueError, InputError):
                stage(client)
    server.nodes.memory[0] = kept
    for client in clients[1:3]:
        with contextlib.suppress(ValueError, InputError):
            server.train(client, clients)
            server.confirm(client, clients[1:])
        with contextlib.suppress(ValueError, InputError):
            server.reveal(client, clients[1:], sealed={one: sealed[one][client] for one in clients})
    assert not server.exposed()

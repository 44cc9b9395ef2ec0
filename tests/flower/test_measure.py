"""Forgetting measured in Flower's own strategies, through both of Flower's interfaces, without a network."""

import copy
import functools
import json
import logging
from threading import Lock

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import Server, SimpleClientManager
from flwr.server import strategy as legacy
from flwr.server.client_proxy import ClientProxy
from flwr.serverapp import strategy as message_based

import eunoe
from eunoe.analysis.remedies import REMEDIES
from eunoe.errors import InputError
from eunoe.flower.measure import average, measure
from eunoe.metrics.observer import Forgetting
from eunoe.store.reader import find_folders, read_run
from tests.cli.command import eunoe as command

pytestmark = pytest.mark.usefixtures("server_process")
CLASSES, NODES, ROUNDS = 3, (2**63 + 5, 17, 4), 3
TEST = (torch.eye(CLASSES, dtype=torch.float64).repeat(4, 1) + 0.1, torch.arange(CLASSES).repeat(4))


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(CLASSES, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)).double()


def trained(arrays: list[np.ndarray], node: int) -> list[np.ndarray]:
    """Stands in for local training: pulls the model toward the node's one class."""
    model = new_model()
    model.load_state_dict(dict(zip(model.state_dict(), map(torch.tensor, arrays), strict=True)))
    label = NODES.index(node) % CLASSES
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    x = torch.eye(CLASSES, dtype=torch.float64)[[label] * 4] + torch.linspace(0, 0.3, 4)[:, None]
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), torch.full((4,), label)).backward()
        optimizer.step()
    return [value.numpy() for value in model.state_dict().values()]


class Grid:
    """Answers messages at once, by training here; a node listed as broken answers with an error."""

    def __init__(self, broken: dict[int, int] | None = None, same: bool = False) -> None:
        self.broken, self.same = broken or {}, same

    def get_node_ids(self):
        return NODES

    def send_and_receive(self, messages, *, timeout=None):
        for message in sorted(messages, key=lambda message: message.metadata.dst_node_id):
            message.metadata.__dict__["_message_id"] = "x"
            record = message.content["arrays"]
            node = message.metadata.dst_node_id
            if self.broken.get(node) == message.content["config"]["server-round"]:
                yield Message(Error(code=3, reason="broken"), reply_to=message)
                continue
            arrays = trained(record.to_numpy_ndarrays(), NODES[0] if self.same else node)
            content = {
                "arrays": ArrayRecord({key: torch.tensor(a) for key, a in zip(record, arrays, strict=True)}),
                "metrics": MetricRecord({"num-examples": 4}),
            }
            yield Message(RecordDict(content), reply_to=message)


def run_message_based(strategy, **grid):
    arrays = ArrayRecord(new_model().state_dict())
    return strategy.start(Grid(**grid), arrays, num_rounds=ROUNDS).arrays.to_numpy_ndarrays()


# Flower asks clients in threads, and where two of them make optimizers at once Python 3.11 may fail in the
# parser that torch uses ("AST constructor recursion depth mismatch").
ONE_AT_A_TIME = Lock()


class Proxy(ClientProxy):
    """A client of the older interface that trains here."""

    def __init__(self, node, same=False):
        super().__init__(str(node))
        self.node, self.same = (NODES[0] if same else node), same

    def fit(self, ins, timeout, group_id):
        with ONE_AT_A_TIME:
            arrays = trained(parameters_to_ndarrays(ins.parameters), self.node)
        return FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), 4, {})

    get_properties = get_parameters = evaluate = reconnect = None


def run_legacy(strategy, same=False):
    manager = SimpleClientManager()
    for node in NODES:
        manager.register(Proxy(node, same))
    server = Server(client_manager=manager, strategy=strategy)
    server.fit(ROUNDS, None)
    return parameters_to_ndarrays(server.parameters)


def initial():
    return ndarrays_to_parameters([value.numpy() for value in new_model().state_dict().values()])


class InOrder:
    """The older interface aggregates replies in order of arrival; here always in the same, for exact sums."""

    def aggregate_fit(self, server_round, results, failures):
        assert not failures, "Flower would go on without them"
        return super().aggregate_fit(server_round, sorted(results, key=lambda pair: pair[0].cid), failures)


class LegacyFedAvg(InOrder, legacy.FedAvg):
    pass


class LegacyFedAdam(InOrder, legacy.FedAdam):
    pass


class PassingFedAvg(message_based.FedAvg):
    """Does not name the arguments that it passes on, as wrappers do."""

    def configure_train(self, *args, **kwargs):
        return super().configure_train(*args, **kwargs)

    def aggregate_train(self, server_round, *args):
        return super().aggregate_train(server_round, *args)


class PassingLegacyFedAvg(LegacyFedAvg):
    """The same in the older interface."""

    def configure_fit(self, **kwargs):
        return super().configure_fit(**kwargs)

    def aggregate_fit(self, *args, **kwargs):
        return super().aggregate_fit(*args, **kwargs)


QUIET = {"fraction_evaluate": 0.0}
CASES = {
    "fedavg on messages": (lambda: message_based.FedAvg(**QUIET), run_message_based),
    "fedadam on messages": (lambda: message_based.FedAdam(**QUIET), run_message_based),
    "fedavg before": (lambda: LegacyFedAvg(initial_parameters=initial(), **QUIET), run_legacy),
    "fedadam before": (lambda: LegacyFedAdam(initial_parameters=initial(), **QUIET), run_legacy),
    "a wrapper on messages": (lambda: PassingFedAvg(**QUIET), run_message_based),
    "a wrapper before": (lambda: PassingLegacyFedAvg(initial_parameters=initial(), **QUIET), run_legacy),
}


@pytest.fixture(params=CASES, name="case")
def _case(request):
    return CASES[request.param]


def test_training_is_left_as_it_was(case):
    new_strategy, run = case
    plain = run(new_strategy())
    watched = run(measure(new_strategy(), new_model(), TEST))
    assert all(np.array_equal(a, b) for a, b in zip(plain, watched, strict=True))


def noting_models(strategy, models):
    """Append each model that the strategy aggregates, before anything else gets it."""
    name, read = (
        ("aggregate_train", lambda record: record.to_numpy_ndarrays())
        if hasattr(strategy, "aggregate_train")
        else ("aggregate_fit", parameters_to_ndarrays)
    )
    aggregate = getattr(strategy, name)

    def noted(*args, **kwargs):
        result = aggregate(*args, **kwargs)
        models.append(read(result[0]))
        return result

    setattr(strategy, name, functools.wraps(aggregate)(noted))
    return strategy


def test_averaging_returns_the_average_and_clients_train_the_newest_model(case):
    new_strategy, run = case
    plain, below = [], []
    run(noting_models(new_strategy(), plain))
    final = run(average(noting_models(new_strategy(), below), decay=0.5))
    for newest, unaveraged in zip(below, plain, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(newest, unaveraged, strict=True))
    for found, first, second, third in zip(final, *plain, strict=True):
        by_hand = (first + 2 * second + 4 * third) / 7 if first.dtype.kind == "f" else third
        assert np.allclose(found, by_hand, rtol=1e-12)


def rounds(forgetting):
    """The numbers of global models, without clients, which the older interface asks in threads."""
    return [(record["test"], record["forgetting"], record.get("sent")) for record in forgetting.metrics]


def steps(forgetting):
    probes = [probe for probe in forgetting.probes if probe["probe"] == "local_per_class"]
    return [(probe["start"], sorted(probe["local"]), probe["merged"]) for probe in probes]


def test_averaging_and_measuring_have_no_order(case):
    new_strategy, run = case
    plain = measure(new_strategy(), new_model(), TEST)
    run(plain)
    strategies = (
        measure(average(new_strategy(), decay=0.5), new_model(), TEST),
        average(measure(new_strategy(), new_model(), TEST), decay=0.5),
    )
    finals = [run(strategy) for strategy in strategies]
    assert all(np.array_equal(a, b) for a, b in zip(*finals, strict=True))
    first, second = (strategy.forgetting for strategy in strategies)
    assert rounds(first) == rounds(second)
    # What a round does to the model that clients train is measured as without averaging.
    assert steps(first) == steps(second) == steps(plain.forgetting)
    for averaged, alone in zip(first.metrics, plain.forgetting.metrics, strict=True):
        assert averaged["sent"] == {key: alone[key] for key in averaged["sent"]}
    by_hand, model = Forgetting(TEST, CLASSES), new_model()
    model.load_state_dict(dict(zip(model.state_dict(), map(torch.tensor, finals[0]), strict=True)))
    by_hand.start(model)
    by_hand.hidden(0)
    by_hand.aggregated(model)
    assert by_hand.metrics[0]["test"] == first.metrics[-1]["test"] != plain.forgetting.metrics[-1]["test"]


def test_a_model_from_elsewhere_begins_another_average():
    strategy, models = message_based.FedAvg(**QUIET), []
    average(noting_models(strategy, models), decay=0.5)
    run_message_based(strategy)
    again = run_message_based(strategy)
    # The second run starts from the initial model, so it repeats the first.
    assert all(np.array_equal(a, b) for a, b in zip(models[0], models[ROUNDS], strict=True))
    assert np.allclose(again[0], (models[3][0] + 2 * models[4][0] + 4 * models[5][0]) / 7)


def test_a_lost_round_does_not_change_the_average():
    strategy, models = message_based.FedAvg(**QUIET), []
    average(strategy, decay=0.5)
    plain = run_message_based(message_based.FedAvg(**QUIET), broken=dict.fromkeys(NODES, 2))
    found = run_message_based(strategy, broken=dict.fromkeys(NODES, 2))
    assert not np.allclose(found[0], plain[0])
    alone = noting_models(message_based.FedAvg(fraction_evaluate=0.0), models)
    alone.start(Grid(), ArrayRecord(new_model().state_dict()), num_rounds=2)
    assert np.allclose(found[0], (models[0][0] + 2 * models[1][0]) / 3)


def test_every_round_is_recorded(case):
    new_strategy, run = case
    strategy = measure(new_strategy(), new_model(), TEST)
    final = run(strategy)
    forgetting = strategy.forgetting
    assert isinstance(forgetting, Forgetting)
    assert [record["round"] for record in forgetting.metrics] == [1, 2, 3]
    assert all(sorted(record["clients"]) == [0, 1, 2] for record in forgetting.metrics)
    local = [probe for probe in forgetting.probes if probe["probe"] == "local_per_class"]
    assert [len(probe["local"]) for probe in local] == [3, 3, 3]
    # Each client pulls the model to its own class, so each forgets the others.
    assert forgetting.summary()["lost_locally"] > 0
    assert local[1]["start"] == local[0]["merged"]
    by_hand = Forgetting(TEST, CLASSES)
    model = new_model()
    model.load_state_dict(dict(zip(model.state_dict(), map(torch.tensor, final), strict=True)))
    by_hand.start(model)
    by_hand.hidden(0)
    by_hand.aggregated(model)
    assert by_hand.metrics[0]["test"] == forgetting.metrics[-1]["test"]


def test_local_forgetting_equals_the_recorder_used_by_hand():
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST)
    run_message_based(strategy)
    by_hand, model = Forgetting(TEST, CLASSES), new_model()
    by_hand.start(model)
    for node in sorted(NODES):
        other = copy.deepcopy(model)
        arrays = trained([value.numpy() for value in model.state_dict().values()], node)
        other.load_state_dict(dict(zip(model.state_dict(), map(torch.tensor, arrays), strict=True)))
        by_hand.local(sorted(NODES).index(node), other)
    by_hand.aggregated(model)
    ours, theirs = by_hand.probes[0], strategy.forgetting.probes[0]
    assert (ours["start"], ours["local"]) == (theirs["start"], theirs["local"])


def test_a_broken_client_is_left_out_and_a_lost_round_leaves_a_gap():
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST)
    run_message_based(strategy, broken={NODES[1]: 1})
    assert [len(record["clients"]) for record in strategy.forgetting.metrics] == [2, 3, 3]
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST)
    run_message_based(strategy, broken=dict.fromkeys(NODES, 2))
    assert [record["round"] for record in strategy.forgetting.metrics] == [1, 3]


def private_cases():
    message, older = message_based, legacy
    average = message.FedAvg(**QUIET)
    before = older.FedAvg(initial_parameters=initial(), **QUIET)
    return [
        (message.DifferentialPrivacyServerSideFixedClipping(average, 0.0, 10.0, 3), run_message_based),
        (message.DifferentialPrivacyClientSideFixedClipping(average, 0.0, 10.0, 3), None),
        (older.DifferentialPrivacyServerSideAdaptiveClipping(before, 0.1, 3), None),
        (older.DPFedAvgFixed(before, 3, 10.0, 0.1), None),
        (older.DifferentialPrivacyServerSideFixedClipping(before, 0.0, 10.0, 3), run_legacy),
    ]


@pytest.mark.parametrize("number", range(5))
def test_under_differential_privacy_only_the_round_is_measured(number, caplog):
    strategy, run = private_cases()[number]
    with caplog.at_level(logging.WARNING, logger="flwr"):
        logging.getLogger("flwr").addHandler(caplog.handler)
        strategy = measure(strategy, new_model(), TEST)
        logging.getLogger("flwr").removeHandler(caplog.handler)
    assert "round forgetting only" in caplog.text
    if run is not None:
        run(strategy)
        assert len(strategy.forgetting.metrics) == ROUNDS
        assert strategy.forgetting.metrics[-1]["forgetting"]["round"] is not None
        assert not strategy.forgetting.probes


def test_secure_aggregation_is_noticed():
    """Flower's secure aggregation passes the one sum to the strategy as every client's model."""
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST)
    run_message_based(strategy, same=True)
    older = measure(legacy.FedAvg(initial_parameters=initial(), **QUIET), new_model(), TEST)
    run_legacy(older, same=True)
    for watched in (strategy, older):
        assert len(watched.forgetting.metrics) == ROUNDS
        assert not watched.forgetting.probes


def test_parameters_without_buffers_will_do():
    """Some projects send model.parameters() only."""
    model = new_model()
    strategy = measure(legacy.FedAvg(), model, TEST)
    start = ndarrays_to_parameters([value.detach().numpy() for value in model.parameters()])
    manager = SimpleClientManager()
    for node in NODES:
        manager.register(Proxy(node))
    strategy.configure_fit(server_round=1, parameters=start, client_manager=manager)
    moved = [[value.detach().numpy() + step for value in model.parameters()] for step in (1.0, -1.0)]
    results = [
        (Proxy(node), FitRes(Status(Code.OK, ""), ndarrays_to_parameters(arrays), 1, {}))
        for node, arrays in zip(NODES, moved, strict=False)
    ]
    strategy.aggregate_fit(1, results, [])
    merged, first = strategy.forgetting.probes[0]["merged"], strategy.forgetting.probes[0]["start"]
    assert merged == first


def test_another_model_is_refused_before_anything_is_trained():
    strategy = measure(message_based.FedAvg(**QUIET), nn.Linear(CLASSES, CLASSES).double(), TEST)
    with pytest.raises(InputError, match="pass the same model"):
        run_message_based(strategy)


def test_only_strategies_and_only_once():
    with pytest.raises(InputError, match="not a Flower strategy"):
        measure(object(), new_model(), TEST)
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST)
    with pytest.raises(InputError, match="measure was already called"):
        measure(strategy, new_model(), TEST)
    with pytest.raises(InputError, match="average was already called"):
        average(average(strategy))
    with pytest.raises(InputError, match="decay: input should be less than 1"):
        average(message_based.FedAvg(**QUIET), decay=1)


@pytest.mark.parametrize("label", ["label", "labels"])
def test_loaders_of_dicts(label):
    x, y = TEST
    batches = [{"x": x[rows], label: y[rows], "text": ["a"] * 6} for rows in torch.arange(12).split(6)]
    strategies = [measure(message_based.FedAvg(**QUIET), new_model(), data) for data in (TEST, batches)]
    for strategy in strategies:
        run_message_based(strategy)
    pairs, dicts = (strategy.forgetting.metrics for strategy in strategies)
    assert pairs == dicts
    with pytest.raises(InputError, match="a batch has x, none of which is 'labels'"):
        measure(message_based.FedAvg(**QUIET), new_model(), [{"x": x}])


def test_the_folder_is_a_run_that_can_be_reported(tmp_path):
    strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST, folder=tmp_path / "run")
    assert find_folders([tmp_path]) == [tmp_path / "run"]
    run_message_based(strategy)
    run = read_run(tmp_path / "run")
    assert run.rounds == [1, 2, 3]
    assert list(run.probes) == json.loads(json.dumps(strategy.forgetting.probes))
    with pytest.raises(InputError, match="already contains a run"):
        measure(message_based.FedAvg(**QUIET), new_model(), TEST, folder=tmp_path / "run")


def test_folders_of_measured_runs_in_every_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder, options in (("a/run", {}), ("b/run", {"broken": dict.fromkeys(NODES, 2)})):
        strategy = measure(message_based.FedAvg(**QUIET), new_model(), TEST, folder=folder)
        run_message_based(average(strategy) if options else strategy, **options)
    # The round that was lost has a line, too.
    assert read_run("b/run").rounds == [1, 3]
    table = eunoe.compare(["a", "b"]).table()
    assert [row[:2] for row in table.rows] == [["a/run", "1"], ["b/run", "1"]]
    plain, averaged = eunoe.diagnose("a/run"), eunoe.diagnose("b/run")
    averaging, wsm = REMEDIES["averaging"], REMEDIES["wsm"]
    assert [remedy.code for remedy in plain.remedies] == [averaging.code, wsm.code]
    assert [remedy.code for remedy in averaged.remedies] == [wsm.code]
    assert repr(plain).endswith(said := f"  {wsm.code}: {wsm.reason}"), said
    printed = command("diagnose", "a/run").out
    assert f"  {averaging.code}\n" in printed
    assert "eunoe run" not in printed
    assert eunoe.write_report(["a", "b"], "report.html").exists()
    assert "its data are not on this machine" in command("cure", "a/run").error


@pytest.mark.parametrize("private", [False, True])
def test_the_report_shows_what_was_measured(tmp_path, private):
    strategy = measure(
        message_based.FedAvg(**QUIET), new_model(), TEST, private=private, name="their project"
    )
    run_message_based(strategy)
    html = strategy.forgetting.report(tmp_path / "report.html").read_text()
    assert "their project" in html
    assert ("In which step it is lost" in html) != private


def test_extra_records_in_a_reply_do_not_confuse():
    class Both(message_based.FedAvg):
        def aggregate_train(self, server_round, replies):
            for reply in replies:
                del reply.content["extra"]
            return super().aggregate_train(server_round, replies)

    class Extra(Grid):
        def send_and_receive(self, messages, *, timeout=None):
            for reply in super().send_and_receive(messages, timeout=timeout):
                records = {"extra": ArrayRecord([np.ones(2)]), **reply.content}
                reply.content = RecordDict(records)
                yield reply

    strategy = measure(Both(**QUIET), new_model(), TEST)
    strategy.start(Extra(), ArrayRecord(new_model().state_dict()), 1, train_config=ConfigRecord())
    assert len(strategy.forgetting.probes) == 2

"""The workload on Flower's simulation: its FedAvg, on a local Ray with a single-threaded actor per core."""

import functools
import sys
from collections.abc import Iterable

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from workload import CORES, WORKLOADS, requested_rounds, train_client

WORK, VARIANT = sys.argv[1], sys.argv[2]


@functools.cache
def prepare(name: str) -> tuple:
    """Return what an actor needs in every round: the network and every client's data."""
    torch.set_num_threads(1)
    return WORKLOADS[name].net(), WORKLOADS[name].clients_data()


def client_app(name: str) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        # Imported from its module: a function that is pickled to an actor has an empty cache there.
        from flower_workload import prepare

        net, clients = prepare(name)
        x, y = clients[int(context.node_config["partition-id"])]
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train_client(net, x, y, WORKLOADS[name])
        reply = {
            "arrays": ArrayRecord(net.state_dict()),
            "metrics": MetricRecord({"num-examples": len(x)}),
        }
        return Message(content=RecordDict(reply), reply_to=message)

    return app


class Complete(FedAvg):
    """FedAvg that fails if a client fails, since such a round would be too fast."""

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple:
        replies = list(replies)
        for reply in replies:
            if reply.has_error():
                raise RuntimeError(f"a client failed: {reply.error.reason}")
        return super().aggregate_train(server_round, replies)


def server_app(name: str) -> ServerApp:
    app, work = ServerApp(), WORKLOADS[name]

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        if VARIANT == "eager":
            # Flower polls for replies every 0.1 s, which is most of a short round.
            grid.pull_interval = 0.002
        strategy = Complete(
            fraction_train=work.participants / work.clients,
            min_train_nodes=work.participants,
            min_available_nodes=work.clients,
            fraction_evaluate=0.0,
        )
        arrays = ArrayRecord(work.net().state_dict())
        for rounds in requested_rounds():
            arrays = strategy.start(grid, arrays, num_rounds=rounds).arrays

    return app


if __name__ == "__main__":
    run_simulation(
        server_app(WORK),
        client_app(WORK),
        num_supernodes=WORKLOADS[WORK].clients,
        backend_config={
            "init_args": {"address": "local", "num_cpus": CORES, "_node_ip_address": "127.0.0.1"},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )

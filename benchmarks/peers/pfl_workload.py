"""The workload on pfl-research: one process with a thread per core, or a single-threaded process per core."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

WORKERS = "PFL_WORKER_ADDRESSES"
RANK = "PFL_WORKER_RANK"


def other_workers(count: int) -> list[subprocess.Popen]:
    """Start the other processes of a run; pfl reads their addresses when it is imported."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    os.environ.update({WORKERS: ",".join([address] * count), RANK: "0", "GLOO_SOCKET_IFNAME": "lo"})
    return [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, RANK: str(rank)},
            text=True,
            bufsize=1,
        )
        for rank in range(1, count)
    ]


def main() -> None:
    from workload import CORES, LR, WORKLOADS, requested_rounds

    others = other_workers(CORES) if sys.argv[2] == "processes" and RANK not in os.environ else []

    import numpy as np
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    class Net(torch.nn.Module):
        def __init__(self, net: torch.nn.Module) -> None:
            super().__init__()
            self.net = net

        def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(self.net(x), y)

        def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict:
            return {}

    class OnRequest(TrainingProcessCallback):
        """Continue with the next round only when it is requested."""

        def __init__(self) -> None:
            self.requests, self.left = self.read_requests(), 0

        @staticmethod
        def read_requests() -> Iterator[int]:
            for rounds in requested_rounds():
                for other in others:
                    print(rounds, file=other.stdin)
                yield rounds

        def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
            self.left = next(self.requests)
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            self.left = self.left - 1 or next(self.requests, 0)
            return self.left == 0, Metrics()

    work = WORKLOADS[sys.argv[1]]
    torch.set_num_threads(CORES if sys.argv[2] == "threads" else 1)
    np.random.seed(0)
    data = dict(enumerate(work.clients_data()))
    users = FederatedDataset.from_slices(data, get_user_sampler("minimize_reuse", list(data)))
    net = Net(work.net())
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    never = 10**9
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=never,
            evaluation_frequency=never,
            train_cohort_size=work.participants,
            val_cohort_size=None,
        ),
        SimulatedBackend(training_data=users, val_data=users),
        model,
        NNTrainHyperParams(local_num_epochs=work.epochs, local_learning_rate=LR, local_batch_size=work.batch),
        callbacks=[OnRequest()],
        send_metrics_to_platform=False,
    )
    for other in others:
        other.stdin.close()
        other.wait(timeout=30)


if __name__ == "__main__":
    main()

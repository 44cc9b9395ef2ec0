"""The workload without any framework: a loop and an average, in one process or one per core."""

import multiprocessing
import sys
from multiprocessing.connection import Connection

import torch
from workload import CORES, WORKLOADS, Workload, requested_rounds, train_client

Client = tuple[torch.Tensor, torch.Tensor]


def train(work: Workload, net: torch.nn.Module, start: torch.Tensor, clients: list[Client]) -> torch.Tensor:
    """Train clients from the start weights; return the sum of their models."""
    total = torch.zeros_like(start)
    for x, y in clients:
        torch.nn.utils.vector_to_parameters(start.clone(), net.parameters())
        train_client(net, x, y, work)
        total += torch.nn.utils.parameters_to_vector(net.parameters()).detach()
    return total


def helper(pipe: Connection, work: Workload, clients: list[Client]) -> None:
    torch.set_num_threads(1)
    net = work.net()
    while True:
        start, chosen = pipe.recv()
        pipe.send(train(work, net, torch.from_numpy(start), [clients[k] for k in chosen]).numpy())


def main() -> None:
    work, processes = WORKLOADS[sys.argv[1]], CORES if sys.argv[2] == "processes" else 1
    torch.set_num_threads(1)
    net, clients = work.net(), work.clients_data()
    weights = torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    context, pipes = multiprocessing.get_context("fork"), []
    for _ in range(processes - 1):
        ours, theirs = context.Pipe()
        context.Process(target=helper, args=(theirs, work, clients), daemon=True).start()
        pipes.append(ours)
    for rounds in requested_rounds():
        for _ in range(rounds):
            chosen = torch.randperm(work.clients)[: work.participants].tolist()
            for i, pipe in enumerate(pipes, start=1):
                pipe.send((weights.numpy(), chosen[i::processes]))
            total = train(work, net, weights, [clients[k] for k in chosen[::processes]])
            for pipe in pipes:
                total += torch.from_numpy(pipe.recv())
            weights = total / work.participants


if __name__ == "__main__":
    main()

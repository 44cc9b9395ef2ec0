"""Measure the forgetting of a plain PyTorch FedAvg loop on scikit-learn's digits."""

import copy

import torch
from sklearn.datasets import load_digits
from torch import nn

from eunoe import Forgetting

CLIENTS, PER_ROUND, ROUNDS, EPOCHS = 20, 5, 15, 5


def split(labels: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
    """Give each client two shards of one label each."""
    shards = torch.argsort(labels, stable=True).tensor_split(2 * CLIENTS)
    order = torch.randperm(2 * CLIENTS, generator=generator).tolist()
    return [torch.cat([shards[order[2 * k]], shards[order[2 * k + 1]]]) for k in range(CLIENTS)]


def train(model: nn.Module, x: torch.Tensor, y: torch.Tensor, generator: torch.Generator) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y), generator=generator).split(16):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


def main() -> Forgetting:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    pixels, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(labels)
    rows = torch.randperm(len(y), generator=generator)
    test, x, y = (x[rows[:400]], y[rows[:400]]), x[rows[400:]], y[rows[400:]]
    clients = split(y, generator)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    watch = Forgetting(test, classes=10, name="FedAvg on digits, two classes per client")
    watch.start(model)
    for _ in range(ROUNDS):
        chosen = torch.randperm(CLIENTS, generator=generator)[:PER_ROUND].tolist()
        sums = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
        samples = sum(len(clients[k]) for k in chosen)
        for k in chosen:
            client = copy.deepcopy(model)
            train(client, x[clients[k]], y[clients[k]], generator)
            watch.local(k, client, label_counts=y[clients[k]].bincount(minlength=10))
            for name, tensor in client.state_dict().items():
                sums[name] += tensor * len(clients[k]) / samples
        model.load_state_dict(sums)
        watch.aggregated(model)
    print(watch.summary())
    return watch


if __name__ == "__main__":
    main()

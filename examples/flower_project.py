"""An ordinary Flower project with four lines of Eunoe: a loss that forgets less, averaging, and measuring.

Needs the extras for Flower and Ray, which Flower simulates on; in the clone:
pip install --constraint constraints.txt '.[flower,ray]'
"""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from sklearn.datasets import load_digits
from torch import nn

import eunoe  # Eunoe

CLIENTS, ROUNDS, EPOCHS = 10, 20, 5
server_app = ServerApp()
client_app = ClientApp()


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.tensor(pixels / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]


def new_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


@client_app.train()
def train(message: Message, context: Context) -> Message:
    x, y = (part[400:] for part in digits())
    # Each client has two of the ten digits.
    client = int(context.node_config["partition-id"])
    own = (y == client) | (y == (client + 1) % CLIENTS)
    x, y = x[own], y[own]
    model = new_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = nn.CrossEntropyLoss()
    loss = eunoe.client_loss("wsm", counts=y.bincount(minlength=10))  # Eunoe
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        for rows in torch.arange(len(y)).split(16):
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
    records = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(RecordDict(records), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    test = tuple(part[:400] for part in digits())
    strategy = FedAvg(fraction_train=0.3, fraction_evaluate=0.0)
    strategy = eunoe.flower.measure(eunoe.flower.average(strategy), new_model(), test)  # Eunoe
    strategy.start(grid, ArrayRecord(new_model().state_dict()), ROUNDS)
    print(strategy.forgetting.summary())  # Eunoe


if __name__ == "__main__":
    run_simulation(server_app, client_app, CLIENTS, backend_config={"client_resources": {"num_cpus": 1}})

"""Train your own torch module in a federation and get it back as an ordinary module."""

import torch
from torch import nn

import eunoe


class Net(nn.Module):
    """A small network; methods such as MOON need its `features` and `classifier`."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU())
        self.classifier = nn.Linear(48, 10)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x))


def main() -> None:
    torch.manual_seed(0)
    run = eunoe.run(
        data="digits",
        partition={"name": "dirichlet", "clients": 20, "alpha": 0.1},
        model=Net(),
        method={"name": "moon", "mu": 0.5},
        loss="wsm",
        rounds=20,
        participation=5,
        training={"epochs": 5, "batch_size": 16, "lr": 0.1},
        evaluation={"last": 5},
    )
    trained = run.model()
    print(f"{type(trained).__name__}: accuracy {run.accuracy:.3f}, round forgetting {run.forgetting:.3f}")


if __name__ == "__main__":
    main()

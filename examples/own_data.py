"""Train on your own arrays with client ids, and compare the forgetting of two losses."""

import numpy as np

import eunoe


def sensors(clients: int = 12, size: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return readings, faults and machine ids; each machine has two of six faults."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(6, 16)) * 0.7
    owner = np.repeat(np.arange(clients), size)
    fault = np.array([rng.choice([k % 6, (k + 1) % 6]) for k in owner])
    return (centers[fault] + rng.normal(size=(len(fault), 16))).astype(np.float32), fault, owner


def main() -> None:
    x, y, owner = sensors()
    federation = eunoe.Federation.from_arrays(x, y, client_ids=owner)
    # WSM does not unlearn the classes that a client lacks.
    for loss in ("ce", "wsm"):
        run = eunoe.run(
            federation=federation,
            model={"name": "mlp", "hidden": [32]},
            loss=loss,
            rounds=30,
            participation=2,
            training={"epochs": 10, "batch_size": 16, "lr": 0.1},
            evaluation={"last": 10},
        )
        print(f"{loss}: accuracy {run.accuracy:.3f}, round forgetting {run.forgetting:.3f}")


if __name__ == "__main__":
    main()

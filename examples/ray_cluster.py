"""Run the same config on one core and on Ray, and compare the bits.

Needs the extra for Ray; in the clone: pip install --constraint constraints.txt '.[ray]'.
On a real cluster, pass the address of its head: engine={"name": "ray", "address": "ray-head:6379"}.
"""

import torch

import eunoe


def main() -> None:
    config = {"rounds": 3, "participation": 4, "loss": "wsm", "training": {"lr": 0.1, "batch_size": 16}}
    serial = eunoe.run({**config, "engine": {"name": "serial"}})
    ray = eunoe.run({**config, "engine": {"name": "ray"}})
    same = torch.equal(serial.weights().parameters, ray.weights().parameters)
    print(f"accuracy {ray.accuracy:.3f}; the same bits as on one core: {same}")


if __name__ == "__main__":
    main()

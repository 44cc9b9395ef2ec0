"""What a method knows about the run besides the client or the updates."""

from dataclasses import dataclass, field

import torch

from eunoe.config.options import Privacy, Training
from eunoe.core.tasks import CLASSIFICATION, Task
from eunoe.server.optimizers import ServerOptimizer
from eunoe.server.robust import Aggregation, Mean
from eunoe.server.trainer import ServerTrainer


@dataclass(frozen=True)
class RoundContext:
    """The facts of a run, and of the round it is in."""

    clients: int
    participants: int
    classes: int
    parameters: int
    # Size of the float buffers, such as normalization statistics.
    float_buffers: int
    mean_size: float
    training: Training
    server_optimizer: ServerOptimizer
    seed: int
    aggregation: Aggregation = field(default_factory=Mean)
    privacy: Privacy | None = None
    # Whether, with privacy, clients and noise are drawn from the operating system and not from the seed.
    secret: bool = False
    dtype: torch.dtype = torch.float32
    # Size of the integer buffers, such as counters of batches.
    int_buffers: int = 0
    augmented: bool = False
    has_features: bool = False
    has_batch_norm: bool = False
    # Such as token ids, which cannot be changed by a little.
    integer_inputs: bool = False
    # Whether inputs have several fields or vary in length.
    structured_inputs: bool = False
    round: int = 0
    lr: float = 0.0
    # Only at the server: the public data and what trains on it.
    trainer: ServerTrainer | None = field(default=None, repr=False)
    task: Task = CLASSIFICATION

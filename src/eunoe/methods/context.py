"""Facts about the run and the round that methods receive."""

from dataclasses import dataclass, field

import torch

from eunoe.config.options import Training
from eunoe.core.flat_model import FlatModel
from eunoe.core.tasks import CLASSIFICATION, Task
from eunoe.data.federation import Federation
from eunoe.server.optimizers import ServerOptimizer
from eunoe.server.privacy import ClientPrivacy
from eunoe.server.robust import Aggregation, Mean
from eunoe.server.trainer import ServerTrainer


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Sizes, type and layers of the model."""

    parameters: int
    # Normalization statistics, and counters of batches.
    float_buffers: int = 0
    int_buffers: int = 0
    dtype: torch.dtype = torch.float32
    has_features: bool = False
    has_batch_norm: bool = False

    @classmethod
    def of(cls, model: FlatModel) -> "ModelInfo":
        """Describe a model."""
        sizes = {name: vector.numel() for name, vector in model.weights.vectors().items()}
        return cls(
            **sizes, dtype=model.dtype, has_features=model.has_features, has_batch_norm=model.has_batch_norm
        )


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """Clients, classes and form of the data."""

    clients: int
    classes: int
    # Mean number of training samples of a client.
    mean_size: float
    task: Task = CLASSIFICATION
    augmented: bool = False
    # Inputs such as token ids, to which nothing can be added.
    integers: bool = False
    # Inputs of several fields or of varying length.
    structured: bool = False

    @classmethod
    def of(cls, federation: Federation, augmented: bool) -> "DataInfo":
        """Describe a federation."""
        return cls(
            clients=len(federation),
            classes=federation.classes,
            mean_size=float(federation.sizes.mean()),
            task=federation.task,
            augmented=augmented,
            integers=federation.preprocess.integers,
            structured=federation.form.has_fields or federation.form.ragged,
        )


@dataclass(frozen=True, kw_only=True)
class RoundContext:
    """The facts of a run and of the round it is in."""

    data: DataInfo
    model: ModelInfo
    training: Training
    server_optimizer: ServerOptimizer
    seed: int
    # Clients that are selected in the round; outside of one, the most of any round.
    participants: int
    round: int = 0
    lr: float = 0.0
    aggregation: Aggregation = field(default_factory=Mean)
    privacy: ClientPrivacy | None = None
    # Only at the server: the public data and what trains on it.
    trainer: ServerTrainer | None = field(default=None, repr=False)

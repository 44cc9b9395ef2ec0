"""The kinds of named components and the built-in names.

A new name is one line here, a new kind one `Kind`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of component that a config names.

    `key` is the name in code and in entry points (`eunoe.<key>`), `plural` that in `eunoe list`, `section`
    the part of a config that names one, by default the key. A user's own class must derive from `base`, so
    that naming it cannot call anything else; without a base any class or function is accepted. `prefixes`
    maps the prefix of another library to a function: `flwr:Name` is the result of calling it with Name.
    """

    key: str
    plural: str
    names: Mapping[str, str]
    section: str | None = None
    base: str | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.key.replace("_", " ")


_ALL = (
    Kind(
        "method",
        "methods",
        {
            "central": "eunoe.methods.central:Central",
            "fedacg": "eunoe.methods.fedacg:FedACG",
            "fedavg": "eunoe.methods.fedavg:FedAvg",
            "fedcm": "eunoe.methods.fedcm:FedCM",
            "fedcurv": "eunoe.methods.fedcurv:FedCurv",
            "feddf": "eunoe.methods.feddf:FedDF",
            "feddyn": "eunoe.methods.feddyn:FedDyn",
            "fednova": "eunoe.methods.fednova:FedNova",
            "fedntd": "eunoe.methods.fedntd:FedNTD",
            "fedprox": "eunoe.methods.fedprox:FedProx",
            "fedreg": "eunoe.methods.fedreg:FedReg",
            "fedsam": "eunoe.methods.fedsam:FedSAM",
            "fedvls": "eunoe.methods.fedvls:FedVLS",
            "finetune": "eunoe.methods.finetune:FineTune",
            "flashback": "eunoe.methods.flashback:Flashback",
            "labelwise": "eunoe.methods.labelwise:Labelwise",
            "local": "eunoe.methods.local:Local",
            "moon": "eunoe.methods.moon:Moon",
            "scaffold": "eunoe.methods.scaffold:Scaffold",
        },
        base="eunoe.methods:Method",
    ),
    Kind(
        "loss",
        "losses",
        {
            "balanced": "eunoe.losses.wsm:Balanced",
            "bce": "eunoe.losses.multilabel:BinaryCrossEntropy",
            "ce": "eunoe.losses.cross_entropy:CrossEntropy",
            "fedlc": "eunoe.losses.fedlc:FedLC",
            "fedrs": "eunoe.losses.fedrs:FedRS",
            "huber": "eunoe.losses.regression:Huber",
            "logit_adjusted": "eunoe.losses.wsm:LogitAdjusted",
            "masked": "eunoe.losses.masked:Masked",
            "mse": "eunoe.losses.regression:MeanSquaredError",
            "tce": "eunoe.losses.tce:TCE",
            "wsm": "eunoe.losses.wsm:WSM",
        },
        base="eunoe.losses:Loss",
    ),
    Kind(
        "server_optimizer",
        "server_optimizers",
        {
            "adagrad": "eunoe.server.optimizers:Adagrad",
            "adam": "eunoe.server.optimizers:Adam",
            "fedexp": "eunoe.server.fedexp:FedExP",
            "sgd": "eunoe.server.optimizers:SGD",
            "momentum": "eunoe.server.optimizers:Momentum",
            "yogi": "eunoe.server.optimizers:Yogi",
        },
        base="eunoe.server:ServerOptimizer",
    ),
    Kind(
        "aggregation",
        "aggregations",
        {
            "geometric_median": "eunoe.server.robust:GeometricMedian",
            "krum": "eunoe.server.robust:Krum",
            "mean": "eunoe.server.robust:Mean",
            "median": "eunoe.server.robust:Median",
            "multi_krum": "eunoe.server.robust:MultiKrum",
            "norm_clip": "eunoe.server.robust:NormClip",
            "trimmed_mean": "eunoe.server.robust:TrimmedMean",
        },
        base="eunoe.server:Aggregation",
    ),
    Kind(
        "model",
        "models",
        {
            "cnn": "eunoe.models.cnn:CNN",
            "hf": "eunoe.models.hf:HF",
            "lenet": "eunoe.models.cnn:LeNet",
            "logistic": "eunoe.models.mlp:Logistic",
            "mlp": "eunoe.models.mlp:MLP",
            "mnist_cnn": "eunoe.models.cnn:MnistCNN",
            "resnet18": "eunoe.models.resnet18:ResNet18",
            "signal_cnn": "eunoe.models.cnn:SignalCNN",
            "small_cnn": "eunoe.models.cnn:SmallCNN",
            "text_bag": "eunoe.models.text_cnn:TextBag",
            "text_cnn": "eunoe.models.text_cnn:TextCNN",
        },
    ),
    Kind(
        "data_set",
        "data",
        {
            "digits": "eunoe.data.builtin:digits",
            "digit_attributes": "eunoe.data.builtin:digit_attributes",
            "diabetes": "eunoe.data.builtin:diabetes",
            "mnist": "eunoe.data.builtin:mnist",
            "fashion_mnist": "eunoe.data.builtin:fashion_mnist",
            "cifar10": "eunoe.data.builtin:cifar10",
            "cifar100": "eunoe.data.builtin:cifar100",
            "cinic10": "eunoe.data.builtin:cinic10",
            "femnist": "eunoe.data.builtin:femnist",
            "har": "eunoe.data.builtin:har",
            "omniglot": "eunoe.data.builtin:omniglot",
            "npz": "eunoe.data.sources.npz:npz",
            "folder": "eunoe.data.sources.images:folder",
            "hub": "eunoe.data.sources.hub:hub",
            "signal": "eunoe.data.sources.npz:signal",
            "table": "eunoe.data.sources.table:table",
            "text": "eunoe.data.sources.text:text",
            "heart_disease": "eunoe.data.builtin:heart_disease",
            "banking77": "eunoe.data.builtin:banking77",
            "clinc150": "eunoe.data.builtin:clinc150",
            "shakespeare": "eunoe.data.builtin:shakespeare",
        },
        section="data",
    ),
    Kind(
        "backbone",
        "backbones",
        {"hf": "eunoe.models.hf:HFEncoder"},
    ),
    Kind(
        "partition",
        "partitions",
        {
            "classes": "eunoe.data.partitions.by_class:Classes",
            "dirichlet": "eunoe.data.partitions.by_class:Dirichlet",
            "dirichlet_by_class": "eunoe.data.partitions.by_class:DirichletByClass",
            "iid": "eunoe.data.partitions.without_labels:Iid",
            "natural": "eunoe.data.partitions.without_labels:Natural",
            "quantity": "eunoe.data.partitions.without_labels:Quantity",
            "shards": "eunoe.data.partitions.by_class:Shards",
        },
        prefixes={"flwr": "eunoe.data.partitions.flwr:find_partitioner"},
    ),
    Kind(
        "stream",
        "streams",
        {
            "arrival": "eunoe.data.streams.arrival:Arrival",
            "classes": "eunoe.data.streams.samples:ClassPhases",
            "domain": "eunoe.data.streams.samples:Domain",
            "label_drift": "eunoe.data.streams.samples:LabelDrift",
            "recorded": "eunoe.data.streams.samples:Recorded",
        },
        base="eunoe.data.streams:Stream",
    ),
    Kind(
        "engine",
        "engines",
        {
            "process": "eunoe.engines.process:Process",
            "ray": "eunoe.engines.ray.engine:Ray",
            "serial": "eunoe.engines.serial:Serial",
            "vectorized": "eunoe.engines.vectorized.engine:Vectorized",
        },
        base="eunoe.engines:Engine",
    ),
    Kind(
        "metric",
        "metrics",
        {
            "accuracy": "eunoe.metrics.standard:Accuracy",
            "auroc": "eunoe.metrics.classification:AUROC",
            "balanced_accuracy": "eunoe.metrics.classification:BalancedAccuracy",
            "by_client": "eunoe.metrics.standard:ByClient",
            "calibration_error": "eunoe.metrics.classification:CalibrationError",
            "client_matrix": "eunoe.metrics.local_models:ClientMatrix",
            "clients": "eunoe.metrics.standard:Clients",
            "drift": "eunoe.metrics.local_models:Drift",
            "f1": "eunoe.metrics.sums:F1",
            "forgetting": "eunoe.metrics.global_forgetting:GlobalForgetting",
            "hamming_loss": "eunoe.metrics.sums:HammingLoss",
            "local_per_class": "eunoe.metrics.local_models:LocalPerClass",
            "loss": "eunoe.metrics.standard:Loss",
            "macro_f1": "eunoe.metrics.classification:MacroF1",
            "mae": "eunoe.metrics.sums:MAE",
            "per_class": "eunoe.metrics.standard:PerClass",
            "phases": "eunoe.metrics.phases:Phases",
            "probability": "eunoe.metrics.local_models:Probability",
            "r2": "eunoe.metrics.sums:R2",
            "rmse": "eunoe.metrics.sums:RMSE",
            "subset_accuracy": "eunoe.metrics.sums:SubsetAccuracy",
        },
        section="metrics",
        base="eunoe.metrics:Metric",
    ),
    Kind(
        "tracker",
        "trackers",
        {
            "mlflow": "eunoe.trackers.mlflow:MLflow",
            "tensorboard": "eunoe.trackers.tensorboard:TensorBoard",
            "wandb": "eunoe.trackers.wandb:WandB",
        },
        section="track",
        base="eunoe.trackers.base:Tracker",
    ),
)

KINDS = {kind.key: kind for kind in _ALL}

# Methods that are fedavg with a server optimizer, by their names in the papers.
PRESETS: dict[str, dict[str, Any]] = {
    "fedadagrad": {"name": "adagrad"},
    "fedadam": {"name": "adam"},
    "fedavgm": {"name": "momentum"},
    "fedexp": {"name": "fedexp"},
    "fedyogi": {"name": "yogi"},
    "gma": {"name": "sgd", "gma": 0.4},
}

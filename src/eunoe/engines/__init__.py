"""Where clients train and models are evaluated."""

from eunoe.engines.base import Engine, Trainer
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import LocalEvaluator, SerialTrainer
from eunoe.metrics.base import Evaluator

__all__ = ["ClientStates", "Engine", "Evaluator", "LocalEvaluator", "SerialTrainer", "Trainer"]

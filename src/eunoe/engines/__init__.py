"""Where clients train and models are evaluated."""

from eunoe.engines.base import Engine, Evaluator, Trainer
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import LocalEvaluator, SerialTrainer

__all__ = ["ClientStates", "Engine", "Evaluator", "LocalEvaluator", "SerialTrainer", "Trainer"]

"""Metrics of models, and the base classes for your own."""

from eunoe.metrics.base import Evaluation as Evaluation
from eunoe.metrics.base import EvaluationMetric as EvaluationMetric
from eunoe.metrics.base import Metric as Metric
from eunoe.metrics.base import Predictions as Predictions
from eunoe.metrics.base import Rows as Rows
from eunoe.metrics.base import Snapshot as Snapshot

"""Metrics of models, `eunoe.Forgetting`, and the base classes for your own metric.

`Metric` is the one type to know: it receives snapshots of models and returns numbers. forgetting.py has the
measures of forgetting as pure functions, evaluation.py applies metrics to the rounds of a run.
Not here: the keys under which numbers are recorded (store/schema.py), means over seeds (analysis/).
"""

from eunoe.metrics.base import Evaluation as Evaluation
from eunoe.metrics.base import EvaluationMetric as EvaluationMetric
from eunoe.metrics.base import Metric as Metric
from eunoe.metrics.base import Predictions as Predictions
from eunoe.metrics.base import Rows as Rows
from eunoe.metrics.base import Snapshot as Snapshot

"""Metrics of models, and the base classes for your own."""

from eunoe.metrics.base import Metric as Metric
from eunoe.metrics.base import Place as Place
from eunoe.metrics.base import PlaceMetric as PlaceMetric
from eunoe.metrics.base import Predictions as Predictions
from eunoe.metrics.base import Rows as Rows
from eunoe.metrics.base import Snapshot as Snapshot

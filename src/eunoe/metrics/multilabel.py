"""The standard numbers of several labels at once; their definitions are in sums.py."""

from typing import ClassVar

from eunoe.metrics.sums import SumMetric


class F1(SumMetric):
    """Mean over labels of F1 (macro-F1); a label that is neither there nor predicted is left out."""

    tasks = ("multilabel",)
    number: ClassVar[str] = "f1"


class SubsetAccuracy(F1):
    """Share of samples with every label right."""

    number: ClassVar[str] = "subset_accuracy"


class HammingLoss(F1):
    """Share of all labels of all samples that are wrong."""

    number: ClassVar[str] = "hamming_loss"

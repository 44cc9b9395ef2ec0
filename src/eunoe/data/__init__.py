"""Data sets, partitions and the federation built from them, and the base classes for your own.

Your own data set is a function that returns a `DataSet`; a partition derives from `Partition`.
"""

from eunoe.core.fields import Ragged as Ragged
from eunoe.data.arrays import from_arrays as from_arrays
from eunoe.data.backbone import encoded_by as encoded_by
from eunoe.data.federation import Federation as Federation
from eunoe.data.partitions.base import Partition as Partition
from eunoe.data.samples import DataSet as DataSet
from eunoe.data.samples import Samples as Samples
from eunoe.data.sources.table import from_table as from_table

"""Data sets, partitions, streams, and the `Federation` built from them, which is the type to know.

Your own data set is a function that returns a `DataSet`; your own partition derives from `Partition`. Loading
by name is in loading.py, sources/ reads files and the hub. Batches and model inputs of varying
length are in eunoe.core, training in eunoe.engines.
"""

from eunoe.core.fields import Ragged as Ragged
from eunoe.data.arrays import from_arrays as from_arrays
from eunoe.data.backbone import apply_backbone as apply_backbone
from eunoe.data.federation import Federation as Federation
from eunoe.data.partitions.base import Partition as Partition
from eunoe.data.samples import DataSet as DataSet
from eunoe.data.samples import Samples as Samples
from eunoe.data.sources.table import TableEncoder as TableEncoder
from eunoe.data.sources.table import from_table as from_table
from eunoe.data.sources.text import TextEncoder as TextEncoder

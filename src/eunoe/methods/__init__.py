"""Federated methods, one file each, and the names that your own method imports.

The type to know is `Method`: what clients send and minimize, and how the server aggregates. Losses on
labels are in eunoe.losses, server optimizers in eunoe.server.
"""

from eunoe.core.flat_model import Vectors as Vectors
from eunoe.core.flat_model import Weights as Weights
from eunoe.methods.base import Finished as Finished
from eunoe.methods.base import Method as Method
from eunoe.methods.base import Neutral as Neutral
from eunoe.methods.base import ServerUpdate as ServerUpdate
from eunoe.methods.context import Batch as Batch
from eunoe.methods.context import ClientContext as ClientContext
from eunoe.methods.context import RoundContext as RoundContext
from eunoe.server.aggregate import Aggregate as Aggregate
from eunoe.server.aggregate import Upload as Upload
from eunoe.server.optimizers import Cost as Cost

"""What the server does with a round's updates, and what the author of a server optimizer imports."""

from eunoe.core.flat_model import Vectors as Vectors
from eunoe.server.aggregate import Aggregate as Aggregate
from eunoe.server.cost import Cost as Cost
from eunoe.server.optimizers import ServerOptimizer as ServerOptimizer
from eunoe.server.robust import Aggregation as Aggregation

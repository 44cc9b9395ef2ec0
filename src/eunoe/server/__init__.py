"""What the server does with a round's updates.

Checks, sums, robust aggregation, privacy, secure sums, optimizers and averaging. Nothing here knows an engine
or a method. The type to know is `Aggregate`, the sums of a round.
"""

from eunoe.core.flat_model import Vectors as Vectors
from eunoe.server.aggregate import Aggregate as Aggregate
from eunoe.server.optimizers import Cost as Cost
from eunoe.server.optimizers import ServerOptimizer as ServerOptimizer
from eunoe.server.robust import Aggregation as Aggregation

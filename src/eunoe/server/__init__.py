"""What the server does with a round's updates, and what the author of a server optimizer imports."""

from eunoe.server.aggregate import Aggregate as Aggregate
from eunoe.server.optimizers import ServerOptimizer as ServerOptimizer

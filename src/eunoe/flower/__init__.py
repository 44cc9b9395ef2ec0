"""Flower: Eunoe's methods in a real federation, and forgetting measured in other people's Flower projects.

`measure` and `average` wrap the strategies of other projects. A federation of Eunoe is a ServerApp (`server`)
that runs the round loop with `engine.RemoteEngine`, the type to know, and a ClientApp (`client`, `node`).
`roster` knows which node is which client, `wire` defines the messages, `own_data` is for clients with their
own data, `secure` holds the protocol of secure aggregation, and `deploy` and `loopback` set a federation up.
Training, aggregation and the run folder are not here: they are those of any run.
"""

from eunoe.flower.measure import average, measure

__all__ = ["average", "measure"]

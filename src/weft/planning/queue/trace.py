"""Prepares a trace for simulation: levels for its orders, a load for the site."""

from __future__ import annotations

from dataclasses import replace

from weft.model.localityorder import Level
from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.queue.simulate import TraceOrder, fits_empty


def nearest(engine: Engine, ask: Ask) -> Level:
    """The nearest level that could hold the order if nothing else were there; `site` if none could.

    Args:
        engine: an empty one.
    """
    for level in engine.ledger.topology.levels:
        if level != "node" and fits_empty(engine, replace(ask, required=level)):
            return level
    return "site"


def nearest_level(topology: Topology, orders: list[TraceOrder]) -> list[TraceOrder]:
    """The orders, each required to be inside the nearest level whose largest domain could hold it."""
    engine = Engine(topology)
    return [replace(o, ask=replace(o.ask, required=nearest(engine, o.ask))) for o in orders]


def at_load(topology: Topology, orders: list[TraceOrder], load: float) -> list[TraceOrder]:
    """The orders, with arrivals scaled so that their node-seconds are this share of the site's until the last one."""
    span = max(o.submitted for o in orders)
    work = sum(o.ask.count * o.duration for o in orders)
    scale = work / (load * len(topology.locations) * span) if span else 1.0
    return [replace(o, submitted=o.submitted * scale) for o in orders]

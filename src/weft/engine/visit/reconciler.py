"""Visits to owners of any kind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from typing import Any

from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.settings import LoopSettings
from weft.engine.visit.ownervisitor import OwnerVisitor
from weft.engine.visit.podvisitor import PodVisitor
from weft.engine.visit.resourcerules import ResourceRules
from weft.engine.visit.tools import NextVisit, Tools
from weft.engine.visit.visitor import Visitor
from weft.model.receipt import Receipt, SignedReceipt
from weft.model.site import Site
from weft.ports.clock import Clock


class CallPool(ThreadPoolExecutor):
    """Threads whose log lines have the pod of the visit that they work for."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """As its base class, with the caller's context variables."""
        return super().submit(copy_context().run, fn, *args, **kwargs)


class Reconciler:
    """One per process: picks the visitor by the owner's kind.

    Args:
        wants: kind -> what is wanted of owners of that kind, which have no order (`weft.engine.visit.resourcerules`).
    """

    def __init__(
        self,
        world: Callable[[], World],
        site: Callable[[], Site],
        sign: Callable[[Receipt], SignedReceipt],
        clock: Clock,
        settings: LoopSettings,
        wants: ResourceRules | None = None,
    ) -> None:
        # Visits aside wait for a fabric or a cloud, each in a thread, in each of the three lanes.
        calls = settings.calls_at_once + 3 * settings.aside_at_once
        pool = CallPool(calls, thread_name_prefix="call")
        tools = Tools(sign, clock, settings, pool)
        self._pods = Visitor(tools, PodVisitor(tools))
        self._others = Visitor(tools, OwnerVisitor(tools, {} if wants is None else wants))
        self._ask = lambda: (world(), site())
        self._known: tuple[tuple[int, datetime], World, Site] | None = None

    def visit(self, held: Held) -> NextVisit:
        """Do what can be done now for an owner; see `Visitor`."""
        if isinstance(held, HeldPod):
            return self._pods.visit(held, self._current)
        return self._others.visit(held, self._current)

    def _current(self, held: Held) -> tuple[World, Site]:
        """Drivers and site of the site's generation that was active when the owner was claimed, or of a newer one."""
        known, stamp = self._known, held.site_stamp
        if known is not None and known[0] == stamp:
            return known[1:]
        world, site = self._ask()
        self._known = (stamp, world, site) if stamp is not None else None
        return world, site

"""The verbs of operators about nodes: who has them, quarantine, holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.app.desk import DeskVerbs
from weft.app.nodepages import NodeMark, node_marks, node_page
from weft.app.show import hold_view, node_view, node_views, views_of_nodes
from weft.app.verbs import Request
from weft.engine.book.capacity import Capacity
from weft.engine.book.occupancy import on_free_node, on_free_nodes
from weft.engine.nodes.nodehistory import node_history
from weft.engine.rows.holds import accept_node, hold_node
from weft.model.errors import ConflictError, NotFoundError
from weft.model.messages import maintenance
from weft.model.site import Site
from weft.model.views import (
    MOST_ENTRIES,
    Acceptance,
    HoldView,
    NodeHistory,
    NodePage,
    NodeSearch,
    NodeState,
    NodeView,
)


class MaintenanceVerbs(DeskVerbs):
    """Verbs of operators, and of programs that accept nodes; see `weft.app.verbs`."""

    def listed(self, request: Request) -> list[NodeView]:
        """All nodes with who has them. Raises `ForbiddenError`."""
        self._desk.policy.check("nodes:list", request.caller)
        return node_views(*self._occupied())

    def page(self, request: Request, wanted: NodeSearch) -> NodePage:
        """A part of `listed`, in less time, with the number of nodes in each state."""
        self._desk.policy.check("nodes:list", request.caller)
        return node_page(*self._occupied(), wanted)

    def marks(self, request: Request) -> Sequence[NodeMark]:
        """What a picture of the site shows of each node, in the site's order; the same object while none changes."""
        self._desk.policy.check("nodes:list", request.caller)
        site, capacity, found, _ = self._occupied()
        return node_marks(site, capacity, found)

    def marks_and_views(
        self, request: Request, states: Collection[NodeState]
    ) -> tuple[Sequence[NodeMark], list[NodeView]]:
        """What `marks` returns, and from the same reading the views of nodes in one of these states."""
        self._desk.policy.check("nodes:list", request.caller)
        site, capacity, found, unknown = self._occupied()
        marks = node_marks(site, capacity, found)
        names = [one.name for one in marks if one.state in states]
        return marks, list(views_of_nodes(names, site, capacity, found, unknown))

    def _occupied(self) -> tuple[Site, Capacity, dict[str, str], dict[str, str]]:
        """Site, capacity, and node that no pod holds -> why it can't be assigned, or why that is unknown."""
        record, capacity = self._desk.store.site(), self._desk.store.capacity()
        found, unknown = dict[str, str](), dict[str, str]()
        held = frozenset(capacity.held)  # is asked about each node
        for cloud, facts in sorted(self._desk.keeper.world_of(record).clouds.items()):
            seen, missing = on_free_nodes(facts, record.site, cloud, held, capacity.gone)
            found |= seen
            unknown |= missing
        return record.site, capacity, found, unknown

    def quarantine(self, request: Request, node: str, reason: str) -> NodeView:
        """Keep a node from being assigned until an operator clears it. Raises `NotFoundError`."""
        with self._desk.logged(request, "node quarantine", node):
            self._desk.policy.check("nodes:quarantine", request.caller)
            self._known_node(node)
            self._desk.store.quarantine(node, reason, request.caller.user_name)
        return self._node(node)

    def clear(self, request: Request, node: str, revision: int | None = None) -> NodeView:
        """Take a node out of quarantine. Args: revision: `PreconditionError` unless the quarantine has this one."""
        with self._desk.logged(request, "node clear", node):
            self._desk.policy.check("nodes:quarantine", request.caller)
            if node not in self._desk.store.capacity().quarantines:
                self._known_node(node)  # one that left the site may still be in quarantine
            if not self._desk.store.clear_quarantine(node, request.caller.user_name, revision):
                raise ConflictError(f"node {node} is not in quarantine")
        return self._node(node)

    def show(self, request: Request, node: str) -> NodeView:
        """One node as `listed` shows it. Raises `NotFoundError`."""
        self._desk.policy.check("nodes:list", request.caller)
        self._known_node(node)
        record, capacity = self._desk.store.site(), self._desk.store.capacity()
        found, unknown = dict[str, str](), dict[str, str]()
        host = record.site.node_by_name.get(node)
        if host is not None and host.is_whole and node not in capacity.held:
            facts = self._desk.keeper.world_of(record).clouds.get(host.cloud or "")
            if facts is not None:
                found, unknown = on_free_node(facts, host, capacity.gone)
        return node_view(record.site, node, capacity, found, unknown)

    def history(
        self, request: Request, node: str, before: int | None = None, limit: int = MOST_ENTRIES
    ) -> NodeHistory:
        """What happened to a node, the newest first; also of one that left the site. Raises `NotFoundError` if nothing
        is known of it.

        Args:
            before: only entries with a lower sequence number.
        """
        self._desk.policy.check("nodes:history", request.caller)
        site = self._desk.store.site().site
        entries = node_history(self._desk.store.database, node, before, limit)
        if not entries and before is None:
            self._known_node(node)
        return NodeHistory(
            node=node,
            in_site=node in site.units,
            kept=site.retention.node_history,
            entries=tuple(entries),
            next=entries[-1].sequence if len(entries) == limit else None,
        )

    def hold(self, request: Request, node: str, what: str) -> NodeView:
        """Keep a node from being assigned until it is accepted for `what`. A pod that has it keeps it: the hold counts
        once the pod has ended. Again with the same `what`: nothing changes. Raises `NotFoundError`.
        """
        with self._desk.logged(request, "node hold", f"{node}: {what}"):
            self._desk.policy.check("nodes:hold", request.caller)
            self._known_node(node)
            hold_node(self._desk.store.database, node, what, request.caller.user_name)
        return self._node(node)

    def accept(
        self,
        request: Request,
        node: str,
        what: str | None = None,
        every: bool = False,
        without_test: str | None = None,
        revision: int | None = None,
    ) -> Acceptance:
        """End the hold of a node for `what`; without `what`, its only hold, or with `every` all of them.

        Args:
            without_test: why it is accepted without the tests that the site wants.
            revision: `PreconditionError` unless it is the highest of the holds that end.

        Raises `ConflictError` if there is no such hold, or several and none is named, or a test isn't proved.
        """
        with self._desk.logged(request, "node accept", f"{node}: {what}" if what else node):
            self._desk.policy.check("nodes:accept", request.caller)
            if without_test is not None:
                self._desk.policy.check("nodes:accept_untested", request.caller)
            if node not in self._desk.store.capacity().stops:
                self._known_node(node)  # one that left the site may still be held
            site = self._desk.store.site().site
            user = request.caller.user_name
            ended, left = accept_node(
                self._desk.store.database, node, what, every, user, site.acceptance, without_test, revision
            )
        accepted, missing = (tuple(hold_view(row, site) for row in rows) for rows in (ended, left))
        return Acceptance(node=node, accepted=accepted, missing=missing)

    def holds(self, request: Request) -> list[HoldView]:
        """All holds, by node; also of nodes that left the site, which are held if they return."""
        self._desk.policy.check("nodes:list_holds", request.caller)
        stops, site = self._desk.store.capacity().stops, self._desk.store.site().site
        return [hold_view(row, site) for _, one in sorted(stops.items()) for row in one.holds]

    def _known_node(self, node: str) -> None:
        if node not in self._desk.store.site().site.units:
            raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))

    def _node(self, node: str) -> NodeView:
        return node_view(self._desk.store.site().site, node, self._desk.store.capacity())

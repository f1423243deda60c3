"""What verbs about orders need: the caller's pod, names resolved, the planning input, the lease."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from weft.app.desk import DeskVerbs, project_id
from weft.app.verbs import Request
from weft.engine.book.capacity import Capacity, seconds_of
from weft.engine.queue.gather import PlanningInput, Window, gather, refused
from weft.engine.queue.waiter import window_of
from weft.engine.queue.waiting import check_later
from weft.engine.rows.basis import SiteChangedError
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, InputError, TemporaryError
from weft.model.ids import span
from weft.model.messages import orders
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.model.pod import ENDED
from weft.model.site import Site, Storage
from weft.model.sshkeys import shortened, wrong_ssh_key
from weft.model.storageorder import StorageOrder
from weft.planning.queue.advice import when_at_most
from weft.planning.queue.book import minute
from weft.planning.queue.extension import why_not_longer
from weft.planning.shapes.resolve import resolve
from weft.planning.shapes.shape import Needs, Resolved
from weft.ports.cloud import Caller, CloudFacts

log = logging.getLogger(__name__)

MOST_SITES = 4
"""How often an order is placed again because another site became active."""
_T = TypeVar("_T")


class Orders(DeskVerbs):
    """What verbs about orders share."""

    def check_exclusive(self, request: Request, project: str, order: Order) -> None:
        """Keeping others off leaves needs a separate rule; so does planning it, since the plan reveals where others
        are.
        """
        if order.locality.exclusive or order.locality.apart_from:
            self._desk.policy.check("pods:create_exclusive", request.caller, project)

    def gather(self, project: str, order: Order) -> tuple[PlanningInput, Resolved]:
        """What an order is planned by, and the order as the site resolves it."""
        record = self._desk.store.site()
        asked = resolve(order, project, record.site)
        given = gather(record, self._desk.keeper.world_of(record), asked.cloud, Needs.of([asked]))
        if error := given.boot_error(asked):
            raise error
        return given, asked

    def by_active_site(self, decide: Callable[[], _T], order: str) -> _T:
        """Run `decide` again if another site became active before its result was written."""
        for _ in range(MOST_SITES):
            try:
                return decide()
            except SiteChangedError as changed:
                log.info("order %s is placed again: %s", order, changed)
        why = f"another site became active {MOST_SITES} times meanwhile"
        raise TemporaryError(f"place pod {order}", "weft", why, "order again")

    def checked(
        self, caller: Caller, asked: Resolved, given: PlanningInput, before: Order | None = None
    ) -> Resolved:
        """The order with its key pair resolved and projects by id, after the cloud confirmed the names in it."""
        cloud, facts = given.site.clouds[asked.cloud], given.world.clouds[asked.cloud]
        part_of = cloud.flavors[asked.flavor] if asked.shape.shares_nodes else None
        facts.check_order(asked.project, asked.order, asked.flavor, part_of)
        named = self.by_id(caller, asked.project, asked.order, facts, cloud.storage, before)
        return asked.naming(named)

    def by_id(
        self,
        caller: Caller,
        project: str,
        order: Order,
        facts: CloudFacts,
        offer: Storage,
        before: Order | None = None,
    ) -> Order:
        """The order with its key pair resolved, projects and existing storage by id.

        Args:
            before: the pod's current order. A key pair that it names too isn't looked up again: key pairs belong to
                users, and another member of the project has none of that name.
        """
        _check_ssh_key(order, before)
        # Names of projects are looked up for operators only, and an unknown id is accepted silently: otherwise callers
        # could find out which projects exist.
        if order.locality.apart_from and self._desk.policy.is_operator(caller):
            known = facts.projects()
            ids = [project_id(one, known, "locality.apart_from") for one in order.locality.apart_from]
            apart = tuple(dict.fromkeys(ids))
            locality = order.locality.model_copy(update={"apart_from": apart})
            order = order.model_copy(update={"locality": locality})
        if order.storage and (before is None or order.storage != before.storage):
            mine = {one for entry in before.storage for one in entry.existing} if before else set[str]()
            storage = facts.check_storage(project, order.storage, offer, mine)
            _check_once(order.storage, storage)
            order = order.model_copy(update={"storage": storage})
        if order.access.key_pair is None:
            return order
        key = before.access.ssh_key if before else None
        note = f"key pair {order.access.key_pair}"
        if key is None or key.split(" ", 2)[2:] != [note]:
            key = facts.public_key(caller.user_id, order.access.key_pair)
        # The key's comment names the key pair, which the resolved order no longer does.
        noted = " ".join((*key.split()[:2], note))
        access = order.access.model_copy(update={"key_pair": None, "ssh_key": noted})
        return order.model_copy(update={"access": access})

    def plan(
        self, pod_id: str, asked: Resolved, given: PlanningInput, capacity: Capacity, window: Window
    ) -> Plan:
        plan = given.plan(pod_id, asked, capacity, window)
        if isinstance(plan, Refusal):
            raise refused(plan)
        return plan

    def window(self, order: Order, site: Site) -> Window:
        """Start and end. Raises `InputError` for a lease that would end before it begins."""
        now = self._desk.clock.now()
        lease = order.lease
        if lease.end is not None and lease.end <= now:
            raise InputError("lease.end", lease.end.isoformat(), instead("a time in the future"))
        start = max(lease.start, now) if lease.start is not None else now
        window = window_of(order, now.timestamp(), start.timestamp())
        field, given = ("lease.duration", lease.duration) if lease.duration else ("lease.end", lease.end)
        check_longest(field, given, window.end, window.now, site)
        return window


def check_longest(field: str, given: object, end: float, now: float, site: Site) -> None:
    """Raise `InputError` for a lease that ends later than the site allows."""
    longest = site.leases.longest
    if longest is not None and end > now + span(longest).total_seconds():
        last = when_at_most(now + span(longest).total_seconds())
        value = given.isoformat() if isinstance(given, datetime) else given
        raise InputError(
            field,
            value,
            instead(
                "an end, {last} at the latest: leases may end at most {longest} from now",
                last=last,
                longest=longest,
            ),
        )


def check_extension(pod: PodRecord, until: datetime | None, capacity: Capacity, site: Site) -> None:
    """Raise `InputError` or `ConflictError` unless the lease may end then; None: no end."""
    if pod.state in ENDED or pod.placed is None:
        raise ConflictError(orders.NOT_EXTENDABLE(pod=pod.name, state=str(pod.state)))
    if until is not None:
        check_later(pod.name, seconds_of(pod.lease_end), until)
    book, later = capacity.book(), seconds_of(until)
    lease = next((k for k in book.leases if k.name == str(pod.id)), None)
    why = why_not_longer(site, pod.placed.fabric, book, lease, later) if lease else None
    if why is not None:
        raise ConflictError(orders.NOT_LONGER(pod=pod.name, end=minute(later), why=why))


def _check_once(asked: Sequence[StorageOrder], found: Sequence[StorageOrder]) -> None:
    """Raise `InputError` for a share or volume that is given twice, by name or id."""
    seen: set[tuple[str, str]] = set()
    for number, (entry, resolved) in enumerate(zip(asked, found, strict=True)):
        for name, one in zip(entry.existing, resolved.existing, strict=True):
            if (entry.kind, one) in seen:
                allowed = f"each {entry.kind} once in an order: {one} is named twice"
                raise InputError(f"storage.{number}.existing", name, allowed)
            seen.add((entry.kind, one))


def _check_ssh_key(order: Order, before: Order | None) -> None:
    """Raise `InputError` for a truncated key, which Nova would refuse only after placement. An unchanged key passes."""
    key = order.access.ssh_key
    if key is not None and not (before and before.access.ssh_key == key) and (allowed := wrong_ssh_key(key)):
        raise InputError("access.ssh_key", shortened(key), allowed)

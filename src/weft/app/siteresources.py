"""The verbs about what a site needs in its clouds: plan, apply, destroy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from weft.app.desk import DeskVerbs
from weft.app.show import record_view
from weft.app.verbs import Request
from weft.engine.base.database import Tx
from weft.engine.hold.ownerstore import release_owner
from weft.engine.proof.othersports import OwnResources, in_groups, listed, others_on
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import ResourceRecord
from weft.engine.site.siteowner import (
    DesiredSite,
    desired_of,
    last_destroyed,
    pods_on,
    pods_with,
    set_desired,
    site_owner,
)
from weft.engine.site.siteplan import PlannedSite, SitePlanner, followed
from weft.model.errors import ConflictError, NotFoundError
from weft.model.pod import Cause, PodState
from weft.model.receipt import SignedReceipt
from weft.model.resources import Kind
from weft.model.siteplan import SitePlan
from weft.model.views import EventView, SiteResources
from weft.planning.words import some

SHOWN = 5
"""Conflicts that an error names."""


class SiteResourceVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def plan(self, request: Request, adopt: bool = False) -> SitePlan:
        """The active site against its clouds; changes nothing.

        Args:
            adopt: adopt existing resources, by MAC address, name or CIDR, instead of creating them.
        """
        self._desk.policy.check("site:plan", request.caller)
        return self._planned(adopt).plan

    def apply(
        self, request: Request, adopt: bool = False, check: Callable[[SitePlan], None] = lambda _: None
    ) -> SitePlan:
        """Apply in the background; returns the plan, which is empty if everything matches the site.

        Args:
            check: raises what forbids this plan.

        Raises `ConflictError` if something of others' is in the way: nothing is changed then.
        """
        with self._desk.logged(request, "site apply", "adopting" if adopt else "the active site"):
            self._desk.policy.check("site:apply", request.caller)
            planned = self._planned(adopt)
            plan = planned.plan
            check(plan)
            if plan.conflicts:
                said = "; ".join(c.what for c in plan.conflicts[:SHOWN])
                more = len(plan.conflicts) - SHOWN
                rest = f"; and {more} more (weft site plan names them all)" if more > 0 else ""
                raise ConflictError(f"{some(len(plan.conflicts), 'thing')} in the way: {said}{rest}")
            if plan.nothing and self._is_applied(planned):
                return plan
            by, database = request.caller.user_name, self._desk.store.database
            given = (planned.graph, planned.adopted, by, planned.former)
            set_desired(database, plan.site, plan.generation, *given)
            return plan

    def resources(self, request: Request) -> SiteResources:
        """What was applied last, also after it was destroyed. Raises `NotFoundError` if nothing ever was."""
        self._desk.policy.check("site:plan", request.caller)
        return self._resources(*self._applied())

    def events(self, request: Request, after: int = 0) -> tuple[UUID, list[EventView]]:
        """The owner of what was applied last, and its events with a sequence above `after`."""
        self._desk.policy.check("site:plan", request.caller)
        owner = self._applied()[0].id
        return owner, self._desk.store.records.events(owner, after)

    def destroy(self, request: Request) -> SiteResources:
        """Remove everything that was applied; a receipt follows.

        Raises `ConflictError` while live pods or others have ports or subnets on its networks, or ports in its groups:
        the removal could not finish. Raises `UnknownError` if these can't be read.
        """
        with self._desk.logged(request, "site destroy", "everything that was applied"):
            self._desk.policy.check("site:destroy", request.caller)
            owner, desired = self._applied()
            if owner.state is PodState.RELEASED:
                raise NotFoundError(f"nothing of site {owner.name} is applied")
            if owner.wanted == "present":
                self._begin_to_destroy(owner, desired, request.caller.user_name)
            return self._resources(*self._applied())

    def abandon(self, request: Request, reason: str) -> SiteResources:
        """End a removal that can't finish: its receipt is clean only if it did finish after all."""
        with self._desk.logged(request, "site abandon", reason[:255]):
            self._desk.policy.check("site:destroy", request.caller)
            owner, _ = self._applied()
            if not self._desk.store.abandon(owner.id, request.caller.user_name, reason):
                raise ConflictError(f"the resources of site {owner.name} aren't being destroyed")
            return self._resources(*self._applied())

    def receipt(self, request: Request) -> SignedReceipt:
        """Receipt of the last removal, also if the site was applied again since."""
        self._desk.policy.check("site:plan", request.caller)
        site = self._desk.store.site().site.name
        destroyed = last_destroyed(self._desk.store.database, site)
        receipt = self._desk.store.records.receipt(destroyed) if destroyed is not None else None
        if receipt is None:
            raise NotFoundError(f"there is no receipt: nothing of site {site} was destroyed yet")
        return receipt

    def _planned(self, adopt: bool) -> PlannedSite:
        return SitePlanner(self._desk.store, self._desk.keeper.world(), self._desk.store.site()).plan(adopt)

    def _is_applied(self, planned: PlannedSite) -> bool:
        """Whether applying it again would change no row; a new generation number alone doesn't count."""
        if not planned.graph.resources:
            return True
        try:
            owner, desired = self._applied()
        except NotFoundError:
            return False
        return owner.state is PodState.READY and desired.graph == planned.graph

    def _applied(self) -> tuple[OwnerRecord, DesiredSite]:
        site = self._desk.store.site().site.name
        with self._desk.store.database.transaction() as tx:
            owner = site_owner(tx, site)
            desired = desired_of(tx, owner.id) if owner is not None else None
        if owner is None:
            raise NotFoundError(f"nothing of site {site} was ever applied: weft site apply")
        if desired is None:
            raise NotFoundError(
                f"nothing of site {site} is applied; what was destroyed is in weft site receipt"
            )
        return owner, desired

    def _begin_to_destroy(self, owner: OwnerRecord, desired: DesiredSite, by: str) -> None:
        records = self._desk.store.pods.resources(owner.id)
        with self._desk.store.database.statement() as tx:
            _check_unused(tx, desired, records)
        self._check_alone(records)
        # No order is placed meanwhile.
        with self._desk.store.database.placing() as tx:
            _check_unused(tx, desired, records)
            release_owner(tx, owner.id, f"destroy requested by {by}", tx.now())

    def _check_alone(self, records: Sequence[ResourceRecord]) -> None:
        there = {r.outside_id: r for r in records if r.outside_id}
        world, found = self._desk.keeper.world(), list[str]()

        def named(kind: Kind, where: str) -> dict[str, str]:
            here = {id_: r for id_, r in there.items() if (r.kind, r.resource.where) == (kind, where)}
            return {id_: r.resource.name for id_, r in here.items()}

        for where in sorted({r.resource.where for r in there.values()} & world.clouds.keys()):
            own = OwnResources.of([r for r in records if r.resource.where == where])
            if networks := named(Kind.NETWORK, where):
                others = others_on(world, where, networks, own)
                found += [f"{one} on {networks[net]}" for net, on_it in others.items() for one in on_it]
            found += in_groups(world, named(Kind.SECURITY_GROUP, where), where, own.ports)
        if found:
            said = f"others use networks or groups of the site: {listed(found)}"
            raise ConflictError(f"{said}; remove them first")

    def _resources(self, owner: OwnerRecord, desired: DesiredSite) -> SiteResources:
        records = self._desk.store.pods.resources(owner.id)
        return SiteResources(
            id=str(owner.id),
            site=owner.name,
            generation=desired.generation,
            applied_at=desired.applied_at,
            applied_by=desired.applied_by,
            state=owner.state,
            reason=owner.reason,
            since=owner.since,
            done=owner.state is PodState.READY
            and not owner.repair
            and owner.changed_at is None
            and followed(records, desired.graph),
            needs_person=any(c.reason is Cause.PERSON_NEEDED for c in owner.conditions),
            resources=tuple(record_view(r) for r in records),
            has_receipt=self._desk.store.records.receipt(owner.id) is not None,
        )


def _check_unused(tx: Tx, desired: DesiredSite, records: Sequence[ResourceRecord]) -> None:
    on = pods_on(tx, [r for r in records if r.kind is Kind.NETWORK])
    used = [f"{pod} on {network}" for network, pods in on.items() for pod in pods]
    flavors = {(r.where, r.name) for r in desired.graph.resources if r.kind is Kind.FLAVOR}
    used += [
        f"{pod} with flavor {name}" for (_, name), pods in pods_with(tx, flavors).items() for pod in pods
    ]
    if used:
        raise ConflictError(f"pods use networks or flavors of the site: {listed(used)}; release them first")

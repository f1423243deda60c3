"""What a new site must not change: what live pods, and the site's own resources, depend on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.database import Tx
from weft.engine.book.capacity import Capacity, read_capacity
from weft.engine.hold.ownerstore import live_owners
from weft.engine.rows.keptmachines import keep_machines, kept_machines
from weft.engine.store.store import Store
from weft.model.errors import ConflictError
from weft.model.resources import Resource
from weft.model.site import Fabric, IpuMachine, Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.topology import NO_FABRIC
from weft.ports.existing import HasExisting


class SiteHolds:
    """Refuses a new site that removes or changes what is held."""

    def __init__(self, store: Store, keeper: WorldKeeper) -> None:
        self._store, self._keeper = store, keeper

    def check(self, tx: Tx, site: Site) -> None:
        """Raise `ConflictError`. Call it in the activating transaction under `lock_capacity`: no claim intervenes."""
        capacity = read_capacity(tx)
        # A place on a shared host is `host/<node>/<number>`.
        hosts = {slot.node.split("/")[1]: slot for slot in capacity.places}
        shared = {hold.node: hold for hold in capacity.shared}
        holds = {**hosts, **shared, **capacity.holds}
        kept = _kept_back(capacity)
        before = self._store.site().site if holds or kept or capacity.used.segments else site
        _check_names(tx, before, site, kept)
        for node, hold in sorted(holds.items()):
            if node not in site.units:
                raise ConflictError(
                    f"nodes: {node} is missing, but pod {hold.pod.name} holds it: release the pod first"
                )
            was, becomes = before.used_of(node, node in shared), site.used_of(node, node in shared)
            if changed := [name for name in was if was[name] != becomes.get(name)]:
                raise ConflictError(
                    f"nodes: {node}'s {', '.join(changed)} would change, and pod {hold.pod.name} was built with what "
                    "it has: release the pod first"
                )
            if (by := _deployed_by(before, node)) and by != _deployed_by(site, node):
                raise ConflictError(
                    f"clouds: machines_by of the cloud of {node} is {by}, and pod {hold.pod.name} was built so: "
                    "release the pod first"
                )
        self._check_applied(site)
        for name, numbers in sorted(capacity.used.segments.items()):
            if name in before.fabrics and name in site.fabrics:
                _check_numbers(name, before.fabrics[name], site.fabrics[name], numbers)
        for home in self._store.pods.homes(tx):
            for kind, name, known in (
                ("fabrics", home.fabric, {*site.fabrics, *site.managers, NO_FABRIC}),
                ("clouds", home.cloud, site.clouds),
            ):
                if name not in known:
                    raise _in_use(kind, name, home.name)
            cloud, flavor = home.cloud, home.flavor
            if flavor not in site.clouds[cloud].flavors:
                raise _in_use("flavors", f"{flavor} of cloud {cloud}", home.name)

    def _check_applied(self, site: Site) -> None:
        """Applied resources must stay reachable: the site's name and their clouds must stay."""
        for owner in live_owners(self._store.database)[0]:
            if owner.kind != "site":
                continue
            then = "destroy that first (weft site destroy)"
            if owner.site != site.name:
                raise ConflictError(
                    f"name: {site.name} is another site than {owner.name}, which is applied: {then}"
                )
            resources = [r.resource for r in self._store.pods.resources(owner.id) if not r.is_nowhere]
            for fabric, switch in sorted(self._switches_of(resources) - _readable_switches(site)):
                if fabric in site.fabrics:
                    raise ConflictError(
                        f"fabrics.{fabric}.manager.switching: switch {switch} isn't one that weft sets and reads back, "
                        f"but networks of the site are on it, or pass it: apply the site without them first"
                    )
            there = {r.where for r in resources}
            for place in sorted(there - site.clouds.keys() - site.fabrics.keys()):
                table = "fabrics" if place in self._store.site().site.fabrics else "clouds"
                raise ConflictError(
                    f"{table}: {place} is missing, but resources of the site are there: {then}"
                )

    def _switches_of(self, resources: Iterable[Resource]) -> set[tuple[str, str]]:
        """(Fabric, switch) of all segments of the site's own, by the active site."""
        found: set[tuple[str, str]] = set()
        for resource in resources:
            if isinstance(resource.spec, SegmentSpec):
                fabric = self._keeper.world().fabric(resource.where)
                assert isinstance(fabric, HasExisting), "the site's own segments are only on such fabrics"
                found |= {(resource.where, switch) for switch in fabric.places(resource.spec)}
        return found


def _kept_back(capacity: Capacity) -> dict[str, tuple[str, str]]:
    """Node that is kept from orders under any name (quarantine, hold …) -> why, and the verb that ends it."""
    held = {node: (stops.why_held, "accept") for node, stops in capacity.stops.items() if stops.holds}
    return held | dict.fromkeys(capacity.quarantines, ("in quarantine", "clear"))


def _check_names(tx: Tx, before: Site, site: Site, kept: Mapping[str, tuple[str, str]]) -> None:
    """Raise `ConflictError` if the machine of such a node gets another name, under which it would be assigned: what may
    be left there is known by its name alone. Of nodes that leave the site, their identifiers are stored."""
    hardware = {(what, place, id_): name for name in kept for what, place, id_ in _hardware(before, name)}
    gone = {name: parts for name, parts in kept_machines(tx).items() if name in kept}
    hardware |= {(what, place, id_): name for name, parts in gone.items() for what, place, id_ in parts}
    for name in site.units if hardware else ():
        for part in _hardware(site, name):
            was = hardware.get(part, name)
            # Sites may have machines of one serial number; one that a new name brings along is another matter.
            if was != name and (part[0] not in _NUMBERS or name not in before.units):
                why, verb = kept[was]
                raise ConflictError(
                    f"nodes: {name} has the {part[0]} {part[2]} of {was}, which is {why}: "
                    f"end that first (weft node {verb} {was})"
                )
    keep_machines(tx, {name: [*_hardware(before, name)] for name in kept if name not in site.units})


_NUMBERS = ("serial number", "UUID")


def _hardware(site: Site, name: str) -> Iterator[tuple[str, str, str]]:
    """What, place and id of a node's host and adapters, of its machine's numbers, or of an IPU-Machine's interfaces."""
    found = site.units.get(name)
    if isinstance(found, IpuMachine):
        yield from (
            ("BMC", "", found.bmc_mac),
            ("IPU-Gateway", "", found.gw_mac),
            ("RNIC", "", found.rnic_mac),
        )
    elif found is not None:
        only = next(iter(site.clouds)) if len(site.clouds) == 1 else ""
        yield "host", found.cloud or only, found.nova_host
        for hca in found.hcas:
            yield "adapter", hca.fabric, hca.port_id
        for what, number in zip(_NUMBERS, (found.serial, found.product_uuid), strict=True):
            if number:
                yield what, "", number.strip().lower()


def _in_use(kind: str, name: str, pod: str) -> ConflictError:
    return ConflictError(f"{kind}: {name} is missing, but pod {pod} uses it: release it first")


def _check_numbers(name: str, before: Fabric, now: Fabric, held: Collection[int]) -> None:
    """Segments must stay in the fabric's range and with the same configurator: weft removes no others."""
    if before.is_neutrons != now.is_neutrons:
        field, lost = "manager.switching.configured_by", sorted(held)
    else:
        field, lost = "segments", sorted(n for n in held if n in before.segments and n not in now.segments)
    if lost:
        listed = ", ".join(map(str, lost[:5])) + (" …" if len(lost) > 5 else "")
        raise ConflictError(
            f"fabrics.{name}.{field} can't change so while {listed} is held: release what has it, and wait until it "
            "was seen free (weft audit)"
        )


def _readable_switches(site: Site) -> set[tuple[str, str]]:
    return {
        (name, switch.name)
        for name, fabric in site.fabrics.items()
        if fabric.manager.switching is not None and not fabric.is_neutrons
        for switch in fabric.manager.switching.switches
        if switch.interface != "generic"
    }


def _deployed_by(site: Site, name: str) -> str:
    """Service that deploys the machine, `nova` or `ironic`; empty: it isn't a bare-metal machine."""
    node = site.node_by_name.get(name)
    if node is None or node.machine is None or node.cloud is None:
        return ""
    return site.clouds[node.cloud].machines_by

"""What is on Nova's hosts, according to Nova and Placement, and how servers ended.

Sources: Nova's api-ref "List Hypervisors Details" (`with_servers`: all projects and, unlike the listing of servers,
including soft-deleted ones; hosts whose cell doesn't answer are omitted); of Placement see
`weft.drivers.openstack.consumers`, of how servers ended `weft.drivers.openstack.endings`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial

from weft.drivers.openstack.changeable import unsettled_boot
from weft.drivers.openstack.consumers import NOTHING, Consumers, Overview
from weft.drivers.openstack.deletedservers import had_no_host
from weft.drivers.openstack.endings import ending
from weft.drivers.openstack.instances import instance_of
from weft.drivers.openstack.lookups import place_of
from weft.drivers.openstack.metalfacts import confirmed, how_it_ended, on_machine, on_machines
from weft.drivers.openstack.nodes import node_in_ironic, use_of_node
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.drivers.openstack.transport import TIMEOUT
from weft.model.errors import OutsideError, UnknownError
from weft.model.ids import moment_of
from weft.ports.occupants import Ended, Ending, Occupant, OnHost
from weft.ports.patience import patience, waiting_at_most

_Listing = tuple[float, Mapping[str, OnHost]]
"""A listing: when it began, in monotonic seconds, and host -> what is on it."""
FRESH = 30.0
"""Seconds for which a listing of all hosts is fresh. Nova takes about 9 ms per host for it."""
STALE = 300.0
"""Seconds after which a listing is no longer used while a new one is read."""
AT_ONCE = 3
"""All hosts of a cloud are listed if at least one in this many of them is asked about: a host costs Nova about 9 ms in
a listing, and 30 ms in a request of its own."""
UNREADABLE = (OutsideError, KeyError, TypeError, ValueError, AttributeError)
"""Errors of a missing answer, or of one that isn't Nova's or Placement's."""


class OpenStackOccupants:
    """`Occupants`. Thread-safe.

    Args:
        by_ironic: machines of which Nova knows nothing (`weft.drivers.openstack.metalfacts`).
        machines: those machines, and those that Nova deploys.
    """

    def __init__(
        self,
        sessions: Sessions,
        requests: int = 8,
        by_ironic: Collection[str] = (),
        machines: Collection[str] = (),
    ) -> None:
        self._sessions, self._by_ironic, self._machines = sessions, frozenset(by_ironic), frozenset(machines)
        self._asking = ThreadPoolExecutor(requests, thread_name_prefix="occupants")
        self._requests = requests
        self._renewal = threading.Lock()
        self._listed: _Listing | None = None
        self._unlisted: Exception | None = None
        self._ids: dict[str, tuple[str, ...]] = {}
        self._consumers = Consumers(self._asking, UNREADABLE)

    def servers_on_hosts(self) -> Mapping[str, OnHost]:
        """What is on all hosts, by the last listing, which is refreshed in the background once it is older than
        `FRESH`."""
        listed = self._listed
        if listed is None or time.monotonic() - listed[0] > STALE:
            listed = self._newer_than(listed)
        elif time.monotonic() - listed[0] > FRESH and self._renewal.acquire(blocking=False):
            threading.Thread(target=self._renew, name="list-hosts", daemon=True).start()
        return listed[1]

    def _newer_than(self, known: _Listing | None) -> _Listing:
        """A listing that is newer than `known`. Reading it goes on after the caller's time limit, since listing a large
        cloud takes longer."""
        asked = "list what is on the hosts"
        if self._renewal.acquire(blocking=False):
            if self._listed is known:
                threading.Thread(target=self._renew, name="list-hosts", daemon=True).start()
            else:
                self._renewal.release()
        seconds = min(patience() or TIMEOUT, TIMEOUT)
        if not self._renewal.acquire(timeout=seconds):
            raise UnknownError(
                asked, "Nova", f"no whole answer within {seconds:.0f} s", "the listing goes on", 5.0
            )
        listed, error = self._listed, self._unlisted
        self._renewal.release()
        if listed is not None and listed is not known:
            return listed
        try:
            if isinstance(error, OutsideError):
                raise error
            raise UnknownError(asked, "Nova", _sentence(error) if error else "no answer") from error
        finally:
            # Its traceback has this frame and the callers', with all they have read: a cycle would keep that.
            del error

    def on_hosts(self, hosts: Collection[str]) -> Mapping[str, OnHost]:
        wanted = sorted(set(hosts))
        if not wanted:
            return {}
        try:
            if not self._ids.keys() | self._by_ironic >= set(wanted):
                self._list_ids()
            rows = self._rows(wanted)
        except UNREADABLE as error:
            uses = zip(wanted, self._asking.map(self._use, wanted), strict=True)
            return {host: OnHost(unknown=_sentence(error), busy=busy) for host, busy in uses}
        overview = self._overview(wanted, rows) if rows else NOTHING
        each = self._asking.map(lambda h: self._on_host(h, rows, overview), wanted)
        return dict(zip(wanted, each, strict=True))

    def _overview(self, hosts: Sequence[str], rows: Mapping[str, Json]) -> Overview:
        """What Placement's listings say of these hosts, whose hypervisors were listed."""
        shown = {
            i: {o.id for o in _servers(rows[i])} for h in hosts for i in self._ids.get(h, ()) if i in rows
        }
        return self._consumers.overview(self._sessions.own(), shown)

    def _rows(self, hosts: Sequence[str]) -> Mapping[str, Json]:
        """Id of a hypervisor -> its row, in one listing of the cloud if that costs less than to ask about each of these
        hosts; else there are none: each is asked about. Not where there are machines: each has the servers of all
        machines of its nova-compute in a listing.
        """
        if self._machines or self._by_ironic or len(hosts) * AT_ONCE < max(len(self._ids), 2 * AT_ONCE):
            return {}
        rows = self._hypervisors(with_servers=True)
        self._keep_ids(rows)
        return {str(row["id"]): row for row in rows}

    def made_by(self, project_id: str, servers: Collection[str]) -> Mapping[str, datetime]:
        project, made = self._sessions.project(project_id), dict[str, datetime]()
        for server in sorted(set(servers)):
            asked, path = f"read whose server {server} is", f"/servers/{server}"
            row = project.compute.item_or_absent(asked, path, "server", server)
            if row is None or row.get("tenant_id", project_id) != project_id:
                continue
            at = moment_of(str(row.get("created")))
            if at is None or "tenant_id" not in row:
                raise UnknownError(
                    asked, "Nova", "an answer without its project, or without when it was created"
                )
            made[server] = at
        return made

    def endings(
        self, project_id: str, servers: Collection[str], whole: Mapping[str, str] | None = None
    ) -> Mapping[str, Ending]:
        own = self._sessions.own()
        project = self._sessions.project(project_id) if project_id else own
        wanted = sorted(set(servers))

        def one(server: str) -> Ending:
            try:
                if "@" in server:
                    return how_it_ended(own, server)
                unplaced = partial(had_no_host, own, project_id or own.compute.signed_in_project(), server)
                known, machine = self._known_hosts, (whole or {}).get(server)
                found = ending(project, project_id, server, machine is not None, known, unplaced=unplaced)
                return found if machine is None else confirmed(own, server, machine, found)
            except UNREADABLE as error:
                return Ending(Ended.UNKNOWN, _sentence(error))

        # Its own threads: a tenant can make its servers' records long, and other requests must not wait
        # behind them.
        with ThreadPoolExecutor(self._requests, thread_name_prefix="endings") as reading:
            return dict(zip(wanted, reading.map(one, wanted), strict=True))

    # -- listing all ------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Runs in its own thread, which holds the refresh lock, and waits as long as listing a cloud may
        take."""
        self._unlisted = None
        try:
            with waiting_at_most(TIMEOUT):
                self._list()
        except UNREADABLE as error:
            self._unlisted = error  # callers get it once the old listing is stale
        finally:
            self._renewal.release()

    def _list(self) -> None:
        started = time.monotonic()
        found, ids, machines = dict[str, OnHost](), dict[str, list[str]](), set[str]()
        rows = self._hypervisors(with_servers=True)
        self._keep_ids(rows)
        for row in rows:
            host = place_of(row)
            ids.setdefault(host, []).append(str(row["id"]))
            servers = {o.id: o for o in (*(found[host].occupants if host in found else ()), *_servers(row))}
            found[host] = OnHost(tuple(servers[i] for i in sorted(servers)), down=_down(row))
            if row.get("hypervisor_type") == "ironic":
                machines.add(host)
        for machine in self._by_ironic:
            found.pop(machine, None)  # Ironic decides, even if Nova has the machine, too
        found |= self._allocated({h: ids[h] for h, one in found.items() if not one.occupants}, found)
        # Nova reserves a machine whenever it isn't free in Ironic, up to a minute late.
        found |= {host: replace(found[host], withheld="") for host in machines & found.keys()}
        if self._by_ironic:
            found |= self._on_machines()
        self._listed = (started, found)

    def _allocated(
        self, empty: Mapping[str, Sequence[str]], found: Mapping[str, OnHost]
    ) -> Mapping[str, OnHost]:
        """Placement's allocations of hosts on which Nova lists nothing, such as one whose server is gone."""
        known, unknown, withheld = self._consumers.round(self._sessions.own(), empty, _sentence)
        seen = {
            host: tuple(
                Occupant(c, placement=True, devices=tuple(sorted(d))) for c, d in sorted(classes.items())
            )
            for host, classes in known.items()
            if classes
        }
        read = {
            **{host: replace(found[host], withheld=_withheld(text)) for host, text in withheld.items()},
            **{host: replace(found[host], occupants=occupants) for host, occupants in seen.items()},
        }
        return {**read, **{host: replace(found[host], unknown=why) for host, why in unknown.items()}}

    def _on_machines(self) -> Mapping[str, OnHost]:
        """What is on bare-metal machines. They are unknown if Ironic doesn't answer; the hosts of virtual machines
        aren't affected."""
        try:
            return on_machines(self._sessions.own(), self._by_ironic)
        except UNREADABLE as error:
            return dict.fromkeys(self._by_ironic, OnHost(unknown=_sentence(error), by="Ironic"))

    def _list_ids(self) -> None:
        self._keep_ids(self._hypervisors(with_servers=False))

    def _keep_ids(self, rows: Iterable[Json]) -> None:
        """Remember which hypervisors a host has. Args: rows: all hypervisors of the cloud."""
        ids: dict[str, list[str]] = {}
        for row in rows:
            ids.setdefault(place_of(row), []).append(str(row["id"]))
        self._ids = {host: tuple(own) for host, own in ids.items()}

    def _known_hosts(self, afresh: bool) -> Collection[str]:
        """Names of hosts, and of bare-metal machines; with those that Nova lists now if `afresh`, provided
        that it answers."""
        if afresh:
            with suppress(*UNREADABLE):
                self._list_ids()
        return self._ids.keys()

    def _hypervisors(self, with_servers: bool) -> list[Json]:
        asked = "list what is on the hosts" if with_servers else "list hypervisors"
        params = {"with_servers": "true"} if with_servers else None
        own = self._sessions.own().compute
        return own.listing(asked, "/os-hypervisors/detail", "hypervisors", params)

    # -- looking at one ---------------------------------------------------------------------------------------------

    def _on_host(self, host: str, rows: Mapping[str, Json], overview: Overview) -> OnHost:
        """What is on one host now. Args: rows: hypervisors that were read already, by id; others are asked about."""
        if host in self._by_ironic:
            try:
                return on_machine(self._sessions.own(), host)
            except UNREADABLE as error:
                return OnHost(unknown=_sentence(error), by="Ironic")
        ids = self._ids.get(host)
        if not ids:
            said = f"Nova lists no hypervisor of host {host}: it has none, or its cell is down"
            return OnHost(unknown=said, busy=self._use(host))
        own, seen, down, busy, withheld = self._sessions.own(), dict[str, Occupant](), "", "", ""
        try:
            for provider in ids:
                row = _hypervisor(own, host, provider, rows.get(provider))
                down = down or _down(row)
                consumers = self._consumers.of(own, host, provider, overview)
                seen.update((o.id, o) for o in _servers(row, consumers))
                for consumer, classes in consumers.items():
                    known = seen.get(consumer)
                    devices = tuple(sorted({*((known and known.devices) or ()), *classes}))
                    seen[consumer] = Occupant(
                        consumer,
                        known.name if known else "",
                        nova=known is not None and known.nova,
                        placement=True,
                        devices=devices,
                    )
                if row.get("hypervisor_type") == "ironic":
                    node = node_in_ironic(own, host)
                    busy = use_of_node(node) or _another(node, seen.values()) or unsettled_boot(own, node)
                else:
                    withheld = withheld or self._consumers.withheld(own, host, provider)
        except UNREADABLE as error:
            self._ids = {h: i for h, i in self._ids.items() if h != host}  # its id may have changed
            self._consumers.forget(ids)
            occupants = tuple(seen[i] for i in sorted(seen))
            return OnHost(occupants, unknown=_sentence(error), down=down, busy=self._use(host))
        there = tuple(seen[i] for i in sorted(seen))
        return OnHost(there, down=down, busy=busy, withheld=_withheld(withheld))

    def _use(self, host: str) -> str:
        """What Ironic does with a machine, even while Nova doesn't say what is on it; empty if nothing, or
        unknown."""
        if host not in self._machines:
            return ""
        try:
            return use_of_node(node_in_ironic(self._sessions.own(), host))
        except UNREADABLE:
            return ""


def _another(node: Json, there: Iterable[Occupant]) -> str:
    """Why a machine doesn't run what Nova lists there: Ironic doesn't know the instance; empty if it does.
    This happens after Ironic's database was restored from a backup: it may deploy the machine for someone
    else, or switch it off.
    """
    servers = sorted(one.id for one in there if one.nova)
    instance = instance_of(node)
    if not servers or instance in servers:
        return ""
    return f"Ironic has instance {instance or 'none'} on it, and Nova server {', '.join(servers)}"


def _hypervisor(own: Project, host: str, provider: str, row: Json | None) -> Json:
    """The row of a hypervisor. Args: row: as it was listed; None: it is asked for."""
    asked = f"read what is on host {host}"
    if row is None:
        row = own.compute.item(asked, f"/os-hypervisors/{provider}", "hypervisor", {"with_servers": "true"})
    if place_of(row) != host:
        raise UnknownError(asked, "Nova", f"hypervisor {provider} no longer belongs to this host")
    return row


def _servers(row: Json, consumers: Collection[str] = ()) -> list[Occupant]:
    """Servers in the row of a hypervisor. Before microversion 2.75, `servers` is missing if there are none.

    For each machine Nova lists the servers of all machines of its nova-compute: its own are those that
    Placement has there.
    """
    rows: Sequence[Json] = row.get("servers") or ()
    if row.get("hypervisor_type") == "ironic":
        rows = [s for s in rows if str(s["uuid"]) in consumers]
    return [Occupant(str(s["uuid"]), str(s.get("name") or ""), nova=True, devices=()) for s in rows]


def _withheld(text: str) -> str:
    return f"Placement has reserved {text}" if text else ""


def _down(row: Json) -> str:
    return "" if row.get("state") == "up" else f"nova-compute is {row.get('state')}"


def _sentence(error: Exception) -> str:
    known = isinstance(error, OutsideError)
    return str(error) if known else f"the answer can't be read: {type(error).__name__}: {error}"

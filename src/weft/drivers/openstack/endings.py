"""How a server ended, judged by what each nova-compute that ever had it did, according to Nova's record of
actions.

Sources: Nova's api-ref "Servers - run an action: Instance Actions" (kept for deleted servers too, microversion 2.21;
pages from 2.58; events with `hostId`, and for administrators `host`, from 2.62), and its `nova/compute/manager.py`, for
what each event means. `hostId` is sha224 of the project of the *action*, which for an operator's evacuation is the
operator's, and the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha224

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import OutsideError, UnknownError
from weft.ports.occupants import Ended, Ending

PAGE = 1000
"""Actions per page."""
PATIENCE = 120.0
"""Most seconds for reading one server's record."""
MOST_READ = 1000
"""Most actions of one server whose events are read: a project member can add actions by shelving or resizing
its server, but each takes Nova several seconds."""
NEWEST = 50
"""Newest actions, all of which are read; of older ones only those that may concern other hosts, unless there
are too many."""
_STAYS = frozenset(
    {
        *(
            "stop",
            "start",
            "reboot",
            "rebuild",
            "pause",
            "unpause",
            "suspend",
            "resume",
            "rescue",
            "unrescue",
            "lock",
        ),
        *(
            "unlock",
            "changePassword",
            "trigger_crash_dump",
            "extend_volume",
            "attach_interface",
            "attach_volume",
        ),
        *("detach_interface", "detach_volume", "attach_share", "detach_share", "swap_volume", "createBackup"),
        *("createImage", "resetState"),
    }
)
"""Actions that concern only the host that has the server anyway; a tenant can cause any number of these. A
rebuild names that host to the scheduler; a rebuild on another host is `evacuate`."""
_REMOVES = frozenset(
    {
        "compute_terminate_instance",
        "compute_shelve_instance",
        "compute_shelve_offload_instance",
        "compute_rollback_live_migration_at_destination",
        "compute_revert_snapshot_based_resize_at_dest",
        "compute_confirm_snapshot_based_resize_at_source",
    }
)
"""Events after which their host runs nothing of the server, and has no disk of it that it would start again."""
_TERMINATES, _CONFIRMS, _REVERTS = (
    "compute_terminate_instance",
    "compute_confirm_resize",
    "compute_revert_resize",
)
"""Events that end a server or a resize. A resize is confirmed on the host that the server came from, and reverted on
the one that it went to; both may be the same."""
_BUILDS = "compute__do_build_and_run_instance"
"""An event that ends in `Success` even if the host found the server deleted, or couldn't build it."""
_ASKS = frozenset(
    {
        "compute_prep_resize",
        "compute_prep_snapshot_based_resize_at_dest",
        "compute_check_can_live_migrate_destination",
        # Ironic's notices of a machine's power to nova-compute, also after its server was terminated.
        "compute_power_update",
    }
)
"""Events that leave nothing on their host; any other event means that the host had the server."""
_LEAVES = frozenset({"compute_resize_instance", "compute_live_migration"})
"""Events on the host that a server is moved from."""
_ARRIVES = "compute_post_live_migration_at_destination"
"""An event that the source host requests once the guest has left it: `compute_live_migration` ends when it begins."""


def ending(
    project: Project,
    project_id: str,
    server: str,
    whole: bool,
    hosts: Callable[[bool], Collection[str]],
    patience: float = PATIENCE,
    unplaced: Callable[[], bool] | None = None,
) -> Ending:
    """How a server ended. Raises `UnknownError`, and what an answer in another shape raises.

    Args:
        project: whose token is used.
        project_id: whose server it is; empty: not known.
        whole: it had a whole machine: whichever nova-compute removed it did so through Ironic.
        hosts: names of Nova's hosts, since the record may only have their hashes; True reads them again.
        patience: most seconds for reading its record.
        unplaced: whether no host had it when Nova deleted it (`weft.drivers.openstack.deletedservers.had_no_host`);
            asked if its record alone doesn't say. None: that can't be asked.
    """
    asked, path = f"read how server {server} ended", f"/servers/{server}/os-instance-actions"
    until = time.monotonic() + patience
    listed = _listed(project, asked, path, server, until)
    if isinstance(listed, Ending):
        return listed
    shown, cut = list[Json](), listed.cut
    for action in listed.actions[: NEWEST if cut else None]:
        if shown and not cut and time.monotonic() >= until:
            cut = f"{len(listed.actions)} actions that may have moved it, of which {len(shown)} were read in time"
        if cut and len(shown) >= NEWEST:
            break
        request = action["request_id"]
        one = project.compute.item(asked, f"{path}/{request}", "instanceAction")
        if one["request_id"] != request:
            raise UnknownError(asked, "Nova", f"the answer about request {request} is about another one")
        if not isinstance(one["events"], list) or not all(isinstance(e["event"], str) for e in one["events"]):
            raise UnknownError(asked, "Nova", f"the events of request {request} have another shape")
        shown.append(one)
    found = _of_events(shown, project_id, whole, hosts)
    if found.how is not Ended.NEVER_RAN and not cut and unplaced is not None and _only_built(shown):
        return _of_row(found, unplaced)
    if not cut or found.how in (Ended.NOT_DESTROYED, Ended.LEFT_BEHIND):
        return replace(found, cut=bool(cut))
    said = f"Nova's record of it has {cut}: where else it ran isn't known, so it may run on there"
    return Ending(Ended.UNKNOWN, said, hosts=found.hosts, cut=True)


def _of_events(
    shown: Sequence[Json], project_id: str, whole: bool, hosts: Callable[[bool], Collection[str]]
) -> Ending:
    """How a server ended, by these actions with their events; both are newest first, as Nova lists them."""
    # Times may have a resolution of one second.
    events = [
        (str(one.get("project_id") or project_id), e)
        for one in reversed(shown)
        for e in reversed(one["events"])
    ]
    events = [
        (of, e) for of, e in events if str(e["event"]).startswith("compute_") and e["event"] not in _ASKS
    ]
    if not events:
        return Ending(Ended.NEVER_RAN, "Nova's record names no nova-compute that ever had it")
    events.sort(key=lambda one: str(one[1]["start_time"]))
    found = _of_hosts(events, whole, hosts)
    if found.how is Ended.DESTROYED and all(e["event"] != _BUILDS for _, e in events):
        said = f"{found.text}, but Nova's record doesn't say which host built it: it may run on there"
        return Ending(Ended.UNKNOWN, said, cut=True)
    return found


def _of_hosts(
    events: Sequence[tuple[str, Json]], whole: bool, hosts: Callable[[bool], Collection[str]]
) -> Ending:
    if whole:
        return judged(("", e) for _, e in events)
    names = _Names(hosts)
    found = judged([(names.host(*one), one[1]) for one in events])
    if found.how is Ended.DESTROYED or not names.unresolved or not names.more():
        return found
    return judged([(names.host(*one), one[1]) for one in events])


def _only_built(shown: Sequence[Json]) -> bool:
    """Whether nova-computes were only asked to build it for the first time, and none to remove it."""
    events = [e for a in shown for e in a["events"] if str(e["event"]).startswith("compute_")]
    # A build that ended in an error failed while cleaning up.
    return all(a["action"] == "create" or a["action"] in _STAYS for a in shown) and all(
        e["event"] == _BUILDS and (_is_open(e) or e.get("result") == "Success") for e in events
    )


def _of_row(found: Ending, unplaced: Callable[[], bool]) -> Ending:
    """What Nova's row adds to a record that has only builds; nothing if it can't be read."""
    try:
        never = unplaced()
    except OutsideError as error:
        return replace(found, text=f"{found.text}; whether a host had it by then isn't known: {error}")
    if not never:
        return found
    said = "Nova deleted it while it was scheduled: no host had it, by its row, and its only action is its creation"
    return Ending(Ended.NEVER_RAN, said)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Actions of a server whose events are to be read, newest first; `cut`: how many there are, if not all
    are read."""

    actions: Sequence[Json]
    cut: str = ""


def _listed(project: Project, asked: str, path: str, server: str, until: float) -> _Listed | Ending:
    """The actions, read page by page; or the ending if they don't show it. Args: until: when to stop, in monotonic
    seconds."""
    read: list[Json] = []
    seen = 0
    params: dict[str, str | int] = {"limit": PAGE}
    while True:
        answer = project.compute.ask(asked, "GET", path, params=params, ok=(404,))
        if answer.status == 404:
            how = Ended.NO_RECORD if answer.proves_absent(server) and not seen else Ended.UNKNOWN
            return Ending(how, f"Nova has no record of its actions: {answer.sentence()}")
        page = project.compute.rows(asked, answer, "instanceActions")
        if (other := next((a for a in page if a["instance_uuid"] != server), None)) is not None:
            raise UnknownError(asked, "Nova", f"it shows actions of server {other['instance_uuid']}")
        read += [a for n, a in enumerate(page, seen) if n < NEWEST or a.get("action") not in _STAYS]
        seen += len(page)
        if len(read) > MOST_READ:
            return _Listed(
                read, f"more than {MOST_READ} actions that may have moved it, which are too many to read"
            )
        links = project.compute.rows(asked, answer, "links") if "links" in answer.body else []
        if not any(link.get("rel") == "next" for link in links):
            return _Listed(read)
        if not page:
            raise UnknownError(asked, "Nova", "a page without actions, and another one after it")
        if time.monotonic() >= until:
            return _Listed(read, f"more than {seen} actions, which is all that was listed in time")
        last, marker = params.get("marker"), str(page[-1]["request_id"])
        if marker == last:
            raise UnknownError(asked, "Nova", "the same page of actions twice")
        params = {"limit": PAGE, "marker": marker}


@dataclass(slots=True)
class _Names:
    """Names of hosts whose hashes are in events."""

    hosts: Callable[[bool], Collection[str]]
    known: frozenset[str] | None = None
    unresolved: bool = False
    _of: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def host(self, project_id: str, event: Json) -> str:
        """Name of an event's host; its hash if no known host has it; empty if the event has neither."""
        if event.get("host"):
            return str(event["host"])
        hashed = str(event.get("hostId") or "")
        if self.known is None:
            self.known = frozenset(self.hosts(False))
        if project_id not in self._of:
            self._of[project_id] = {host_id(project_id, name): name for name in self.known}
        name = self._of[project_id].get(hashed)
        self.unresolved = self.unresolved or bool(hashed and name is None)
        return name or hashed

    def more(self) -> bool:
        """Read the names again; returns whether they changed."""
        before, self.known = self.known, frozenset(self.hosts(True))
        self._of = {}
        return self.known != before


def host_id(project_id: str, host: str) -> str:
    """`hostId` of an event (`nova.utils.generate_hostid`)."""
    return sha224((project_id + host).encode()).hexdigest()


def judged(events: Iterable[tuple[str, Json]]) -> Ending:
    """How a server ended, by its events, oldest first, each with its host. It has ended when every host that
    had it has removed it since. A removal by one host says nothing about another host: an evacuated guest may keep
    running where it was, since that nova-compute wasn't asked.
    """
    left: dict[str, Json] = {}
    over: dict[str, Json] = {}
    source = target = newest = ""
    for host, event in events:
        name = str(event["event"])
        if event.get("finish_time") is None or event.get("result") != "Success":
            left[host] = event
        elif name in _REMOVES or (name == _REVERTS and host != source):
            left.pop(host, None)
            over[host] = event
        elif name == _CONFIRMS:
            # Once the server was deleted, Nova does nothing there any more, and reports success.
            if host != source or host == target or any(e["event"] == _TERMINATES for e in over.values()):
                continue
            left.pop(host, None)
            over[host] = event
        else:
            left[host] = event
        newest = host
        if name == _ARRIVES and source != host and source in left:
            over[source] = left.pop(source)
        source = host if name in _LEAVES else source
        target = host if name == "compute_finish_resize" else target
    return _found(left, over, newest)


def _found(left: Mapping[str, Json], over: Mapping[str, Json], newest: str) -> Ending:
    hosts = tuple(sorted(host for host in left if host))
    # A removal in progress may have been completed; after anything else, the guest may still be there.
    stays = {h: e for h, e in sorted(left.items()) if e["event"] not in _REMOVES or not _is_open(e)}
    if left and not stays:
        host, event = next(iter(sorted(left.items())))
        return Ending(Ended.UNKNOWN, f"{event['event']} hasn't ended yet{_on(host)}", hosts=hosts)
    for host, event in stays.items():
        if _is_open(event):
            said = f"{event['event']} hasn't ended yet{_on(host)}, and nothing removed it since"
            return Ending(Ended.LEFT_BEHIND, f"{said}, so it may run on there", hosts=hosts)
    if set(left) == {newest}:
        event = left[newest]
        did = f"{event['event']} ({event.get('result')}, {event['finish_time']})"
        said = f"the last that a nova-compute did with it was {did}: Nova deleted it without its nova-compute"
        return Ending(Ended.NOT_DESTROYED, f"{said}, so it may run on", hosts=hosts)
    if stays:
        host = next((h for h in stays if h != newest), newest)
        did = f"{stays[host]['event']} ({stays[host].get('result')}, {stays[host]['finish_time']})"
        said = f"{did} is the last that host {host or '(not named)'} did with it, and it never removed it"
        return Ending(Ended.LEFT_BEHIND, f"{said}, so it may run on there", hosts=hosts)
    last = max(over.values(), key=lambda e: str(e["finish_time"]))
    moment = datetime.fromisoformat(str(last["finish_time"])).replace(tzinfo=UTC)
    each = f", and each of the {len(over)} hosts that had it removed it" if len(over) > 1 else ""
    return Ending(Ended.DESTROYED, f"{last['event']}: Success at {last['finish_time']}{each}", moment)


def _is_open(event: Json) -> bool:
    return event.get("finish_time") is None


def _on(host: str) -> str:
    return f" on {host}" if host else ""

"""Removes what a change no longer wants, and frees its nodes once they are read back clean.

The rules are those of a release: rows stay until the resource is seen gone, capacity is returned last, unknown isn't
clean. A node that doesn't become clean blocks neither the others nor the pod: it is quarantined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from weft.engine.hold.fence import LATE
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.settings import LoopSettings
from weft.engine.proof.departure import ENDED, ended
from weft.engine.proof.readback import OVER, ReadBack
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.engine.visit.successors import only_cleaned
from weft.engine.visit.waits import Wait
from weft.engine.visit.walker import Walker
from weft.model.errors import TemporaryError, WeftError
from weft.model.kindrow import Home
from weft.model.kinds import Kind
from weft.model.messages import pods
from weft.model.pod import PodState

_CLEANED = frozenset(str(kind) for kind in Kind if kind.row.cleaned)
"""Planes of machines, which are cleaned before they are free."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a removal has left.

    Attributes:
        wait: why, and when to try again.
        kept: only quarantined nodes are left: the change counts as done.
    """

    wait: Wait
    kept: bool = False


def remove_unwanted(
    held: HeldPod, walker: Walker, read: Callable[[frozenset[str]], ReadBack], settings: LoopSettings
) -> Remaining | None:
    """One attempt; None: nothing is left of what the newest generation doesn't want.

    Args:
        walker: of this visit; its records are up to date when this returns.
        read: reads back what is on and around these nodes.
    """
    nodes = frozenset(held.nodes.leaving())
    if not nodes and all(r.wanted or r.is_nowhere for r in walker.records.values()):
        return None
    wait, reasons = _retire(held, walker, settings)
    left = [r for r in walker.records.values() if not r.wanted and not r.is_nowhere]
    on = {
        r.resource.node: r for r in sorted(left, key=lambda r: bool(r.reason))
    }  # one with a reason, if there is one
    others = any(node not in nodes for node in on)
    _note_off(held, walker, read, nodes & on.keys())
    for node in nodes & on.keys():
        reasons[node] = on[node].reason or f"{on[node].resource.name} was not seen gone"
    gone = nodes - on.keys()
    if not all(r.state is RowState.SETTLED for r in walker.records.values() if r.wanted and _is_fabrics(r)):
        wait = wait or Wait(
            "the fabric follows", settings.first_poll
        )  # their ports are still in the pod's segment
    elif gone and (late := held.notes.late()) > 0:
        wait = wait or Wait(LATE, late)
    elif gone:
        found = read(gone)
        held.note(Change(key, RowState.DELETING, reason=pods.REAPPEARED()) for key in found.again)
        clean = gone - found.unclean.keys()
        # Also what was only accepted: it keeps no node, and the pod's receipt isn't clean because of it.
        _note_ended(held, [r for r in walker.records.values() if r.resource.node in clean], found.ended)
        held.nodes.give_back(clean, [i for i in found.items if i.result in ("clean", "accepted")], left=True)
        reasons |= {node: why for node, why in found.unclean.items() if node in nodes}
        nodes -= clean
    if not nodes and not others:
        return None
    # An operator's clearing of a node isn't overruled by earlier failed readings: the pod holds the node.
    cleared = held.nodes.cleared() if nodes else frozenset[str]()
    late = (nodes & overdue(held, settings)) - cleared if nodes else nodes
    held.quarantine.add({node: reasons[node] for node in late if node in reasons})
    why = "; ".join(f"{n}: {w}" for n, w in sorted(reasons.items())[:3])
    kept = not others and nodes <= held.quarantine.nodes() | cleared
    return Remaining(wait or Wait(why, pause(held, settings)), kept)


def pause(held: HeldPod, settings: LoopSettings) -> float:
    """Seconds until what leaves is read again after a reading that wasn't clean: a share of the time that it has been
    leaving. Visits since then say nothing: a pod has many while a server is shut down, and its host may show it for a
    moment after it is gone."""
    since = held.nodes.leaves_since() or held.pod.changed_at
    age = 0.0 if since is None else (held.at - since).total_seconds()
    return min(settings.last_delay, max(settings.first_delay, settings.poll_growth * age))


def _note_off(
    held: HeldPod, walker: Walker, read: Callable[[frozenset[str]], ReadBack], nodes: Iterable[str]
) -> None:
    """Note proofs for machines of which nothing but their cleaning is left: it may take hours, and runs no guest. Their
    places are free by then (`weft.engine.visit.successors`)."""
    records = [r for r in walker.records.values() if not r.wanted]
    being = {node for node in nodes if only_cleaned([r for r in records if r.resource.node == node])}
    open_ = [r for r in records if r.kind.row.on_host and r.outside_id and ENDED not in r.facts]
    off = frozenset(r.resource.node for r in open_ if r.resource.node in being and r.resource.node)
    if not off or held.notes.late() > 0:
        return
    found = read(off)
    if all(i.result in OVER or i.plane in _CLEANED for i in found.items):
        _note_ended(held, [r for r in open_ if r.resource.node in off], found.ended)


def _note_ended(held: HeldPod, records: Iterable[ResourceRecord], proofs: Mapping[str, str]) -> None:
    """Note proofs for nodes that may return, or that keep other servers of the pod: Nova may forget these servers."""
    left = [r for r in records if not r.wanted and ENDED not in r.facts]
    held.note(ended(r, proofs[id_]) for r in left if (id_ := r.outside_id) and id_ in proofs)


def _retire(held: HeldPod, walker: Walker, settings: LoopSettings) -> tuple[Wait | None, dict[str, str]]:
    """Remove what is unwanted. Errors become reasons of rows and events of the pod: they block neither clean nodes nor
    the pod."""
    try:
        return walker.retire(), {}
    except WeftError as error:
        delay = error.delay if isinstance(error, TemporaryError) else 0.0
        return Wait(error.message, max(delay, pause(held, settings))), {}


def _is_fabrics(record: ResourceRecord) -> bool:
    return record.kind.row.home is Home.FABRIC


def overdue(held: HeldPod, settings: LoopSettings) -> frozenset[str]:
    """Nodes that have been leaving, in a change that was worked on, for as long as a release may last.

    A change that has lasted long doesn't make a node late that leaves only now.
    """
    limit = settings.limits[PodState.RELEASING]
    if held.pod.changed_at is not None and held.work.seconds < limit:
        return frozenset()
    return held.nodes.leaving_for(limit)

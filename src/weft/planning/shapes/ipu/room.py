"""What an order of IPUs needs besides IPU-Machines: slots of shared hosts; and the best choice of all together.

A Poplar server, and a node for V-IPU controllers, has `servers` slots.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from weft.model.site import IpuMachine, Node, Site
from weft.planning.fabric.topology import natural
from weft.planning.place.slots import slot
from weft.planning.shapes.ipu.run import MachineRow, Run, runs


@dataclass(frozen=True, slots=True)
class Host:
    """A shared host and the numbers of its slots that are free, the lowest first."""

    node: Node
    free: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """What an order of IPUs gets: a run of machines, and hosts for its servers and controller."""

    run: Run
    poplars: tuple[Host, ...]
    controller: Host


def hosts_of(site: Site, role: str, cloud: str) -> tuple[Node, ...]:
    """The cloud's nodes of a role: `poplar` or `controller`."""
    return tuple(n for n in site.nodes if n.role == role and n.cloud == cloud)


def machines_of(site: Site, ipu_pod: str) -> tuple[IpuMachine, ...]:
    """An IPU-POD's IPU-Machines in the order of the cables."""
    mine = (m for m in site.ipu_machines if m.ipu_pod == ipu_pod)
    return tuple(sorted(mine, key=lambda m: m.position))


def free_slots(node: Node, taken: Container[str]) -> Host:
    """The host with the slots that aren't taken."""
    return Host(node, tuple(n for n in range(1, node.servers + 1) if slot(node.name, n) not in taken))


def most_room(hosts: Iterable[Host], ipu_pod: str, count: int) -> tuple[Host, ...]:
    """This many different hosts for an IPU-POD, those with the most free capacity, then by name; none if there are
    fewer.
    """
    fit = [h for h in hosts if h.free and h.node.ipu_pod in (None, ipu_pod)]
    fit.sort(key=lambda h: (-len(h.free), natural(h.node.name)))
    return tuple(fit[:count]) if len(fit) >= count else ()


def pick(
    machines: int,
    servers: int,
    among: Sequence[MachineRow],
    poplars: Sequence[Host],
    controllers: Sequence[Host],
) -> Picked | None:
    """The best run of an IPU-POD that also has capacity for the servers; None: there is none."""
    able = [
        row
        for row in among
        if most_room(poplars, row.ipu_pod, servers) and most_room(controllers, row.ipu_pod, 1)
    ]
    run = min(runs(machines, able), key=lambda r: r.rank, default=None)
    if run is None:
        return None
    name = run.row.ipu_pod
    return Picked(run, most_room(poplars, name, servers), most_room(controllers, name, 1)[0])

"""The fat-tree planner: how many leaves, spines and cores for so many servers, and which cable goes where.

One switch, then leaves and spines, then pods of leaves and spines under cores. At each level the cables of a switch
are spread evenly over the switches above. Reference: 40-port switches without oversubscription make 20 spines and
40 leaves for 800 servers; three levels of k-port switches hold k³/4 (Al-Fares et al., SIGCOMM 2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from weft.model.errors import InputError
from weft.model.site import Link, Switch


@dataclass(frozen=True, slots=True)
class FatTree:
    """A design.

    Attributes:
        servers: how many it is for; `rails` adapters of each are cabled.
        radix: ports of each switch.
        levels: of switches: 1, 2 or 3.
        down, up: ports of a leaf to servers and to spines.
        pods: groups of leaves with spines of their own; 1 if there are fewer than three levels.
        leaves, spines, cores: switches in all.
        leaves_per_pod, spines_per_pod, cores_per_spine: cores that each spine reaches.
        capacity: servers that these leaves could hold.
    """

    servers: int
    radix: int
    rails: int
    levels: int
    down: int
    up: int
    pods: int
    leaves_per_pod: int
    leaves: int
    spines_per_pod: int
    spines: int
    cores_per_spine: int
    cores: int
    capacity: int
    links: tuple[Link, ...] = field(repr=False)
    switches: tuple[Switch, ...] = field(repr=False)

    @property
    def oversubscription(self) -> float:
        """Ports down over ports up of a leaf; 0 where there is nothing above."""
        return self.down / self.up if self.up else 0.0

    @property
    def cables(self) -> int:
        return len(self.links)

    def summary(self) -> str:
        """One sentence."""
        parts = [f"{self.cores} cores"] if self.cores else []
        parts += [f"{self.spines} spines"] if self.spines else []
        parts.append(
            f"{self.leaves} leaves"
            if self.levels > 1
            else "1 switch"
            if self.leaves == 1
            else f"{self.leaves} switches"
        )
        pods = f" in {self.pods} pods" if self.pods > 1 else ""
        ratio = f"{self.oversubscription:g}:1" if self.up else "1:1"
        return (
            f"{self.servers} servers on {self.radix}-port switches: {' + '.join(parts)}{pods}, {self.cables} cables, "
            f"oversubscription {ratio}, room for {self.capacity} servers"
        )


def design(
    servers: int, radix: int = 40, oversubscription: float = 1.0, rails: int = 1, fabric: str = "ib0"
) -> FatTree:
    """The smallest fat tree that holds the servers.

    Args:
        oversubscription: at most so many ports of a leaf go down for each that goes up.
        rails: adapters of each server; adapter i of all servers of a group hangs on leaf i of the group.

    Raises:
        InputError: a size that can't be built; the sentence says what can.
    """
    _check(servers, radix, oversubscription, rails)
    if servers <= radix and rails * 1 <= radix:
        return _one_level(servers, radix, rails, fabric)
    down = int(radix * oversubscription / (1 + oversubscription))
    up = radix - down
    groups = -(-servers // down)
    if groups * rails <= radix:
        spines = _spread(up, -(-groups * rails * up // radix))
        return _build(servers, radix, rails, fabric, down, up, 1, groups, spines, 0)
    per_pod = (radix // 2) // rails
    if not per_pod:
        raise InputError("rails", rails, f"at most {radix // 2} on three levels of {radix}-port switches")
    pods = -(-groups // per_pod)
    if pods > radix:
        most = radix * per_pod * down
        raise InputError(
            "servers", servers, f"at most {most} on three levels of {radix}-port switches with {rails} rails"
        )
    groups_per_pod = -(-groups // pods)
    spine_up = radix - radix // 2
    cores_per_spine = _spread(spine_up, -(-pods * spine_up // radix))
    return _build(servers, radix, rails, fabric, down, up, pods, groups_per_pod, up, cores_per_spine)


def _check(servers: int, radix: int, oversubscription: float, rails: int) -> None:
    if servers < 1:
        raise InputError("servers", servers, "1 or more")
    if not 4 <= radix <= 254 or radix % 2:
        raise InputError("radix", radix, "an even number of ports, 4 to 254")
    if not 1 <= oversubscription <= radix - 1:
        raise InputError("oversubscription", oversubscription, f"1 (none) to {radix - 1}")
    if not 1 <= rails <= 16:
        raise InputError("rails", rails, "1 to 16")


def _spread(ports: int, least: int) -> int:
    """The fewest switches above, at least `least`, over which so many ports spread evenly."""
    return next(n for n in range(max(least, 1), ports + 1) if ports % n == 0)


def _one_level(servers: int, radix: int, rails: int, fabric: str) -> FatTree:
    switches = tuple(_switch(fabric, "leaf", f"leaf{r + 1}", radix, None) for r in range(rails))
    links = tuple(
        Link(a=f"{server(i)}/{adapter(r)}", a_port=1, b=f"leaf{r + 1}", b_port=i + 1)
        for i in range(servers)
        for r in range(rails)
    )
    return FatTree(servers, radix, rails, 1, radix, 0, 1, rails, rails, 0, 0, 0, 0, radix, links, switches)


def _build(
    servers: int,
    radix: int,
    rails: int,
    fabric: str,
    down: int,
    up: int,
    pods: int,
    groups_per_pod: int,
    spines_per_pod: int,
    cores_per_spine: int,
) -> FatTree:
    groups = -(-servers // down)
    switches: list[Switch] = []
    links: list[Link] = []
    for pod in range(pods):
        label = f"pod{pod + 1}" if pods > 1 else None
        here = range(pod * groups_per_pod, min((pod + 1) * groups_per_pod, groups))
        names = [leaf(g, r, rails) for g in here for r in range(rails)]
        switches += [_switch(fabric, "leaf", name, radix, label) for name in names]
        spines = [spine(pod, s, pods) for s in range(spines_per_pod)]
        switches += [_switch(fabric, "spine", name, radix, label) for name in spines]
        each = up // spines_per_pod
        links += [
            Link(a=name, a_port=down + 1 + s * each + k, b=spines[s], b_port=1 + i * each + k)
            for i, name in enumerate(names)
            for s in range(spines_per_pod)
            for k in range(each)
        ]
    if cores_per_spine:
        links += _core_links(radix, pods, spines_per_pod, cores_per_spine)
        switches += [
            _switch(fabric, "core", core(s, c), radix, None)
            for s in range(spines_per_pod)
            for c in range(cores_per_spine)
        ]
    links += _server_links(servers, down, rails)
    leaves = groups * rails
    cores = spines_per_pod * cores_per_spine
    return FatTree(
        servers, radix, rails, 3 if cores else 2, down, up, pods, groups_per_pod * rails, leaves, spines_per_pod,
        spines_per_pod * pods, cores_per_spine, cores, groups * down, tuple(links), tuple(switches),
    )  # fmt: skip


def _core_links(radix: int, pods: int, spines_per_pod: int, cores_per_spine: int) -> Iterator[Link]:
    """Spine s of every pod goes to the cores of plane s only."""
    below = radix // 2
    each = (radix - below) // cores_per_spine
    for pod in range(pods):
        for s in range(spines_per_pod):
            for c in range(cores_per_spine):
                for k in range(each):
                    yield Link(
                        a=spine(pod, s, pods),
                        a_port=below + 1 + c * each + k,
                        b=core(s, c),
                        b_port=1 + pod * each + k,
                    )


def _server_links(servers: int, down: int, rails: int) -> Iterator[Link]:
    for i in range(servers):
        for r in range(rails):
            yield Link(
                a=f"{server(i)}/{adapter(r)}", a_port=1, b=leaf(i // down, r, rails), b_port=i % down + 1
            )


def _switch(fabric: str, level: str, name: str, radix: int, pod: str | None) -> Switch:
    return Switch.model_validate({"name": name, "fabric": fabric, "level": level, "ports": radix, "pod": pod})


def server(number: int) -> str:
    return f"node{number + 1}"


def adapter(rail: int) -> str:
    return f"mlx5_{rail}"


def leaf(group: int, rail: int, rails: int) -> str:
    return f"leaf{group + 1}" if rails == 1 else f"leaf{group + 1}-rail{rail + 1}"


def spine(pod: int, number: int, pods: int) -> str:
    return f"spine{number + 1}" if pods == 1 else f"spine{pod + 1}-{number + 1}"


def core(plane: int, number: int) -> str:
    return f"core{plane + 1}-{number + 1}"

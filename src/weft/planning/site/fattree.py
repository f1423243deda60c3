"""The fat-tree planner: how many leaves, spines and cores for so many servers, and which cable goes where.

One switch, then leaves and spines, then blocks of leaves and spines under cores. At each level the cables of a switch
are spread evenly over the switches above. Reference: 40-port switches without oversubscription make 20 spines and
40 leaves for 800 servers; three levels of k-port switches hold k³/4 (Al-Fares et al., SIGCOMM 2008).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from weft.model.errors import InputError
from weft.model.site import Link, Switch
from weft.planning.words import some

MOST_CABLES = 1_000_000
"""Maximum number of cables in a design, which are all kept in memory."""


@dataclass(frozen=True, slots=True)
class FatTree:
    """A design.

    Attributes:
        servers: number of servers; `rails` adapters of each are cabled.
        radix: ports of each switch.
        levels: of switches: 1, 2 or 3.
        down, up: ports of a leaf to servers and to spines.
        blocks: groups of leaves with spines of their own; 1 if there are fewer than three levels.
        leaves, spines, cores: switches in all.
        leaves_per_block, spines_per_block, cores_per_spine: cores that each spine reaches.
        capacity: servers that these leaves could hold.
        links, switches: all of them.
    """

    servers: int
    radix: int
    rails: int
    levels: int
    down: int
    up: int
    blocks: int
    leaves_per_block: int
    leaves: int
    spines_per_block: int
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
        """Number of cables between switches and hosts."""
        return len(self.links)

    def summary(self) -> str:
        """One sentence."""
        kinds = [
            (self.cores, "core", "cores"),
            (self.spines, "spine", "spines"),
            (self.leaves, "leaf", "leaves"),
        ]
        parts = [some(*kind) for kind in kinds if kind[0]] if self.levels > 1 else ["1 switch"]
        blocks = f" in {self.blocks} blocks" if self.blocks > 1 else ""
        ratio = f"{self.oversubscription:.4g}:1" if self.up else "1:1"
        return (
            f"{some(self.servers, 'server')} on {self.radix}-port switches: {' + '.join(parts)}{blocks}, "
            f"{some(self.cables, 'cable')}, oversubscription {ratio}, room for {self.capacity} servers"
        )


class _Shape(NamedTuple):
    """The numbers that determine a tree; `down` and `up` of a leaf, `spine_up` cables of a spine to cores."""

    down: int
    up: int
    blocks: int
    groups_per_block: int
    spines_per_block: int
    spine_up: int = 0
    cores_per_spine: int = 0

    def cables(self, groups: int, servers: int, rails: int) -> int:
        return (
            servers * rails + groups * rails * self.up + self.blocks * self.spines_per_block * self.spine_up
        )


def design(
    servers: int, radix: int = 40, oversubscription: float = 1.0, rails: int = 1, fabric: str = "ib0"
) -> FatTree:
    """The smallest fat tree that holds the servers: fewest levels, then leaves, then other switches, then cables.

    Of three levels one with larger blocks is preferred if it needs at most a tenth more switches.

    Args:
        oversubscription: maximum ports down per port up of a leaf; there is none above leaves.
        rails: adapters of each server; adapter i of all servers of a group connects to leaf i of the group.

    Raises:
        InputError: a size that can't be built; the sentence says what can.
    """
    _check(servers, radix, oversubscription, rails)
    if servers * rails <= radix:
        return _one_level(servers, radix, rails, fabric)
    ratio = Fraction(str(oversubscription))
    down = int(radix * ratio / (1 + ratio))
    groups = -(-servers // down)
    if groups * rails <= radix:
        shape = _two_levels(servers, radix, ratio, rails, groups, down)
    else:
        shape = _three_levels(servers, radix, ratio, rails, groups, down)
    cables = shape.cables(groups, servers, rails)
    if cables > MOST_CABLES:
        raise InputError("servers", servers, f"at most {MOST_CABLES} cables; these need {cables}")
    return _build(servers, radix, rails, fabric, shape)


def _two_levels(servers: int, radix: int, ratio: Fraction, rails: int, groups: int, most: int) -> _Shape:
    """The fewest spines for these leaves; among equals the most room, then the fewest cables."""
    found: list[tuple[int, int, int]] = []
    for down in range(-(-servers // groups), most + 1):
        for up in range(_at_least(down / ratio), radix - down + 1):
            spines = _spread(up, -(-groups * rails * up // radix))
            found.append((spines, -down, up))
    spines, down, up = min(found)
    return _Shape(-down, up, 1, groups, spines)


def _three_levels(servers: int, radix: int, ratio: Fraction, rails: int, groups: int, down: int) -> _Shape:
    """The largest blocks that cost at most a tenth more switches than the fewest; half of a spine's ports go down."""
    below = radix // 2
    found: list[tuple[int, int, _Shape]] = []
    for blocks in range(2, radix + 1):
        inside = -(-groups // blocks)
        if inside * rails > below or -(-groups // inside) != blocks:
            continue
        for up in range(_at_least(down / ratio), radix - down + 1):
            spines = _spread(up, -(-inside * rails * up // below))
            for spine_up in range(inside * rails * up // spines, radix - below + 1):
                cores = _spread(spine_up, -(-blocks * spine_up // radix))
                shape = _Shape(down, up, blocks, inside, spines, spine_up, cores)
                switches = groups * rails + spines * (blocks + cores)
                found.append((switches, shape.cables(groups, servers, rails), shape))
    if not found:
        limit = f"on three levels of {radix}-port switches"
        if rails > below:
            raise InputError("rails", rails, f"at most {below} {limit}")
        most = radix * (below // rails) * down
        raise InputError("servers", servers, f"at most {most} {limit} with {some(rails, 'rail')}")
    fewest = min(switches for switches, _, _ in found)
    worth = [one for one in found if 10 * one[0] <= 11 * fewest]
    return min(worth, key=lambda one: (one[2].blocks, one[0], one[1]))[2]


def _at_least(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


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
    """The fewest switches above, at least `least`, over which these ports spread evenly."""
    return next(n for n in range(max(least, 1), ports + 1) if ports % n == 0)


def _one_level(servers: int, radix: int, rails: int, fabric: str) -> FatTree:
    """All adapters on one switch: separate switches for rails wouldn't form a fabric."""
    ends = [f"{server(i)}/{adapter(r)}" for i in range(servers) for r in range(rails)]
    links = tuple(Link(a=end, a_port=1, b="leaf1", b_port=port) for port, end in enumerate(ends, 1))
    switches = (_switch(fabric, "leaf", "leaf1", radix, None),)
    return FatTree(
        servers, radix, rails, 1, radix, 0, 1, 1, 1, 0, 0, 0, 0, radix // rails, links, switches
    )  # fmt: skip


def _build(servers: int, radix: int, rails: int, fabric: str, shape: _Shape) -> FatTree:
    groups = -(-servers // shape.down)
    switches: list[Switch] = []
    links: list[Link] = []
    for block in range(shape.blocks):
        label = f"block{block + 1}" if shape.blocks > 1 else None
        here = range(block * shape.groups_per_block, min((block + 1) * shape.groups_per_block, groups))
        names = [leaf(g, r, rails) for g in here for r in range(rails)]
        switches += [
            _switch(fabric, "leaf", name, radix, label).model_copy(
                update={"rail": i % rails + 1 if rails > 1 else None}
            )
            for i, name in enumerate(names)
        ]
        spines = [spine(block, s, shape.blocks) for s in range(shape.spines_per_block)]
        switches += [_switch(fabric, "spine", name, radix, label) for name in spines]
        each = shape.up // shape.spines_per_block
        links += [
            Link(a=name, a_port=shape.down + 1 + s * each + k, b=spines[s], b_port=1 + i * each + k)
            for i, name in enumerate(names)
            for s in range(shape.spines_per_block)
            for k in range(each)
        ]
    links += _core_links(radix, shape)
    switches += [
        _switch(fabric, "core", core(s, c), radix, None)
        for s in range(shape.spines_per_block)
        for c in range(shape.cores_per_spine)
    ]
    links += _server_links(servers, shape.down, rails)
    cores = shape.spines_per_block * shape.cores_per_spine
    return FatTree(
        servers, radix, rails, 3 if cores else 2, shape.down, shape.up, shape.blocks, shape.groups_per_block * rails,
        groups * rails, shape.spines_per_block, shape.spines_per_block * shape.blocks, shape.cores_per_spine, cores,
        groups * shape.down, tuple(links), tuple(switches),
    )  # fmt: skip


def _core_links(radix: int, shape: _Shape) -> Iterator[Link]:
    """Spine s of every block goes to the cores of plane s only."""
    below = radix // 2
    each = shape.spine_up // shape.cores_per_spine if shape.cores_per_spine else 0
    for block in range(shape.blocks):
        for s in range(shape.spines_per_block):
            for c in range(shape.cores_per_spine):
                for k in range(each):
                    yield Link(
                        a=spine(block, s, shape.blocks),
                        a_port=below + 1 + c * each + k,
                        b=core(s, c),
                        b_port=1 + block * each + k,
                    )


def _server_links(servers: int, down: int, rails: int) -> Iterator[Link]:
    for i in range(servers):
        for r in range(rails):
            yield Link(
                a=f"{server(i)}/{adapter(r)}", a_port=1, b=leaf(i // down, r, rails), b_port=i % down + 1
            )


def _switch(fabric: str, level: str, name: str, radix: int, block: str | None) -> Switch:
    return Switch.model_validate(
        {"name": name, "fabric": fabric, "level": level, "ports": radix, "block": block}
    )


def server(number: int) -> str:
    """Name of a server, by its number from 0."""
    return f"node{number + 1}"


def adapter(rail: int) -> str:
    """Name of the adapter on a rail, from 0."""
    return f"mlx5_{rail}"


def leaf(group: int, rail: int, rails: int) -> str:
    """Name of the leaf of a group on a rail; both from 0."""
    return f"leaf{group + 1}" if rails == 1 else f"leaf{group + 1}-rail{rail + 1}"


def spine(block: int, number: int, blocks: int) -> str:
    """Name of a spine, by the number of its block and its own, both from 0."""
    return f"spine{number + 1}" if blocks == 1 else f"spine{block + 1}-{number + 1}"


def core(plane: int, number: int) -> str:
    """Name of a core, by the number of its plane and its own, both from 0."""
    return f"core{plane + 1}-{number + 1}"

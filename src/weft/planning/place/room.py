"""What is left of a shared node, and which part of it a server gets. Pure.

A server with NUMA nodes (Nova's `hw:numa_nodes`) has its cores and memory on this many of them, evenly, and its devices
on them as well unless the flavor says `preferred`: the rules of Nova's `NUMATopologyFilter`. Which NUMA nodes and
devices a server gets, Nova decides; weft counts so that there is at least one way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from weft.model.placement import Part, Share
from weft.model.site import Accelerator, Hca, Node
from weft.planning.fabric.functions import adapter_at, named, parsed

UNLIMITED = 1 << 40


@dataclass(slots=True)
class HostPool:
    """Cores, dedicated cores, and MiB of memory left on a node or a NUMA node."""

    cores: int
    dedicated: int
    memory_mib: int

    @classmethod
    def of(cls, node: Node, share: int = 1) -> HostPool:
        """The share of each of this many NUMA nodes."""
        every = (node.cores, node.dedicated_cores, node.memory_mib)
        return cls(*(UNLIMITED if one is None else one // share for one in every))

    def fits(self, share: Share, dedicated: bool, parts: int = 1) -> int:
        """How many servers fit whose cores and memory are spread over `parts` pools, one of them this."""
        has = self.dedicated if dedicated else self.cores
        room = UNLIMITED
        for left, needs in ((has, share.cores), (self.memory_mib, share.memory_mib)):
            room = min(room, left // -(-needs // parts)) if needs else room
        return max(room, 0)

    def take(self, cores: int, memory_mib: int, dedicated: bool) -> None:
        if dedicated:
            self.dedicated -= cores
        else:
            self.cores -= cores
        self.memory_mib -= memory_mib

    def least(self, other: HostPool) -> HostPool:
        """The minimum of both pools, amount by amount."""
        return HostPool(
            min(self.cores, other.cores),
            min(self.dedicated, other.dedicated),
            min(self.memory_mib, other.memory_mib),
        )


@dataclass(slots=True)
class Room:
    """What is left of a node.

    Attributes:
        devices: free accelerators of the ordered type.
        functions: adapter -> free virtual functions, as weft counts them; `adapters` on the order's fabric.
        taken: adapter -> functions taken there: where Nova has bound them, else where they were counted.
        pool: of the whole node; `pools`: of each NUMA node.
        begun: whether a part of it is already taken.
        order: its place in the tree.
        servers: how many servers of the order fit on it.
    """

    node: Node
    devices: list[Accelerator]
    adapters: tuple[Hca, ...]
    functions: dict[str, list[str]]
    taken: dict[str, int]
    pool: HostPool
    pools: list[HostPool]
    begun: bool
    order: int
    servers: int = field(default=0)

    @classmethod
    def of(cls, node: Node, parts: Sequence[Part], type_: str, fabric: str, order: int) -> Room:
        """What is left of a node without held parts; `order`: its rank among nodes that suit equally."""
        gone = {device for part in parts for device in part.devices}
        held = {vf: part.slots.get(vf) for part in parts for vf in part.vfs}
        adapters = tuple(h for h in node.hcas_on(fabric) if h.vfs)
        functions = {h.name: [vf for i in range(h.vfs) if (vf := named(h, i)) not in held] for h in adapters}
        taken = dict.fromkeys(functions, 0)
        for vf, slot in held.items():
            at = (adapter_at(node, slot) if slot else None) or parsed(vf)[0]
            taken[at] = taken.get(at, 0) + 1
        free = [a for a in node.accelerators if a.type == type_ and a.pci not in gone]
        pool, pools = _left(node, parts)
        return cls(node, free, adapters, functions, taken, pool, pools, bool(parts), order)

    def count(self, accelerators: int, share: Share) -> int:
        """The most servers that fit, with this many accelerators each; takes nothing."""
        if share.numa is None and not share.vfs:
            return min(len(self.devices) // accelerators, self.pool.fits(share, self._own(share)))
        left = self._copy()
        servers = 0
        while left.take(accelerators, share) is not None:
            servers += 1
        return servers

    def take(self, accelerators: int, share: Share) -> Part | None:
        """Take one server's part; None: it doesn't fit."""
        found = self._choice(accelerators, share)
        if found is None:
            return None
        cells, devices, hcas = found
        chosen = {a.pci for a in devices}
        self.devices = [a for a in self.devices if a.pci not in chosen]
        own = self._own(share)
        part = Part(
            devices=tuple(a.pci for a in devices),
            cores=share.cores,
            memory_mib=share.memory_mib,
            of_cores=self.node.dedicated_cores if own else self.node.cores,
            of_memory_mib=self.node.memory_mib,
            dedicated=own,
            numa=cells,
            numa_of=self.node.numa,
            vfs=tuple(self._function(h) for h in hcas),
        )
        _take(part, self.pool, self.pools)
        return part

    @property
    def layout(self) -> object:
        """What decides how many servers fit on it while it is unused."""
        node = self.node
        devices = tuple((a.numa, a.switch) for a in self.devices)
        hcas = tuple((h.numa, h.switch, h.vfs) for h in self.adapters)
        return devices, hcas, node.cores, node.dedicated_cores, node.memory_mib, node.numa, node.sockets

    @property
    def free_functions(self) -> int:
        """Virtual functions that are left on the order's fabric."""
        return sum(map(len, self.functions.values()))

    def _own(self, share: Share) -> bool:
        """Whether its cores come from the dedicated ones; if those aren't counted, there is one pool."""
        return share.dedicated and self.node.dedicated_cores is not None

    def _choice(
        self, accelerators: int, share: Share
    ) -> tuple[tuple[int, ...], list[Accelerator], list[Hca]] | None:
        """NUMA nodes, accelerators and adapters: of all ways, one that strands the fewest accelerators."""
        if not self.pool.fits(share, self._own(share)):
            return None
        best: tuple[tuple[int, ...], tuple[tuple[int, ...], list[Accelerator], list[Hca]]] | None = None
        for cells in self._cells(share):
            near = self._near(cells, share)
            there = [a for a in self.devices if a.numa in near]
            adapters = [h for h in self.adapters if h.numa in near]
            if len(there) < accelerators:
                continue
            inside = [a for a in there if a.numa in cells]  # `preferred` may have them elsewhere
            devices = nearest(inside if len(inside) >= accelerators else there, accelerators)
            hcas = self._adapters(adapters, devices, share.vfs)
            if hcas is None:
                continue
            away = sum(a.numa not in cells for a in devices) if cells else 0
            rank = (away, len(inside) if cells else 0, *cells)
            if best is None or rank < best[0]:
                best = rank, (cells, devices, hcas)
        return best and best[1]

    def _cells(self, share: Share) -> Iterator[tuple[int, ...]]:
        """Every set of NUMA nodes with enough cores and memory; the empty set for a server without NUMA nodes."""
        if share.numa is None:
            yield ()
            return
        able = [i for i, pool in enumerate(self.pools) if pool.fits(share, self._own(share), share.numa)]
        yield from combinations(able, share.numa)

    def _near(self, cells: Collection[int], share: Share) -> Collection[int]:
        """NUMA nodes that devices of a server on `cells` may be on."""
        if share.numa is None or share.affinity == "preferred":
            return range(1 << 16)
        if share.affinity != "socket":
            return cells
        count, sockets = len(self.pools), self.node.sockets or len(self.pools)
        mine = {cell * sockets // count for cell in cells}
        return [cell for cell in range(count) if cell * sockets // count in mine]

    def _adapters(
        self, adapters: Sequence[Hca], devices: Sequence[Accelerator], wanted: int
    ) -> list[Hca] | None:
        """This many adapters with a free function, closest to the accelerators, keeping room for further servers."""
        left = {h.name: self._functions_left(h) for h in adapters}
        able = sorted((h for h in adapters if left[h.name]), key=lambda h: _distance(h, devices))
        most = _servers(left.values(), wanted)
        for chosen in combinations(able, wanted):
            after = {**left, **{h.name: left[h.name] - 1 for h in chosen}}
            if _servers(after.values(), wanted) >= most - 1:
                return list(chosen)
        return None

    def _functions_left(self, hca: Hca) -> int:
        """Functions of an adapter that a server could get; those that Nova took from another adapter count there."""
        return max(0, min(hca.vfs - self.taken.get(hca.name, 0), self.free_functions))

    def _function(self, hca: Hca) -> str:
        """Take one of its functions; from another adapter if weft counts none left on this one."""
        own = self.functions[hca.name] or next(f for f in self.functions.values() if f)
        self.taken[hca.name] = self.taken.get(hca.name, 0) + 1
        return own.pop(0)

    def _copy(self) -> Room:
        return replace(
            self,
            devices=list(self.devices),
            functions={name: list(free) for name, free in self.functions.items()},
            taken=dict(self.taken),
            pool=replace(self.pool),
            pools=[replace(pool) for pool in self.pools],
        )


def nearest(free: Sequence[Accelerator], count: int) -> list[Accelerator]:
    """This many of the devices behind one PCIe switch, else on one NUMA node, else on as few as possible.

    Of several groups, that with the fewest other devices.
    """
    numa = _groups(free, lambda a: str(a.numa))
    inside = [group for group in numa if len(group) >= count]
    switches = [s for group in inside for s in _groups(group, lambda a: a.switch or f"alone {a.pci}")]
    for groups in (switches, inside):
        if fitting := [group for group in groups if len(group) >= count]:
            return min(fitting, key=lambda g: (len(g) - count, g[0].pci))[:count]
    found: list[Accelerator] = []
    for group in sorted(numa, key=lambda g: (-len(g), g[0].pci)):
        found += group[: count - len(found)]
    return found


def clash(node: Node, mine: Sequence[Part], others: Sequence[Part]) -> str | None:
    """What two sets of parts of a node can't both have; None: both fit."""
    for what, names, theirs in (
        ("accelerators", [d for p in mine for d in p.devices], [d for p in others for d in p.devices]),
        ("virtual functions", [v for p in mine for v in p.vfs], [v for p in others for v in p.vfs]),
    ):
        if set(names) & set(theirs):
            return what
    pool, pools = _left(node, (*mine, *others))
    for one in (pool, *pools):
        if min(one.cores, one.dedicated) < 0:
            return "cores"
        if one.memory_mib < 0:
            return "memory"
    return None


def near_words(node: Node, part: Part) -> str:
    """How close a part's virtual functions are to its accelerators, for people."""
    devices = [a for a in node.accelerators if a.pci in part.devices]
    hcas = [h for h in node.hcas if h.name in {parsed(vf)[0] for vf in part.vfs}]
    worst = max((_distance(h, devices)[0] for h in hcas), default=0)
    return ("behind the same PCIe switch", "on the same NUMA node", "not on the same NUMA node")[worst]


def _distance(hca: Hca, devices: Collection[Accelerator]) -> tuple[int, str]:
    """0: behind the PCIe switch of one of these; 1: on the NUMA node of one; 2: elsewhere. Then by name."""
    if any(a.numa == hca.numa and hca.switch is not None and a.switch == hca.switch for a in devices):
        return 0, hca.name
    return (1 if any(a.numa == hca.numa for a in devices) else 2), hca.name


def _servers(left: Iterable[int], each: int) -> int:
    """How many servers these suffice for, with functions of this many different adapters each."""
    functions = list(left)
    low, high = 0, sum(functions) // each if each else 0
    while low < high:
        middle = (low + high + 1) // 2
        enough = sum(min(n, middle) for n in functions) >= middle * each
        low, high = (middle, high) if enough else (low, middle - 1)
    return low


def _groups(devices: Iterable[Accelerator], key: Callable[[Accelerator], str]) -> list[list[Accelerator]]:
    found: dict[str, list[Accelerator]] = {}
    for one in sorted(devices, key=lambda a: a.pci):
        found.setdefault(key(one), []).append(one)
    return list(found.values())


def _take(part: Part, pool: HostPool, pools: Sequence[HostPool]) -> None:
    pool.take(part.cores, part.memory_mib, part.dedicated)
    size = len(part.numa)
    for number in part.numa:
        if number < len(pools):  # the site may have said otherwise when it was given
            pools[number].take(-(-part.cores // size), -(-part.memory_mib // size), part.dedicated)


def _left(node: Node, parts: Sequence[Part]) -> tuple[HostPool, list[HostPool]]:
    """What is left of the node and of each of its NUMA nodes at the fullest moment: two parts that follow each other
    never count together."""
    pool, pools = HostPool.of(node), [HostPool.of(node, node.numa) for _ in range(node.numa)]
    least, leasts = pool, pools
    for at in sorted({part.start for part in parts}):
        now, each = replace(pool), [replace(one) for one in pools]
        for part in parts:
            if part.start <= at and (part.end is None or at < part.end):
                _take(part, now, each)
        least, leasts = least.least(now), [a.least(b) for a, b in zip(leasts, each, strict=True)]
    return replace(least), [replace(one) for one in leasts]

"""IPUs over time: the queue's timeline and an order's plan decide the same, and the earliest start is the first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.paths import EXAMPLES
from tests.helpers.smallsite import POD_ID
from weft.app.sitefile import load_site
from weft.model.order import Order
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.planning.place.slots import HOST, slot
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import Leases
from weft.planning.shapes.ipu.capacity import ipu_capacity
from weft.planning.shapes.ipu.line import IpuAsk, IpuTimeline
from weft.planning.shapes.plan import make_plan

ONE: Site = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")


def two_pods() -> Site:
    """A torus of 16 machines and a mesh of 8; one Poplar server serves both, the other only the first; few places."""
    first = ONE.ipu_pods["pod1"]
    second = first.model_copy(update={"topology": "mesh"})
    more = [
        m.model_copy(update={"name": f"second{m.position}", "ipu_pod": "pod2"}) for m in ONE.ipu_machines[:8]
    ]
    hosts = [
        n.model_copy(update={"servers": 2, "ipu_pod": None if n.name == "poplar1" else n.ipu_pod})
        for n in ONE.nodes
    ]
    return ONE.model_copy(
        update={
            "ipu_pods": {"pod1": first, "pod2": second},
            "ipu_machines": (*ONE.ipu_machines, *more),
            "nodes": tuple(hosts),
        }
    )


SITE = two_pods()
NAMES = [m.name for m in SITE.ipu_machines]
PLACES = [slot(n.name, i) for n in SITE.nodes for i in (1, 2)]
NOW = 100.0

spans = st.tuples(st.integers(0, 300), st.integers(1, 300)).map(lambda s: (float(s[0]), float(sum(s))))
things = st.sets(st.sampled_from([*NAMES, *PLACES]), min_size=1, max_size=9)


def ordered(count: int, servers: int, ipu_pod: str | None) -> Order:
    return Order.model_validate(
        {
            "name": "bert",
            "ipus": {"count": count, "ipu_pod": ipu_pod},
            "nodes": {"count": servers, "flavor": "poplar", "image": "ubuntu"},
        }
    )


orders = st.builds(
    ordered,
    st.sampled_from([4, 8, 16, 32, 64]),
    st.integers(1, 2),
    st.sampled_from([None, "pod1", "pod2"]),
)


@st.composite
def books(draw: st.DrawFn) -> Book:
    """Leases that don't overlap, bookings that may begin when these end, a block of another project."""
    left = {*NAMES, *PLACES}
    leases: list[Keep] = []
    for n in range(draw(st.integers(0, 5))):
        mine = tuple(sorted(draw(things) & left))
        left -= set(mine)
        if mine:
            leases.append(Keep(f"lease{n}", "other", mine, 0.0, NOW + draw(st.integers(1, 300))))
    bookings = [
        _keep(f"booking{n}", "other", draw(things), draw(spans)) for n in range(draw(st.integers(0, 3)))
    ]
    blocks = [_keep("block", "theirs", draw(things), draw(spans))]
    return Book(Leases.of(leases), tuple(bookings), tuple(blocks) if draw(st.booleans()) else ())


def _keep(name: str, project: str, nodes: set[str], span: tuple[float, float]) -> Keep:
    return Keep(name, project, tuple(sorted(nodes)), NOW + span[0], NOW + span[1])


@st.composite
def healths(draw: st.DrawFn) -> Occupancy:
    names = st.sampled_from([*NAMES, *(n.name for n in SITE.nodes)])
    bad = draw(st.sets(names, max_size=3))
    reasons = dict.fromkeys(bad, "out of order")
    return draw(st.sampled_from([Occupancy(down=reasons), Occupancy(quarantined=reasons)]))


def planned(order: Order, book: Book, health: Occupancy, start: float, end: float) -> set[str] | None:
    """What the order's plan has in this window, or None."""
    occupancy = book.occupancy(health, "team", NOW, start, end)
    made = make_plan(POD_ID, "team", order, SITE, occupancy, UsedNumbers(), {})
    if not isinstance(made, Plan):
        return None
    hosts = {s.removeprefix(HOST): n for s, n in made.allotment.numbers.items() if s.startswith(HOST)}
    return {*(n.node for n in made.placement.nodes), *(slot(host, n) for host, n in hosts.items())}


@given(books(), healths(), orders, st.integers(0, 400), st.integers(1, 300))
def test_timeline_and_plan_agree(
    book: Book, health: Occupancy, order: Order, later: int, length: int
) -> None:
    """Now and in any window: the same machines and places, or neither has any."""
    line = IpuTimeline.of(book, SITE, "main", health, NOW)
    ask = IpuAsk.for_order(order, "team")
    start = NOW + later
    decide = line.at if later else line.decide
    decision = decide(ask, start, start + length)
    assert (set(decision.nodes) if decision else None) == planned(order, book, health, start, start + length)
    if decision:
        assert sum(bits.bit_count() for _, bits in decision.bits) == ask.held


@given(books(), healths(), orders, st.integers(1, 300))
def test_earliest_start_is_the_first_possible(
    book: Book, health: Occupancy, order: Order, length: int
) -> None:
    """Compared with the definition: the first of now and all ends at which a plan can be made."""
    line = IpuTimeline.of(book, SITE, "main", health, NOW)
    found = line.earliest(IpuAsk.for_order(order, "team"), float(length), NOW)
    keeps = (*book.leases, *book.bookings, *book.reservations)
    moments = [NOW, *sorted({k.end for k in keeps if k.end > NOW})]
    first = next((m for m in moments if planned(order, book, health, m, m + length)), None)
    assert (found.at if found else None) == first


@given(books(), healths(), st.integers(1, 300))
def test_capacity_is_what_can_be_ordered(book: Book, health: Occupancy, length: int) -> None:
    """Exactly the sizes up to the reported one; larger ones fit at the reported time, or at no known time."""
    rows = ipu_capacity(SITE, health, book, NOW, float(length), "team")
    assert [r.ipu_pod for r in rows] == ["pod1", "pod2"]
    for row in rows:
        soon = dict(row.soon)
        for count in (4, 8, 16, 32, 64):
            order = ordered(count, 1, row.ipu_pod)
            found = planned(order, book, health, NOW, NOW + length)
            assert (found is not None) == (count <= row.largest)
            line = IpuTimeline.of(book, SITE, "main", health, NOW)
            start = line.earliest(IpuAsk.for_order(order, "team"), float(length), NOW)
            if count > row.largest:
                assert soon.get(count) == (start.at if start else None)
        occupancy = book.occupancy(health, "team", NOW, NOW, NOW + length)
        gone = {**occupancy.busy, **occupancy.reserved, **health.down, **health.quarantined}
        mine = [m.name for m in SITE.ipu_machines if m.ipu_pod == row.ipu_pod]
        assert (row.machines, row.free) == (len(mine), sum(m not in gone for m in mine))

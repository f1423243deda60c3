"""Which IPU-Machines an order gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.offers import offers
from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.model.placement import Occupancy, Refusal
from weft.model.site import Site
from weft.planning.shapes.ipu.run import choose_run, rows, runs, stretches

POD64: Site = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")
NAMES = [m.name for m in POD64.ipu_machines]


def busy(*positions: int, pod: str = "other") -> Occupancy:
    return Occupancy(busy={NAMES[p - 1]: pod for p in positions})


def positions(machines: int, occupancy: Occupancy, site: Site = POD64) -> tuple[int, ...]:
    chosen = choose_run(machines, "main", None, site, occupancy)
    assert not isinstance(chosen, Refusal), chosen.reason
    return chosen[0].positions


def mesh(site: Site = POD64) -> Site:
    pods = {n: p.model_copy(update={"topology": "mesh"}) for n, p in site.ipu_pods.items()}
    return site.model_copy(update={"ipu_pods": pods})


@pytest.mark.parametrize(
    ("machines", "taken", "expected"),
    [
        (16, (), tuple(range(1, 17))),
        (4, (), (1, 2, 3, 4)),
        (1, (1,), (2,)),
        (4, (1,), (5, 6, 7, 8)),
        (2, (1, 2, 3, 4, 5), (7, 8)),
        (4, tuple(range(3, 15)), (15, 16, 1, 2)),
        (8, (1, 2, 3, 4, 13, 14, 15, 16), tuple(range(5, 13))),
    ],
    ids=["whole ring", "empty", "fills a gap", "aligned", "smallest harm", "over the end", "the only one"],
)
def test_run_breaks_the_fewest_aligned_runs(
    machines: int, taken: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """The machines are neighbours in cable order."""
    assert positions(machines, busy(*taken)) == expected


def test_mesh_runs_do_not_wrap_around() -> None:
    """In a row that isn't a ring the first and the last machine aren't neighbours."""
    refused = choose_run(4, "main", None, mesh(), busy(*range(3, 15)))
    assert isinstance(refused, Refusal) and "the longest run of them is 2" in refused.reason
    assert "ipus.count: 8 instead of 16" in offers(refused) and "when pod other is released" in offers(
        refused
    )


def test_ring_with_empty_position_does_not_wrap_around() -> None:
    """A machine that was removed for repair took its cables with it."""
    site = POD64.model_copy(update={"ipu_machines": tuple(m for m in POD64.ipu_machines if m.position != 7)})
    refused = choose_run(16, "main", None, site, Occupancy())
    assert isinstance(refused, Refusal) and "the longest run of them is 9" in refused.reason


def test_every_excluded_machine_is_reported() -> None:
    """Maintenance, a host that is down, quarantine, bookings and other pods are filters."""
    held = [m.model_copy(update={"maintenance": "new gateway"}) for m in POD64.ipu_machines[:1]]
    site = POD64.model_copy(update={"ipu_machines": (*held, *POD64.ipu_machines[1:])})
    occupancy = Occupancy(
        busy={NAMES[1]: "p"},
        quarantined={NAMES[2]: "dirty"},
        on_hold={NAMES[5]: "held for burn-in"},
        drained={NAMES[6]: "drained"},
        down={NAMES[3]: "off"},
        reserved={NAMES[4]: "q"},
    )
    refused = choose_run(16, "main", "pod1", site, occupancy)
    assert isinstance(refused, Refusal)
    examples = {f.filter: f.examples for f in refused.explanation.filters if f.removed}
    assert examples == {
        "maintenance": (f"{NAMES[0]}: new gateway",),
        "down": (f"{NAMES[3]}: off",),
        "quarantine": (f"{NAMES[2]}: dirty",),
        "hold": (f"{NAMES[5]}: held for burn-in",),
        "drain": (f"{NAMES[6]}: drained",),
        "busy": (f"{NAMES[1]}: held by pod p",),
        "reserved": (f"{NAMES[4]}: q",),
    }


@given(st.sets(st.integers(1, 16)), st.sampled_from([1, 2, 4, 8, 16]), st.booleans())
def test_run_is_found_exactly_if_one_exists(taken: set[int], machines: int, ring: bool) -> None:
    """Compared with the definition: this many free positions, each next to its predecessor."""
    site = POD64 if ring else mesh()
    starts = range(1, 17) if ring else range(1, 18 - machines)
    there = [
        tuple((s - 1 + i) % 16 + 1 for i in range(machines))
        for s in starts
        if not taken & {(s - 1 + i) % 16 + 1 for i in range(machines)}
    ]
    free = [m for m in site.ipu_machines if m.position not in taken]
    found = {r.positions for r in runs(machines, rows(site, free))}
    assert {frozenset(r) for r in there} == {frozenset(r) for r in found}
    assert all(set(s) <= {m.position for m in free} for s in stretches(rows(site, free)[0]))
    chosen = choose_run(machines, "main", None, site, busy(*taken))
    assert isinstance(chosen, Refusal) == (not there)

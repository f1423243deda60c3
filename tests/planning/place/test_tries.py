"""What a refused order is offered: tried by counting, which must answer as placement would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.planning.place.placesites import build_request, build_site, dedicate
from weft.model.localityorder import Level
from weft.model.placement import Neighbour, Occupancy, Placement, PlacementRequest
from weft.model.site import Node
from weft.planning.fabric.topology import Topology
from weft.planning.place.engine import Engine
from weft.planning.place.placement import decide, place
from weft.planning.place.tries import Tries

SITES = [
    build_site([[3, 3, 2], [4, 2]], accelerators=2),
    dedicate(build_site([[3, 3, 2], [4, 2]], accelerators=2), "l0-1", "p2"),
]
NAMES = [n.name for n in SITES[0].nodes]
PODS = ["pod0", "pod1", "pod2", "pod3"]
LEVELS: tuple[Level, ...] = ("node", "leaf", "block", "site")
nodes = st.sets(st.sampled_from(NAMES), max_size=5)


@st.composite
def occupancies(draw: st.DrawFn) -> Occupancy:
    """Some pods with terms of their own, and unusable nodes for each reason, held or not."""
    busy: dict[str, str] = {}
    neighbours: list[Neighbour] = []
    for n in range(draw(st.integers(0, 4))):
        mine = sorted(draw(nodes) - busy.keys())
        busy |= dict.fromkeys(mine, f"pod{n}")
        project, closed = draw(st.sampled_from(["p1", "p2"])), draw(st.sampled_from([False, False, True]))
        neighbours.append(Neighbour(pod=f"pod{n}", project=project, nodes=tuple(mine), exclusive=closed))
    why = dict.fromkeys
    return Occupancy(
        busy=busy,
        neighbours=tuple(neighbours),
        quarantined=why(draw(st.one_of(nodes, st.just(set(busy)))), "dirty"),
        down=why(draw(st.sets(st.sampled_from(NAMES), max_size=2)), "down"),
        reserved=why(draw(st.sets(st.sampled_from(NAMES), max_size=2)), "promised"),
    )


def requests(**fields: Any) -> st.SearchStrategy[PlacementRequest]:
    chosen: dict[str, st.SearchStrategy[Any]] = {
        "slices": st.integers(1, 6),
        "slice": st.sampled_from([1, 1, 2]),
        "spare": st.sampled_from([0, 0, 1]),
        "required": st.sampled_from(LEVELS),
        "exclusive": st.booleans(),
        "apart_from": st.sampled_from([(), ("p2",)]),
        "exclude": st.sampled_from([(), tuple(NAMES[:9])]),
        "near": st.sampled_from([(), (), (NAMES[0],)]),
        **fields,
    }
    return st.fixed_dictionaries(chosen).map(_request)


def _request(fields: dict[str, Any]) -> PlacementRequest:
    slices, size, spare = fields.pop("slices"), fields["slice"], fields.pop("spare")
    preferred = "node" if fields["required"] == "node" else "leaf"
    return build_request(slices * size, spare=spare * size, preferred=preferred, **fields)


@given(
    st.sampled_from(SITES),
    requests(),
    occupancies(),
    st.one_of(st.sets(st.sampled_from(PODS)), st.just(set(PODS))),
    st.one_of(st.sets(st.sampled_from(NAMES)), st.just(set(NAMES))),
    st.sampled_from(["as it is", "open", "anything", "fewer"]),
)
@settings(max_examples=examples(120))
def test_trial_placement_agrees_with_placement(
    site: Any,
    request: PlacementRequest,
    occupancy: Occupancy,
    gone: set[str],
    clean: set[str],
    change: str,
) -> None:
    """Pods gone, nodes out of quarantine, leaves shared, nothing excluded, fewer nodes."""
    topology = Topology.of(site, "ib0")

    def among(left: Sequence[Node]) -> Engine:
        return Engine.among(site, "ib0", (n.name for n in left), occupancy)

    tries = Tries(
        request,
        site,
        topology,
        occupancy,
        lambda gang, left, carried: decide(gang, among(left), carried) is not None,
    )
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "open": {"exclusive": False, "apart_from": ()},
        "anything": {"exclude": ()},
        "fewer": {"count": request.slice, "spare": 0},
    }
    changed = request.model_copy(update=changes[change])
    quarantined = {n: why for n, why in occupancy.quarantined.items() if n not in clean}
    then = occupancy.model_copy(update={"quarantined": quarantined})
    after = then.model_copy(
        update={
            "busy": {n: pod for n, pod in then.busy.items() if pod not in gone},
            "neighbours": tuple(n for n in then.neighbours if n.pod not in gone),
        }
    )
    for asked in (
        request,
        changed,
        request,
    ):  # the filter's result may be used again only for a request like it
        assert tries.fits(asked, then, gone) == isinstance(place(asked, site, after), Placement)

"""Who is on which link: pods on shared uplinks, the noisy neighbor, and what a tenant learns of others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.engine.house import House, policy
from tests.engine.timehouse import make
from weft.app.redact import redacted
from weft.app.tenanttext import HIDDEN
from weft.engine.rows.records import PodRecord
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    PermanentError,
    UnknownError,
)
from weft.model.linkreading import UNKNOWN_RATE, PortRate, TimedRoutes
from weft.model.pod import PodState
from weft.model.views import Disturbers, DrainRequest, PodLinks
from weft.planning.fabric.forwarding import Forwarding
from weft.ports.fabric import FollowsRoutes
from weft.testing.fabric_routes import FakeRoutes

GB = 1e9
BUSY = 20 * GB
LEAVES = {n: {f"gpu{i:02}" for i in range(4 * n - 3, 4 * n + 1)} for n in range(1, 5)}


def on(house: House, name: str, nodes: set[str], **more: Any) -> PodRecord:
    """A ready pod on these nodes."""
    others = {n.name for n in house.site.nodes if n.role == "compute"} - nodes
    for node in sorted(others):
        house.service.nodes.drain(house.operator, DrainRequest(target=node))
    pod = house.run(house.order(make(name, len(nodes), **more)), PodState.READY)
    for node in sorted(others):
        house.service.nodes.undrain(house.operator, node)
    assert set(pod.nodes) == nodes
    return pod


@pytest.fixture
def pods(house: House) -> dict[str, PodRecord]:
    """Three pods across leaves 1 and 2, which have two uplinks each, and one within leaf 3."""
    left: dict[frozenset[str], int] = {}
    switches = {s.name for s in house.site.switches}
    for link in house.site.links:
        if {link.a, link.b} <= switches:
            ends = frozenset({link.a, link.b})
            left[ends] = left.get(ends, 0) + 1
            if left[ends] > 1:
                house.fabric.wire.cut_links.add((link.a, link.a_port))
    return {
        "victim": on(house, "victim", {"gpu01", "gpu05"}),
        "noisy": on(house, "noisy", {"gpu02", "gpu03", "gpu06", "gpu07"}),
        "quiet": on(house, "quiet", {"gpu04", "gpu08"}),
        "apart": on(house, "apart", {"gpu09", "gpu10"}),
    }


def routes(house: House) -> FakeRoutes:
    return house.fabric.manager("sm1").forwarding


def sends(house: House, pod: PodRecord, rate: float) -> None:
    """Let each adapter of a pod send so many bytes per second."""
    for node in pod.nodes:
        for hca in house.site.node_by_name[node].hcas_on("ib0"):
            routes(house).traffic[hca.guid, 1] = PortRate(rate, rate, 0.0, 0.0)


def shared(house: House, one: PodRecord, other: PodRecord) -> list[tuple[int, int]]:
    """(GUID, port) at which the paths of both pods leave a switch for another switch."""
    found = [
        {
            (link.sender, link.sender_port)
            for link in links(house, pod).links
            if link.sender_level != "adapter" and link.receiver_level != "adapter"
        }
        for pod in (one, other)
    ]
    return [(house.site.switch_by_name[name].guid or 0, port) for name, port in sorted(found[0] & found[1])]


def congest(house: House, ends: list[tuple[int, int]], waiting: float = 0.6, before: float = 0.6) -> None:
    for end in ends:
        routes(house).traffic[end] = PortRate(BUSY, 0.0, waiting, before)
    forget(house)


def forget(house: House) -> None:
    """Let so much time pass that the next answer is read again."""
    house.fabric._rates._last = house.fabric._routes._last = None  # pyright: ignore[reportPrivateUsage]


def links(house: House, pod: PodRecord, **given: Any) -> PodLinks:
    return house.service.fabrics.pod_links(house.operator, str(pod.id), **given)


def disturbers(house: House, pod: PodRecord, **given: Any) -> Disturbers:
    return house.service.fabrics.who_disturbs(house.operator, str(pod.id), **given)


def test_noisy_neighbor_is_named_and_a_quiet_one_is_not(house: House, pods: dict[str, PodRecord]) -> None:
    """On the links that both use and that wait, the one that sends is the cause."""
    sends(house, pods["noisy"], BUSY)
    ends = shared(house, pods["victim"], pods["noisy"])
    assert ends
    congest(house, ends)
    found = disturbers(house, pods["victim"])
    first, *rest = found.others
    assert (first.name, first.project_id) == ("noisy", pods["noisy"].project_id)
    assert first.cause_of == first.congested_links == len(found.congested) == len(ends)
    assert first.sent_gbps and first.sent_gbps > 1
    assert {o.name for o in rest} <= {"quiet"} and all(o.cause_of == 0 for o in rest)
    assert all(view.cause == str(pods["noisy"].id) and view.congested for view in found.congested)
    assert found.unknown_links == 0 and found.reading.exact and found.reading.notes == ()


def test_cause_is_named_only_where_one_pod_explains_a_congestion(
    house: House, pods: dict[str, PodRecord]
) -> None:
    """The pod itself is its own cause; two that send alike, a single interval, and what isn't read leave it open."""
    victim, ends = pods["victim"], shared(house, pods["victim"], pods["noisy"])
    sends(house, victim, BUSY)
    congest(house, ends)
    found = disturbers(house, victim)
    assert found.congested and {view.cause for view in found.congested} == {str(victim.id)}
    assert all(other.cause_of == 0 for other in found.others)
    sends(house, pods["noisy"], BUSY)
    forget(house)
    found = disturbers(house, victim)
    assert {view.cause for view in found.congested} == {""} and {o.name for o in found.others} >= {"noisy"}
    for node in victim.nodes:
        for hca in house.site.node_by_name[node].hcas_on("ib0"):
            routes(house).traffic[hca.guid, 1] = PortRate()
    forget(house)
    assert {view.cause for view in disturbers(house, victim).congested} == {""}, "it may be all of it"
    congest(house, ends, waiting=0.9, before=0.1)
    found = disturbers(house, victim)
    assert found.congested == () and found.unknown_links == 0
    routes(house).traffic[ends[0]] = PortRate(BUSY, 0.0, None, None, full=True)
    forget(house)
    found = disturbers(house, victim)
    assert found.congested == () and found.unknown_links == 1, "a full counter isn't a good one"


def test_pod_that_explains_little_of_a_links_traffic_is_not_accused(
    house: House, pods: dict[str, PodRecord]
) -> None:
    """The rest is of storage, say, or of a pod whose path isn't known; nor is a pod by paths that are only possible."""
    ends = shared(house, pods["victim"], pods["noisy"])
    sends(house, pods["noisy"], BUSY / 100)
    congest(house, ends)
    found = disturbers(house, pods["victim"])
    assert {view.cause for view in found.congested} == {""} and all(o.cause_of == 0 for o in found.others)
    sends(house, pods["noisy"], BUSY)
    for engine, named in (("minhop", True), ("ar_updn", False), ("dfp2", False), ("", False)):
        routes(house).engine = engine
        forget(house)
        found = disturbers(house, pods["victim"])
        assert found.congested and any(o.cause_of for o in found.others) is named
        assert found.reading.exact is named and bool(found.reading.notes) is not named


def test_link_shows_each_pod_on_it_in_each_direction(house: House, pods: dict[str, PodRecord]) -> None:
    """A host's cable has its own pod alone; an uplink those whose paths are on it, and what they send."""
    sends(house, pods["noisy"], GB)
    answer = house.service.fabrics.show_link(house.operator, "gpu02/mlx5_0")
    up, down = sorted(answer.links, key=lambda link: link.sender != "gpu02/mlx5_0")
    assert (up.sender, down.receiver) == ("gpu02/mlx5_0", "gpu02/mlx5_0")
    assert [[p.name for p in link.pods] for link in (up, down)] == [["noisy"], ["noisy"]]
    assert up.pods[0].sent_gbps == pytest.approx(8.0) and up.sent_gbps == pytest.approx(8.0)
    guid, port = shared(house, pods["victim"], pods["noisy"])[0]
    switch = next(s.name for s in house.site.switches if s.guid == guid)
    [out] = [
        k
        for k in house.service.fabrics.show_link(house.operator, f"{switch}:{port}").links
        if k.sender == switch
    ]
    assert {"victim", "noisy"} <= {p.name for p in out.pods} <= {"victim", "noisy", "quiet"}
    assert out.gbps == 200 and out.congested is False


def test_links_depend_on_the_pattern_and_unknown_links_are_refused(
    house: House, pods: dict[str, PodRecord]
) -> None:
    """All pairs use at least the links of a rail; a ring has one path for each adapter."""
    rail, every, ring = (links(house, pods["noisy"], pattern=p) for p in ("rail", "all", "ring"))

    def sent(found: PodLinks) -> int:
        return sum(k.paths for k in found.links if k.sender_level == "adapter")

    assert rail.adapters == every.adapters == ring.adapters == sent(ring)
    assert sent(ring) < sent(rail) <= sent(every)
    with pytest.raises(InputError, match="link"):
        house.service.fabrics.show_link(house.operator, "leaf99:1")
    apart = links(house, pods["apart"])
    assert apart.shared_with == 0 and {k.shared_with for k in apart.links} == {0}
    assert disturbers(house, pods["apart"]).links == 0, "within a leaf"


def test_tenant_learns_how_many_share_a_link_and_not_who(house: House, pods: dict[str, PodRecord]) -> None:
    """Upper switches, rates and waiting are hidden: they would show others' traffic."""
    sends(house, pods["noisy"], BUSY)
    congest(house, shared(house, pods["victim"], pods["noisy"]))
    verbs: Any = redacted(house.service, policy())
    found: PodLinks = verbs.fabrics.pod_links(house.request(), "victim")
    text = found.model_dump_json()
    assert found.reading is None and "noisy" not in text and "spine" not in text
    assert max(k.shared_with for k in found.links) >= 1 and found.shared_with >= 1
    assert {k.sender for k in found.links} >= {HIDDEN, "leaf01", "leaf02"}
    assert {(k.sent_gbps, k.waiting, k.congested, k.gbps, k.sender_port) for k in found.links} == {
        (None, None, None, None, 0)
    }
    for ask in (verbs.fabrics.who_disturbs, verbs.fabrics.show_link):
        with pytest.raises(ForbiddenError):
            ask(house.request(), "victim")
    with pytest.raises(NotFoundError):
        verbs.fabrics.pod_links(house.request("team-b"), "victim")


def test_cut_uplink_between_two_readings_moves_its_paths(house: House, pods: dict[str, PodRecord]) -> None:
    """The next answer has other tables, and no path on the cut cable."""
    before = links(house, pods["victim"])
    link = next(k for k in before.links if k.sender_level == "leaf" and k.receiver_level == "other")
    house.fabric.wire.cut_links.add((link.sender, link.sender_port))
    forget(house)
    after = links(house, pods["victim"])
    assert before.reading and after.reading and before.reading.routes != after.reading.routes
    ends = {(k.sender, k.sender_port) for k in after.links}
    assert (link.sender, link.sender_port) not in ends and after.lost == 0
    with pytest.raises(ConflictError, match="no cable was discovered"):
        house.service.fabrics.show_link(house.operator, f"{link.sender}:{link.sender_port}")


def test_answer_says_what_is_not_known(house: House, pods: dict[str, PodRecord]) -> None:
    """Adaptive routing, several LIDs, an engine that fell back, a silent switch, counters that were read once."""
    routes(house).engine = "ar_updn"
    forget(house)
    found = disturbers(house, pods["victim"])
    assert not found.reading.exact and "routing is adaptive (ar_updn)" in " ".join(found.reading.notes)
    routes(house).engine, routes(house).lmc = "minhop", 1
    forget(house)
    several = links(house, pods["victim"])
    assert not several.exact and several.lost == 0
    routes(house).lmc, routes(house).configured = 0, ("ftree", "minhop")
    forget(house)
    [note] = disturbers(house, pods["victim"]).reading.notes
    assert note.startswith("routing engine ftree is configured, but minhop is in force")
    routes(house).silent.add("leaf02")
    routes(house).seconds = ()
    forget(house)
    cut = links(house, pods["victim"])
    assert cut.lost > 0 and cut.reading is not None
    notes = " ".join(cut.reading.notes)
    assert "the tables of 1 switches weren't read" in notes and "counters were read once" in notes


def test_pod_without_a_segment_uses_no_links(house: House) -> None:
    pod = house.order(make("waits", 2))
    with pytest.raises(ConflictError, match="no segment on a fabric"):
        links(house, pod)


def test_ends_of_a_link_are_the_same_from_both_sides(house: House) -> None:
    """Going back twice is the same link."""
    reading = house.fabric.routes(0).routes
    found = Forwarding(reading.tables, reading.ports, reading.cables)
    ends = [(c.a, c.a_port) for c in reading.cables] + [(p.switch_guid, p.switch_port) for p in reading.ports]
    for end in ends:
        link = found.link_of(*end)
        assert link is not None and found.back(found.back(link)) == link
        assert found.other_end(link) == found.end_of(found.back(link))


class Unfollowed:
    """A fabric without forwarding tables."""


def test_fabric_without_forwarding_tables_is_refused_with_a_code(
    house: House, pods: dict[str, PodRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UFM's and switches' drivers have no such methods; tenants read the same sentence."""
    monkeypatch.setitem(cast(Any, house.world.fabrics), "ib0", Unfollowed())
    verbs: Any = redacted(house.service, policy())
    for ask in (house.service.fabrics.pod_links, verbs.fabrics.pod_links):
        with pytest.raises(ConflictError, match="isn't known which links are used on fabric ib0"):
            ask(house.request(), "victim")
    assert not isinstance(Unfollowed(), FollowsRoutes) and isinstance(house.fabric, FollowsRoutes)


def loads(house: House) -> dict[str, float | None]:
    found = house.service.fabrics.node_loads(house.operator)
    assert found.unread == {}
    return {one.node: one.load for one in found.nodes}


def test_load_of_a_node_is_that_of_its_busiest_adapter(house: House, pods: dict[str, PodRecord]) -> None:
    """As a share of its link's 200 Gb/s, in the busier direction; by the leaf's port if the adapter counts nothing."""
    first, second, *_ = house.site.node_by_name["gpu01"].hcas_on("ib0")
    traffic = routes(house).traffic
    traffic[first.guid, 1] = PortRate(2.5e9, 5e9)
    traffic[second.guid, 1] = PortRate(10e9, 0.0)
    lost = house.site.node_by_name["gpu02"].hcas_on("ib0")[0]
    traffic[lost.guid, 1] = PortRate(40e9, None, at_least=True)
    forget(house)
    found = loads(house)
    assert (
        found.keys() == {n.name for n in house.site.nodes if n.hcas_on("ib0")}
        and found["gpu01"] == 0.4
        and found["gpu03"] == 0
    )
    assert found["gpu02"] == 0, "what the leaf's port counts; the adapter's counter was reset"


def test_load_is_not_known_without_rates(
    house: House, pods: dict[str, PodRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent port is null, a silent fabric is named; tenants read neither."""
    quiet = house.site.node_by_name["gpu01"]
    wire = routes(house)
    mine = {hca.port_guid for hca in quiet.hcas_on("ib0")}
    for port in house.fabric.routes(0).routes.ports:
        if port.port_guid in mine:
            wire.traffic[port.node_guid, port.port] = UNKNOWN_RATE
            wire.traffic[port.switch_guid, port.switch_port] = UNKNOWN_RATE
    forget(house)
    found = loads(house)
    assert found["gpu01"] is None and found["gpu02"] == 0
    with pytest.raises(ForbiddenError):
        house.service.fabrics.node_loads(house.request())

    def silent_agent(max_age: float) -> TimedRoutes:
        raise UnknownError("read routes", "ib0", "no answer")

    monkeypatch.setattr(house.fabric, "routes", silent_agent)
    silent = house.service.fabrics.node_loads(house.operator)
    assert silent.unread.keys() == {"ib0"} and {one.load for one in silent.nodes} == {None}

    def refusing_agent(max_age: float) -> TimedRoutes:
        raise PermanentError("read routes", "ib0", "HTTP 403", "check the certificate")

    monkeypatch.setattr(house.fabric, "routes", refusing_agent)
    refused = house.service.fabrics.node_loads(house.operator)
    assert "HTTP 403" in refused.unread["ib0"] and {one.load for one in refused.nodes} == {None}

"""A discovery that has nodes only as ends of cables: the site's nodes there are neither unknown nor missing."""

from __future__ import annotations

from tests.helpers.paths import SMALL
from weft.app.sitefile import load_site
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.model.site import Link, Site
from weft.planning.fabric.diff import adopt_links, fabric_differences, links_of
from weft.planning.site.check import canonical_links

SITE = load_site(SMALL / "site.yaml")
LEAF = next(s for s in SITE.switches if s.name == "leaf01")
GUIDS = {s.name: s.guid for s in SITE.switches} | {
    f"{n.name}/{h.name}": h.guid for n in SITE.nodes for h in n.hcas
}
MINE = tuple(k for k in links_of(SITE, "ib") if LEAF.name in (k.a, k.b))
STRANGER = 0x00ABCDEF00000001


def end(name: str, port: int) -> End:
    guid = GUIDS[name]
    assert guid is not None
    return End(guid=guid, port=port, name=name if name == LEAF.name else "")


def cut(*more: tuple[End, End], lost: Link | None = None) -> ObservedFabric:
    """A discovery with the leaf's record only, as of output that was cut off after it.

    Args:
        more: further cables.
        lost: a cable that is left out.
    """
    assert LEAF.guid is not None
    own = ObservedNode(guid=LEAF.guid, kind="switch", name=LEAF.name, ports=LEAF.ports)
    links = tuple((end(k.a, k.a_port), end(k.b, k.b_port)) for k in MINE if k != lost)
    return ObservedFabric(partial=("cut off",), nodes=(own,), links=(*links, *more))


def unnamed(site: Site, link: Link) -> Site:
    """The site, with no GUID for the switch at the other end of a cable."""
    spine = link.a if link.b == LEAF.name else link.b
    switches = tuple(s.model_copy(update={"guid": None}) if s.name == spine else s for s in site.switches)
    return site.model_copy(update={"switches": switches})


def uplink() -> Link:
    return next(k for k in MINE if "/" not in k.a and "/" not in k.b)


def test_cables_to_nodes_without_record_match_by_guid() -> None:
    """Without a record, the GUIDs at the cables' ends identify the nodes."""
    assert fabric_differences(SITE, "ib", cut()) == ()
    assert adopt_links(SITE, "ib", cut()) == canonical_links(SITE.links)


def test_cable_to_unidentified_switch_is_not_compared() -> None:
    """It may or may not be the site's switch, so the site's cable stays."""
    site = unnamed(SITE, uplink())
    assert fabric_differences(site, "ib", cut()) == ()
    assert adopt_links(site, "ib", cut()) == canonical_links(site.links)


def test_cable_to_unknown_node_is_not_adopted() -> None:
    """Nor is the site's own cable at that port removed."""
    link = uplink()
    mine = link.a_port if link.a == LEAF.name else link.b_port
    seen = cut((end(LEAF.name, mine), End(guid=STRANGER, port=1, name="")), lost=link)
    assert fabric_differences(SITE, "ib", seen) == ()
    assert adopt_links(SITE, "ib", seen) == canonical_links(SITE.links)

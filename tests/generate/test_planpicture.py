"""The picture of a plan: nodes below their leaves, with what they are, and names with characters of XML."""

from __future__ import annotations

from xml.etree import ElementTree

from weft.generate.planpicture import MOST_NODES, plan_picture
from weft.model.placement import Explanation, PlacedNode, Placement

SVG = "{http://www.w3.org/2000/svg}"


def placed(node: str, leaf: str = "leaf01", block: str = "-") -> PlacedNode:
    return PlacedNode(node=node, rack="r1", leaf=leaf, block=block)


def placement(*nodes: PlacedNode, spares: tuple[PlacedNode, ...] = ()) -> Placement:
    return Placement(nodes=nodes, spares=spares, level="leaf", explanation=Explanation(considered=len(nodes)))


def texts(picture: str) -> list[str]:
    """The texts of the picture in document order; it must be valid XML."""
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_nodes_are_drawn_below_their_leaves_and_blocks() -> None:
    nodes = (
        placed("g1", "l1", "b1"),
        placed("g2", "l1", "b1"),
        placed("g3", "l2", "b1"),
        placed("g4", "l3", "b2"),
    )
    picture = plan_picture(placement(*nodes))
    assert texts(picture) == [
        *("switches above: b1", "l1", "g1", "g2", "l2", "g3"),
        *("switches above: b2", "l3", "g4"),
    ]
    assert "4 nodes below 3 leaf switches" in picture


def test_spares_and_added_nodes_are_labelled() -> None:
    picture = plan_picture(placement(placed("g1"), placed("g2"), spares=(placed("g3"),)), added=["g2"])
    assert texts(picture) == ["leaf01", "g1", "g2 comes", "g3 spare"]


def test_shared_node_is_drawn_once_with_its_servers() -> None:
    assert texts(plan_picture(placement(placed("g1"), placed("g1")))) == ["leaf01", "g1, 2 servers"]


def test_large_plan_is_shortened_and_says_so() -> None:
    picture = plan_picture(placement(*(placed(f"g{number:04}") for number in range(MOST_NODES + 2))))
    assert texts(picture)[-1] == "2 more nodes not drawn"


def test_long_names_and_xml_characters_are_escaped() -> None:
    picture = plan_picture(placement(placed("g1", leaf="<b>&" + "x" * 40)))
    assert texts(picture)[0] == "<b>&" + "x" * 15 + "…"

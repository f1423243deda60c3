"""The picture of capacity over time: heights, gaps, and names with characters of XML."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from weft.generate.capacitypicture import HEAD, HIGH, LEFT, MOST_TYPES, WIDTH, capacity_over_time
from weft.model.views import CapacityPoint, TypeStates

BEGIN = datetime(2027, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def point(hours: float, kind: str = "h100", waiting: int = 0, **states: int) -> CapacityPoint:
    nodes = (TypeStates(type=kind, total=sum(states.values()), states=states),)
    return CapacityPoint(at=BEGIN + timedelta(hours=hours), waiting=waiting, nodes=nodes)


def corners(picture: str, title: str) -> list[list[tuple[float, float]]]:
    """Corners of each area with this title."""
    found = re.findall(rf'<polygon points="([^"]*)" fill="[^"]*"><title>{title}', picture)
    return [[(float(x), float(y)) for x, y in (c.split(",") for c in one.split())] for one in found]


def test_areas_are_as_high_as_their_share() -> None:
    picture = capacity_over_time([point(0, free=3, busy=1), point(12, free=1, busy=3)], BEGIN, BEGIN + DAY)
    [free], [busy] = corners(picture, "h100: free"), corners(picture, "h100: busy")
    bottom, middle = HEAD + HIGH, LEFT + (WIDTH - LEFT - 10) / 2
    assert free[0] == (LEFT, bottom - HIGH * 3 / 4) and (round(middle), bottom - HIGH / 4) in [
        (round(x), y) for x, y in free
    ]
    assert min(y for _, y in busy) == HEAD, "both together are all nodes"


def test_gap_in_the_records_is_not_drawn() -> None:
    points = [point(0, free=1), point(1, free=1), point(2, free=1), point(20, free=1), point(21, free=1)]
    areas = corners(capacity_over_time(points, BEGIN, BEGIN + DAY), "h100: free")
    begins = [min(x for x, _ in one) for one in areas]
    ends = [max(x for x, _ in one) for one in areas]
    hour = (WIDTH - LEFT - 10) / 24
    assert [round((x - LEFT) / hour) for x in begins] == [0, 20]
    assert [round((x - LEFT) / hour) for x in ends] == [3, 22]


def test_period_without_points_says_so() -> None:
    assert "nothing was noted in this period" in capacity_over_time([], BEGIN, BEGIN + DAY)


def test_names_of_types_are_escaped_and_many_types_are_counted() -> None:
    nodes = tuple(TypeStates(type=f"<a&{n:02}>", total=1, states={"free": 1}) for n in range(MOST_TYPES + 2))
    picture = capacity_over_time(
        [CapacityPoint(at=BEGIN, waiting=2, nodes=nodes)], BEGIN, BEGIN + timedelta(hours=1)
    )
    root = ElementTree.fromstring(picture)
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<a&00>" in texts and "2 more types of nodes are not drawn" in texts

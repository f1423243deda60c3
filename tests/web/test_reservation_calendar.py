"""Reservations as a calendar: what is drawn, and for which days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree

import pytest

from tests.helpers.consoles import Browser, Console
from tests.web.test_site_pages import OLGA
from weft.generate.calendarpicture import LABELS, MOST_ROWS, WIDTH, Span, calendar
from weft.model.reservation import Reservation

SVG = "{http://www.w3.org/2000/svg}"
MONDAY = date(2027, 2, 1)
NOON = datetime(2027, 2, 3, 12, tzinfo=UTC)


def span(name: str, start: float, end: float | None, project: str = "p") -> Span:
    """Start and end in days from that Monday."""
    begin = datetime(2027, 2, 1, tzinfo=UTC)
    return Span(
        name, project, 2, begin + timedelta(days=start), None if end is None else begin + timedelta(days=end)
    )


def bars(text: str) -> dict[str, tuple[float, float]]:
    """Name -> left edge and width of its bar, in days."""
    day = (WIDTH - LABELS) / 28
    found: dict[str, tuple[float, float]] = {}
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        title, bar = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and title.text and bar is not None
        left, width = float(bar.attrib["x"]) - LABELS, float(bar.attrib["width"])
        found[title.text.partition(":")[0]] = (round(left / day, 1), round(width / day, 1))
    return found


def test_reservation_has_a_bar_for_its_days() -> None:
    """Sorted by start; cut at the edges, with an arrow; reservations of other days aren't drawn."""
    spans = [
        span("late", 20, None),
        span("week", 7, 14),
        span("old", -9, -1),
        span("before", -3, 2),
        span("next", 28, 30),
    ]
    text = calendar(spans, MONDAY, 28, NOON)
    assert bars(text) == {"before": (0.0, 2.0), "week": (7.0, 7.0), "late": (20.0, 8.0)}
    assert list(bars(text)) == ["before", "week", "late"]
    assert text.count("<polygon") == 2
    assert "3 reservations from 2027-02-01 to 2027-02-28" in text
    assert "now: 2027-02-03 12:00" in text
    assert "now:" not in calendar(spans, MONDAY, 28, NOON - timedelta(days=30))


def test_calendar_is_bounded_and_escaped() -> None:
    """More rows are counted; names can't inject markup; an empty calendar says so."""
    many = [span(f"<r{n}>&", n / 100, 20, f"project{n}") for n in range(MOST_ROWS + 7)]
    text = calendar(many, MONDAY, 364, NOON)
    assert len(bars(calendar(many, MONDAY, 28, NOON))) == MOST_ROWS
    assert "7 more are not drawn" in text and "<r1>" not in text
    ElementTree.fromstring(text)
    assert "nothing is reserved on these days" in calendar([], MONDAY, 7, NOON)


def test_page_shows_the_requested_weeks(pods_console: Console, browser: Browser) -> None:
    """Links to earlier and later days keep the number of weeks; the table has all reservations."""
    given = {"name": "course", "project_id": "a" * 32, "nodes": ["gpu01"], "start": "2187-02-03T00:00Z",
             "end": "2187-02-05T00:00Z"}  # fmt: skip
    pods_console.house.service.capacity.reserve(OLGA, Reservation.model_validate(given))
    browser.sign_in("olga")
    page = browser.get("/ui/site/reservations?day=2187-02-01&weeks=1").text
    assert "day=2187-01-25&amp;weeks=1" in page and "day=2187-02-08&amp;weeks=1" in page
    answer = browser.get("/ui/site/reservations.svg?day=2187-02-01&weeks=1")
    assert answer.headers["content-type"].startswith("image/svg+xml") and "course, 1 node" in answer.text
    assert "style" not in answer.text
    assert "nothing is reserved" in browser.get("/ui/site/reservations.svg?day=2187-03-01&weeks=1").text
    assert "course" in browser.get("/ui/site/reservations?day=2187-03-01").text
    assert browser.get("/ui/site/reservations").status_code == 200


@pytest.mark.parametrize(
    "query", ["day=soon", "day=9999-12-31", "day=0001-01-01", "weeks=0", "weeks=53", "weeks=x"]
)
def test_impossible_days_are_refused(pods_console: Console, browser: Browser, query: str) -> None:
    browser.sign_in("olga")
    for page in ("reservations", "reservations.svg"):
        assert browser.get(f"/ui/site/{page}?{query}").status_code == 400


def test_calendar_is_refused_to_tenants(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("alice")
    assert browser.get("/ui/site/reservations.svg").status_code == 403


def test_calendar_begins_by_the_databases_clock(pods_console: Console, browser: Browser) -> None:
    """The process's host may have a wrong clock."""
    browser.sign_in("olga")
    assert "day=2026-12-28" in browser.get("/ui/site/reservations").text
    assert "now: 2027-01-01" in browser.get("/ui/site/reservations.svg").text

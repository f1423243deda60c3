"""Times that follow from other projects' leases: told no finer than a quarter of an hour."""

from __future__ import annotations

from datetime import UTC, datetime

_ROUND = 15 * 60
"""Seconds."""
_MINUTE = "%Y-%m-%dT%H:%MZ"


def later(moment: datetime) -> datetime:
    """Rounded up."""
    return datetime.fromtimestamp(-(-moment.timestamp() // _ROUND) * _ROUND, UTC)


def earlier(moment: datetime) -> datetime:
    """Rounded down."""
    return datetime.fromtimestamp(moment.timestamp() // _ROUND * _ROUND, UTC)


def moment(text: str) -> datetime:
    return datetime.strptime(text, _MINUTE).replace(tzinfo=UTC)


def minute(moment: datetime) -> str:
    return moment.strftime(_MINUTE)

"""Short ways to say what a driver saw."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.resources import Observed


def there(seen: Mapping[str, Observed]) -> dict[str, Observed]:
    """Of an answer of `ResourceDriver.find` what isn't absent."""
    return {key: observed for key, observed in seen.items() if observed.there}

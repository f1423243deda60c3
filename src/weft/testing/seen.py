"""Short forms of what a driver observed."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.resources import Observed


def there(seen: Mapping[str, Observed]) -> dict[str, Observed]:
    """The part of a `ResourceDriver.find` result that isn't absent."""
    return {key: observed for key, observed in seen.items() if observed.there}

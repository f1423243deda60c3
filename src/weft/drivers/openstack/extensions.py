"""Neutron's extensions, by alias: some are optional, and without one its requests are answered with 404."""

from __future__ import annotations

import time

from weft.drivers.openstack.service import CloudService
from weft.model.errors import UnknownError

FRESH = 300.0
"""Seconds for which a listing counts: Neutron's extensions only change when it is restarted, and each visit of a pod
asks for them."""


class Extensions:
    """Extensions of one cloud's Neutron, the same for all projects. Thread-safe."""

    def __init__(self) -> None:
        self._read: tuple[float, frozenset[str]] | None = None

    def of(self, network: CloudService) -> frozenset[str]:
        """Aliases of the extensions, by a listing that is at most `FRESH` seconds old. Raises `UnknownError`."""
        read, now = self._read, time.monotonic()
        if read is None or now - read[0] > FRESH:
            read = self._read = now, _listed(network)
        return read[1]


def _listed(network: CloudService) -> frozenset[str]:
    asked = "list Neutron's extensions"
    rows = network.listing(asked, "/extensions", "extensions")
    known = frozenset(alias for row in rows if isinstance(alias := row.get("alias"), str))
    if not known:
        raise UnknownError(asked, "network", "it lists none, and every Neutron has some")
    return known

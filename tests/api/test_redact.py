"""What a tenant may not see is taken out of texts, refusals and errors."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from weft.app import redact
from weft.model.errors import ConflictError, PermanentError, RefusedError, TemporaryError
from weft.model.order import LEVELS
from weft.model.placement import Occupancy, PlacementRequest
from weft.planning.place.would_fit import smallest_changes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("port 0x0002c90300300001 is away", "port (hidden) is away"),
        ("port 0002:c903:0030:0001 is away", "port (hidden) is away"),
        ("agent at https://10.0.0.1:9443/v1, no answer", "agent at (hidden), no answer"),
        ("P_Key 0x65 and VLAN 101 of gpu01", "P_Key 0x65 and VLAN 101 of gpu01"),
        ("server 1f0c9a3b-0000-4000-8000-000000000000", "server 1f0c9a3b-0000-4000-8000-000000000000"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    """GUIDs and addresses of services go; P_Keys, names and ids of the tenant's own things stay."""
    assert redact.text(text) == shown


def test_errors_keep_their_class() -> None:
    """And what to do next."""
    error = redact.error(TemporaryError("create port", "neutron at http://n:9696", "HTTP 503", delay=9))
    assert isinstance(error, TemporaryError)
    assert (error.delay, error.of, error.asked) == (9, "neutron at (hidden)", "create port")
    error = redact.error(PermanentError("boot", "nova", "no host 0x0002c90300300001", "ask"))
    assert (type(error), str(error)) == (PermanentError, "boot (nova): no host (hidden); ask")
    conflict = ConflictError("taken")
    assert redact.error(conflict) is conflict


def test_refusals_keep_counts_and_lose_other_nodes() -> None:
    """How many were refused stays, which ones by whose pod goes."""
    detail: dict[str, object] = {
        "explanation": {"filters": [{"filter": "busy", "removed": 3, "examples": ["gpu04: pod secret"]}]},
        "would_fit": ["1 node"],
    }
    error = redact.error(RefusedError("no room", detail))
    assert isinstance(error, RefusedError)
    assert error.detail == {
        "explanation": {"filters": [{"filter": "busy", "removed": 3}]},
        "would_fit": ["1 node"],
    }


def test_what_would_fit_names_no_others() -> None:
    """The planner's own sentences about other pods and quarantined nodes lose their names for a tenant."""
    request = PlacementRequest(pod="p", project="x", count=2, cloud="c", fabric="ib", hcas_per_node=1)
    occupancy = Occupancy(busy={"gpu01": "secret"}, quarantined={"gpu02": "secret fan"})

    def fits(changed: PlacementRequest, then: Occupancy, gone: Collection[str] = ()) -> bool:
        return changed.count == 1 or then != occupancy or bool(gone)

    changes = smallest_changes(request, occupancy, fits, LEVELS)
    assert "secret" in str(changes)
    error = redact.error(RefusedError("no room", {"would_fit": list(changes)}))
    assert isinstance(error, RefusedError)
    shown = ["count: 1 instead of 2", "later, when other nodes have become free"]
    assert error.detail == {"would_fit": shown}

"""The fabric that a bandwidth test of nodes runs on."""

from __future__ import annotations

import pytest

from tests.helpers.smallsite import small_site, two_fabrics
from weft.planning.bandwidth.planned import common_fabric


@pytest.mark.parametrize(("rate", "fabric"), [(25, "ib"), (200, "ib"), (400, "ib2")])
def test_fastest_common_fabric_is_tested(rate: int, fabric: str) -> None:
    """A slower storage fabric isn't, even if its name comes first; of equally fast fabrics the first by name."""
    assert common_fabric(two_fabrics(rate), ["gpu01", "gpu02"]) == fabric


def test_nodes_without_a_common_fabric_or_unknown_nodes_have_none() -> None:
    assert common_fabric(small_site(), []) is None
    assert common_fabric(small_site(), ["nix"]) is None

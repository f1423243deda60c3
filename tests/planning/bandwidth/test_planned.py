"""What a bandwidth test of nodes is made of, by the site."""

from __future__ import annotations

import pytest

from tests.helpers.smallsite import small_site, two_fabrics
from weft.planning.bandwidth.planned import common_fabric


@pytest.mark.parametrize(("rate", "fabric"), [(25, "ib"), (200, "ib"), (400, "ib2")])
def test_fastest_of_several_fabrics_is_tested(rate: int, fabric: str) -> None:
    """Not storage's, which may come first by name; of equal ones the first by name."""
    assert common_fabric(two_fabrics(rate), ["gpu01", "gpu02"]) == fabric


def test_nodes_without_a_common_fabric_have_none() -> None:
    """Also nodes that the site doesn't have."""
    assert common_fabric(small_site(), []) is None
    assert common_fabric(small_site(), ["nix"]) is None

"""The orders of `examples/pods` fit the lab's site; `tests/e2e/test_examples_live.py` orders them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.labexamples import REFUSED, on_lab, orders, with_examples
from weft.app.drivers import static_capabilities
from weft.app.orderfile import load_order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weftlab.layout import Layout
from weftlab.site import make_site, settings


@pytest.mark.parametrize("path", orders(), ids=lambda p: p.stem)
def test_example_order_fits_the_labs_site(path: Path) -> None:
    chosen = settings(nodes=16, storage=True)
    site = with_examples(make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports)))
    order = load_order(on_lab(path), str(path))
    found = make_plan(
        NOT_ORDERED, "team-a", order, site, Occupancy(), UsedNumbers(), static_capabilities(site)
    )
    if path.stem in REFUSED:
        assert isinstance(found, Refusal) and REFUSED[path.stem] in found.reason
    else:
        assert isinstance(found, Plan), found

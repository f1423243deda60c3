"""What changes from one site to another, by field and name."""

from __future__ import annotations

from tests.helpers.smallsite import small_site
from weft.planning.site.differences import TableChange, site_differences


def test_equal_sites_have_no_differences() -> None:
    assert site_differences(small_site(), small_site()) == ()


def test_first_site_adds_everything() -> None:
    site = small_site()
    found = {change.field: change for change in site_differences(None, site)}
    assert found["name"].added == (site.name,)
    assert found["nodes"].added == tuple(node.name for node in site.nodes)
    assert found["fabrics"].added == tuple(site.fabrics) and not found["fabrics"].changed


def test_rows_are_added_removed_and_changed_by_name() -> None:
    """Cables by their ends; for a changed row or policy the fields are named."""
    before = small_site()
    first, second, *rest = before.nodes
    link = before.links[0]
    after = before.model_copy(
        update={
            "name": "other",
            "nodes": (first.model_copy(update={"maintenance": True, "labels": ("x",)}), *rest),
            "links": before.links[1:],
            "queue": before.queue.model_copy(update={"waiting": before.queue.waiting + 1}),
        }
    )
    ends = f"{link.a} {link.a_port} – {link.b} {link.b_port}"
    assert {change.field: change for change in site_differences(before, after)} == {
        "name": TableChange("name", changed=(f"{before.name} → other",)),
        "nodes": TableChange(
            "nodes", removed=(second.name,), changed=(f"{first.name} (maintenance, labels)",)
        ),
        "links": TableChange("links", removed=(ends,)),
        "queue": TableChange("queue", changed=("waiting",)),
    }

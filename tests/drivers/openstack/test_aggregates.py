"""Host aggregates that keep servers of other flavors off pods' hosts: read from Nova and compared with the site."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from tests.helpers.smallsite import small_site
from weft.app.livecheck import check_aggregates, unread_notes
from weft.model.livecheck import LiveCheck
from weft.model.site import Site
from weft.planning.site.aggregates import FILTER_UNREAD

NOTE = (f"cloud main: {FILTER_UNREAD}",)


BOTH = "h100.4, h100.8"


def hosts() -> list[str]:
    return [n.nova_host for n in small_site().nodes if n.role == "compute"]


def aggregate(*hosts: str, **metadata: str) -> dict[str, Any]:
    return {"id": 1, "name": "weft-pods", "hosts": list(hosts), "metadata": metadata}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The findings if Nova shows these aggregates, or answers falsely."""
    with tiny_cloud() as (tiny, text):
        (tmp_path / "clouds.yaml").write_text(text)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))

        def check(site: Site, *rows: dict[str, Any], lies: tuple[tuple[str, Reply], ...] = ()) -> LiveCheck:
            tiny.things["aggregates"], tiny.lies = list(rows), list(lies)
            return check_aggregates(site, "weft")

        yield check


def test_hosts_in_an_aggregate_with_the_sites_flavors_are_accepted(checked: Any) -> None:
    """In one aggregate or several, with other hosts too. A note says that the scheduler must enforce it."""
    half = len(hosts()) // 2
    found = checked(
        small_site(),
        aggregate("another", *hosts()[:half], instance_type=BOTH),
        aggregate(*hosts()[half:], instance_type="h100.4"),
        aggregate(*hosts()[half:], instance_type="h100.8"),
        aggregate(*hosts(), availability_zone="gpu"),
    )
    assert found.problems == () and found.notes == NOTE


def test_hosts_that_take_any_flavor_are_named(checked: Any) -> None:
    """Hosts in no aggregate, or only in aggregates without the key."""
    free, *kept = hosts()
    found = checked(
        small_site(), aggregate(*kept, instance_type=BOTH), aggregate(free, availability_zone="gpu")
    )
    said = f"servers of any flavor can be scheduled on pods' hosts: {free} is in no host aggregate with instance_type"
    assert found.problems == (f"cloud main: {said}",)
    [nothing] = checked(small_site()).problems
    assert f"{', '.join(hosts()[:3])} and {len(hosts()) - 3} more are in no host aggregate" in nothing


def test_aggregate_flavors_are_compared_with_the_site(checked: Any) -> None:
    """A flavor of the site that no host accepts, and one that hosts accept and the site doesn't have."""
    found = checked(small_site(), aggregate(*hosts(), instance_type="h100.8,m1.tiny"))
    [problem] = found.problems
    assert "no server of flavor h100.4 can be scheduled on " in problem
    assert (
        "cloud main: instance_type of pods' hosts also names m1.tiny, which the site doesn't describe"
        in found.notes
    )


@pytest.mark.parametrize(
    "reply",
    [Reply(403, {"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:os-aggregates:index"}}),
     Reply(200, {"aggregates": [{"name": "a"}]}), Reply(200, {}), Reply(500, {})],
)  # fmt: skip
def test_aggregates_that_cannot_be_read_are_a_problem(checked: Any, reply: Reply) -> None:
    found = checked(small_site(), lies=(("GET /compute/os-aggregates", reply),))
    [problem] = found.problems
    assert problem.startswith("cloud main: it can't be checked: ")


def test_site_with_other_host_protection_is_not_checked(checked: Any) -> None:
    clouds = {
        n: c.model_copy(update={"hosts_kept_free": "otherwise"}) for n, c in small_site().clouds.items()
    }
    assert checked(small_site().model_copy(update={"clouds": clouds})) == LiveCheck()


def test_live_check_without_a_profile_names_what_it_skips() -> None:
    """Host aggregates only if weft makes them for the site."""
    site = small_site()
    assert unread_notes(site) == (
        "host aggregates of cloud main and the roles of weft's user aren't read without --cloud-profile",
    )
    clouds = {n: c.model_copy(update={"hosts_kept_free": "otherwise"}) for n, c in site.clouds.items()}
    [note] = unread_notes(site.model_copy(update={"clouds": clouds}))
    assert note == "the roles of weft's user aren't read without --cloud-profile"

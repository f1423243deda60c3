"""Host aggregates that keep pods' hosts free: what the driver and the fake cloud both do. On a real Nova:
`tests/e2e/test_nova_things.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.drivers.openstack.aggregatestand import (
    KEY,
    NAME,
    SITE,
    FakeStand,
    NovaAggregates,
    NovaStand,
    Stand,
    aggregate,
)
from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.drivers.openstack.existing import OpenStackExisting
from weft.model.errors import PermanentError, TemporaryError
from weft.model.resources import Status
from weft.ports.resources import PartlyListedError

LEAVING = replace(SITE, leaving=True)
BOTH = "gpu1,gpu8"
TWO = aggregate("gpu01", "gpu02")


@pytest.fixture
def nova(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NovaStand]:
    with tiny_cloud(NovaAggregates) as (tiny, text):
        assert isinstance(tiny, NovaAggregates)
        file = tmp_path_factory.mktemp("nova") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield NovaStand(tiny, driver, OpenStackExisting(sessions))
        driver.close()
        sessions.close()


@pytest.fixture(params=["fake", "nova"])
def stand(request: pytest.FixtureRequest) -> Stand:
    return FakeStand() if request.param == "fake" else request.getfixturevalue("nova")


def test_aggregate_is_created_extended_reduced_and_deleted(stand: Stand) -> None:
    assert not stand.driver.find(SITE, [TWO], {})[KEY].there
    assert stand.done("create", TWO).error is None
    assert stand.shown() == {NAME: (BOTH, ("gpu01", "gpu02"))} and stand.differences(TWO) == {}
    other = aggregate("gpu02", "gpu03", flavors=("gpu8",))
    assert set(stand.differences(other)) == {"flavors", "hosts"}
    assert stand.done("update", other).error is None
    assert stand.shown() == {NAME: ("gpu8", ("gpu02", "gpu03"))} and stand.differences(other) == {}
    assert stand.done("delete", other, LEAVING).error is None
    assert stand.shown() == {}
    assert stand.driver.find(LEAVING, [other], stand.ids)[KEY].status is Status.ABSENT


def test_host_unknown_to_nova_delays_no_other(stand: Stand) -> None:
    """It is a reason to wait; the next look finds the aggregate by its mark."""
    wanted = aggregate("gpu01", "gpu09")
    error = stand.done("create", wanted).error
    assert isinstance(error, TemporaryError) and "gpu09" in str(error)
    assert "Nova doesn't know a compute host of that name yet" in str(error)
    assert stand.shown() == {NAME: (BOTH, ("gpu01",))}
    assert stand.differences(wanted) == {"hosts": ("gpu01", "gpu01, gpu09")}
    found = stand.driver.find(SITE, [wanted], {})[KEY]
    stand.ids[KEY] = str(found.id)
    assert isinstance(stand.done("update", wanted).error, TemporaryError)


def test_others_hosts_are_left_and_keep_the_aggregate(stand: Stand) -> None:
    """They are reported next to the differences; at the end nothing of weft's is left on the aggregate."""
    stand.done("create", TWO)
    stand.put(NAME, "gpu03")
    found = stand.driver.find(SITE, [TWO], stand.ids)[KEY]
    assert found.differences == () and found.facts["others_hosts"] == ["gpu03"]
    assert stand.done("update", TWO).error is None
    assert stand.done("delete", TWO, LEAVING).error is None
    assert stand.shown() == {NAME: (None, ("gpu03",))}
    assert stand.driver.find(LEAVING, [TWO], stand.ids)[KEY].status is Status.KEPT


@pytest.mark.parametrize("flavors", [None, "gpu8,m1.tiny"])
def test_adopted_aggregate_gets_its_flavors_back_and_keeps_its_hosts(
    stand: Stand, flavors: str | None
) -> None:
    """An aggregate with the site's name, with other flavors or none; it keeps the hosts that it had before weft."""
    stand.make(NAME, flavors, "gpu01", "gpu03")
    [found] = stand.existing.alike([TWO], {})[KEY]
    assert found.same and found.own and found.mark is None
    stand.ids[KEY] = found.id
    assert set(stand.differences(TWO)) == {"flavors", "hosts"}
    assert stand.done("update", TWO).error is None
    assert stand.shown() == {NAME: (BOTH, ("gpu01", "gpu02", "gpu03"))} and stand.differences(TWO) == {}
    assert stand.done("update", aggregate("gpu01", "gpu02", flavors=("gpu8",))).error is None
    assert stand.done("delete", TWO, LEAVING).error is None
    assert stand.shown() == {NAME: (flavors, ("gpu01", "gpu03"))}
    assert stand.driver.find(LEAVING, [TWO], stand.ids)[KEY].status is Status.KEPT


def test_aggregate_restricting_the_same_hosts_is_reported_as_alike(stand: Stand) -> None:
    """Not one of an availability zone, or for other hosts."""
    stand.make("weft-pods", "gpu8", "gpu02")
    stand.make("zone", None, "gpu01", "gpu02")
    stand.make("others", "m1.tiny", "gpu03")
    [found] = stand.existing.alike([TWO], {})[KEY]
    assert found.same and found.like == "instance_type for gpu02"
    assert stand.existing.alike([TWO], {"aggregate/lab/old": found.id}) == {}


def test_audit_finds_and_removes_a_marked_aggregate(stand: Stand) -> None:
    """Its owner isn't in the database any more; what weft added is noted on it."""
    stand.done("create", TWO)
    stand.put(NAME, "gpu03")
    [thing] = [t for t in stand.driver.marked("lab", []) if t.owner == SITE.owner]
    [outcome] = stand.driver.remove_marked([thing]).values()
    assert outcome.error is None and stand.shown() == {NAME: (None, ("gpu03",))}


# -- Nova alone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(6))
def test_partly_created_aggregate_is_finished(nova: NovaStand, number: int) -> None:
    """weft ended before one of its requests: the name is the mark until the metadata has it."""
    nova.nova.refuse_at = number
    assert isinstance(nova.done("create", TWO).error, TemporaryError)
    nova.nova.refuse_at = None
    found = nova.driver.find(SITE, [TWO], {})[KEY]
    if found.there:
        assert found.differences
        assert nova.done("update", TWO).error is None
    else:
        assert number == 0 and nova.done("create", TWO).error is None
    assert nova.shown() == {NAME: (BOTH, ("gpu01", "gpu02"))} and nova.differences(TWO) == {}
    changes = len(nova.nova.changes)
    assert nova.done("update", TWO).error is None and len(nova.nova.changes) == changes
    assert nova.done("delete", TWO, LEAVING).error is None and nova.shown() == {}


@pytest.mark.parametrize("number", range(6))
def test_partly_adopted_or_restored_aggregate_is_fully_restored(nova: NovaStand, number: int) -> None:
    """Whichever request fails first, when adopting or restoring."""
    nova.make(NAME, "gpu8", "gpu01")
    nova.row(NAME)["metadata"]["availability_zone"] = "pods"
    before = {**nova.row(NAME), "metadata": dict(nova.row(NAME)["metadata"]), "hosts": ["gpu01"]}
    nova.ids[KEY] = nova.existing.alike([TWO], {})[KEY][0].id
    for verb, scope in (("update", SITE), ("delete", LEAVING)):
        nova.nova.changes, nova.nova.refuse_at = [], number
        first = nova.done(verb, TWO, scope).error
        assert first is None or isinstance(first, TemporaryError)
        if first is not None:
            seen = nova.driver.find(LEAVING, [TWO], nova.ids)[KEY].status
            assert seen is not Status.KEPT or number == 0, "not before everything is back"
        nova.nova.refuse_at = None
        assert first is None or nova.done(verb, TWO, scope).error is None
    assert nova.row(NAME) == before


def test_availability_zone_of_a_host_is_named(nova: NovaStand) -> None:
    nova.make(NAME, None)
    nova.row(NAME)["metadata"]["availability_zone"] = "pods"
    nova.nova.zones = {"gpu01": "others"}
    nova.ids[KEY] = nova.existing.alike([TWO], {})[KEY][0].id
    error = nova.done("update", TWO).error
    assert isinstance(error, TemporaryError) and "already in availability zone(s) ['others']" in str(error)
    assert nova.shown()[NAME] == (BOTH, ("gpu02",))


def test_reused_aggregate_number_is_another_aggregate(nova: NovaStand) -> None:
    """By its UUID: a database without aggregates reuses numbers."""
    nova.done("create", TWO)
    nova.nova.things["aggregates"] = []
    nova.make("theirs", None, "gpu01")
    nova.nova.things["aggregates"][0]["id"] = 1
    found = nova.driver.find(SITE, [TWO], nova.ids)[KEY]
    assert not found.there and "no aggregate with its number and UUID" in found.reason
    assert nova.done("delete", TWO, LEAVING).error is None and nova.shown() == {"theirs": (None, ("gpu01",))}


def test_aggregate_whose_note_was_removed_is_not_restored_from_a_guess(nova: NovaStand) -> None:
    nova.make(NAME, "gpu8", "gpu01")
    nova.ids[KEY] = nova.existing.alike([TWO], {})[KEY][0].id
    assert nova.done("update", TWO).error is None
    del nova.row(NAME)["metadata"]["weft_before"]
    assert isinstance(nova.done("update", aggregate("gpu01")).error, PermanentError)
    assert isinstance(nova.done("delete", TWO, LEAVING).error, PermanentError)
    assert nova.driver.find(LEAVING, [TWO], nova.ids)[KEY].status is not Status.KEPT


def test_aggregate_for_two_machine_types_is_not_adopted(nova: NovaStand) -> None:
    more = aggregate("gpu03", key="aggregate/lab/h100x4").model_copy(update={"name": "lab-h100x4"})
    nova.make("weft-pods", "gpu8", "gpu01", "gpu03")
    found = nova.existing.alike([TWO, more], {})
    assert [(f.same, "hosts_kept_free: otherwise" in f.then) for fs in found.values() for f in fs] == [
        (False, True),
        (False, True),
    ]


def test_long_list_of_hosts_is_recorded_in_parts(nova: NovaStand) -> None:
    """Nova allows 255 characters, and so does the stand."""
    hosts = [f"gpu{n:03}.rack.example" for n in range(40)]
    nova.done("create", TWO)
    nova.row(NAME)["hosts"] += hosts
    assert isinstance(
        nova.done("update", aggregate("gpu01", "gpu02", *(f"x{h}" for h in hosts))).error, TemporaryError
    )
    parts = {k: v for k, v in nova.row(NAME)["metadata"].items() if k.startswith("weft_hosts")}
    assert len(parts) > 1 and sum(len(p.split(",")) for p in parts.values()) == 42


def test_hidden_aggregates_do_not_end_the_audit(nova: NovaStand) -> None:
    """A site from before the policy: the rest is listed, and what isn't is reported."""
    denied = {
        "forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:os-aggregates:index"}
    }
    nova.nova.lies = [("GET /compute/os-aggregates", Reply(403, denied))]
    with pytest.raises(PartlyListedError) as raised:
        nova.driver.marked("lab", [])
    assert list(raised.value.unread) == ["host aggregates"]

"""What UFM's driver sends, and which partitions it doesn't change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import KEY, UfmRig, at_index0, basic, create, made, seen, segment, spec
from weft.model.errors import PermanentError
from weft.model.fabric import Membership
from weft.model.fabrictypes import Mode
from weft.model.problem import ProblemKind
from weft.model.resources import Status
from weftlab.ufm import Dialect
from weftlab.ufm.state import State


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


def test_membership_change_sends_one_put_of_the_whole_list(rig: UfmRig) -> None:
    """Nothing is removed and added again, and nothing is sent if all is as wanted."""
    made(rig)
    more = segment(KEY, rig.ports()[1:4])
    rig.driver.update(scope(), [more], {})
    assert rig.methods() == ["PUT /ufmRestV3/resources/pkeys/"]
    assert set(rig.members(KEY)) == set(rig.ports()[1:4])
    rig.sent.clear()
    rig.driver.update(scope(), [more], {})
    assert rig.methods() == []


def test_externally_set_ip_over_ib_is_kept(rig: UfmRig) -> None:
    made(rig)
    rig.ufm.set_pkeys(lambda state: setattr(state.pkeys[KEY], "ip_over_ib", False))
    rig.driver.update(scope(), [segment(KEY, rig.ports()[:3])], {})
    assert not rig.ufm.pkeys[KEY].ip_over_ib


def test_externally_created_partition_is_adopted_unchanged(rig: UfmRig) -> None:
    """Made by UFM's own service for Neutron: nothing is written while the members are the same, and in the first
    change the P_Key keeps its index in the tables of members that stay.
    """
    ports = rig.ports()
    rig.foreign(KEY, dict.fromkeys(ports[:2], "full"))

    def first(state: State) -> None:
        for member in state.pkeys[KEY].guids.values():
            member.index0 = True

    rig.ufm.set_pkeys(first)
    rig.sent.clear()
    wanted = segment(KEY, ports[:2])
    assert create(rig, wanted).error is None and rig.methods() == []
    assert seen(rig, wanted).status is Status.SETTLED
    more = segment(KEY, ports[:3])
    assert rig.driver.update(scope(), [more], {})[more.key].error is None
    assert [m.index0 for m in rig.ufm.pkeys[KEY].guids.values()] == [True] * 3


def test_index_of_some_members_is_kept(rig: UfmRig) -> None:
    """One PUT sets index0 for all its members, so with members that differ it would move some P_Keys."""
    ports = rig.ports()
    rig.foreign(KEY, dict.fromkeys(ports[:2], "full"))
    rig.ufm.set_pkeys(lambda state: at_index0(state, KEY, ports[:1]))
    rig.sent.clear()
    assert create(rig, segment(KEY, ports[:2])).error is None and rig.methods() == []
    error = rig.driver.update(scope(), [segment(KEY, ports[:3])], {})["partition"].error
    assert isinstance(error, PermanentError) and "index0" in str(error) and ports[1] in str(error)
    assert rig.methods() == [] and set(rig.members(KEY)) == set(ports[:2])
    assert rig.driver.update(scope(), [segment(KEY, ports[:1])], {})["partition"].error is None
    assert [m.index0 for m in rig.ufm.pkeys[KEY].guids.values()] == [True]


def test_extra_foreign_member_is_named_and_nothing_changes(rig: UfmRig) -> None:
    ports = rig.ports()
    rig.foreign(KEY, dict.fromkeys(ports[:3], "full"))
    error = create(rig, segment(KEY, ports[:2])).error
    assert error is not None and ports[2] in str(error) and len(rig.members(KEY)) == 3


def test_members_with_different_memberships_are_sent_by_put(rig: UfmRig) -> None:
    """POST would make all of them full members without an error."""
    ports = rig.ports()
    members = (Membership(port=ports[0]), Membership(port=ports[1], mode=Mode.LIMITED))
    whole = segment(KEY, ports[:2])
    mixed = whole.model_copy(update={"spec": spec(whole).model_copy(update={"members": members})})
    assert create(rig, mixed).error is None
    assert rig.members(KEY) == {ports[0]: "full", ports[1]: "limited"}
    assert rig.keys(ports[1]) == {0x7FFF, KEY}
    assert seen(rig, mixed).status is Status.SETTLED and seen(rig, whole).differences


def test_removing_the_last_member_deletes_the_partition(rig: UfmRig) -> None:
    """No empty list is sent; the pod's empty segment is settled, and absent once it is released."""
    made(rig)
    empty = segment(KEY, [])
    rig.driver.update(scope(), [empty], {})
    assert rig.methods() == ["DELETE /ufmRestV3/resources/pkeys/0x101"]
    assert seen(rig, empty).status is Status.SETTLED
    rig.driver.delete(scope(), [empty], {})
    assert seen(rig, empty).status is Status.ABSENT


def test_fake_ufm_answers_an_empty_list_with_each_documented_status(tmp_path: Path) -> None:
    """The driver never sends one."""
    for status in (200, 400, 403, 404):
        rig = UfmRig(tmp_path, dialect=Dialect(put_empty=status))  # type: ignore[arg-type]
        made(rig)
        body = {"pkey": "0x101", "guids": [], "ip_over_ib": True, "index0": False}
        answer = rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
            rig.active, "PUT", "/ufmRest/resources/pkeys/", body, {}, basic()
        )
        assert answer[0] == status and (KEY in rig.ufm.pkeys) is (status != 200)


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("POST", {"memberships": ["limited", "limited"]}, 200),
        ("POST", {"membership": ["limited", "limited"]}, 400),
        ("PUT", {"memberships": ["limited", "limited"]}, 200),
        ("PUT", {"colour": "red"}, 400),
    ],
)
def test_fake_ufm_accepts_members_like_a_real_one(
    rig: UfmRig, method: str, body: dict[str, object], status: int
) -> None:
    """POST ignores `memberships`; a list under `membership` and unknown fields are refused."""
    guids = [p.removeprefix("0x") for p in rig.ports()[:2]]
    body = {"pkey": "0x101", "guids": guids, **body}
    answer = rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
        rig.active, method, "/ufmRest/resources/pkeys", body, {}, basic()
    )
    assert answer[0] == status
    wanted = "full" if method == "POST" else "limited"
    assert set(rig.members(KEY).values()) == ({wanted} if status == 200 else set())


# -- old versions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "why"),
    [("6.11.1", "older than 6.12"), ("6.15.2-4", "RN 4040154"), ("6.15.6-3", "RN 4040154")],
)
def test_unsupported_versions_are_not_written_to(tmp_path: Path, version: str, why: str) -> None:
    """A change might open the whole fabric, or how it works isn't documented; reading works."""
    rig = UfmRig(tmp_path, dialect=Dialect(version=version))
    wanted = segment(KEY, rig.ports()[:2])
    error = create(rig, wanted).error
    assert isinstance(error, PermanentError) and why in str(error)
    assert rig.methods() == [] and seen(rig, wanted).status is Status.ABSENT
    assert any(why in p for m in rig.driver.status().managers for p in m.problems)


@pytest.mark.parametrize("version", ["6.15.6-4", "6.12.0", "6.24.2"])
def test_supported_versions_are_written_to(tmp_path: Path, version: str) -> None:
    made(UfmRig(tmp_path, dialect=Dialect(version=version)))


# -- external changes ---------------------------------------------------------------------------------------------


def test_foreign_partitions_are_never_touched(rig: UfmRig) -> None:
    """Outside weft's range they are neither marked nor removed nor in the way."""
    rig.foreign(0x2001, {rig.ports()[7]: "full"})
    made(rig)
    [mine] = rig.driver.marked("lab", [])
    assert mine.id == "0x101" and rig.driver.configured().numbers == {KEY, 0x2001}
    theirs = type(mine)(mine.kind, mine.where, "0x2001", "", None, None, {"number": 0x2001})
    error = rig.driver.remove_marked([theirs])["0x2001"].error
    assert isinstance(error, PermanentError) and "range" in str(error)
    assert 0x2001 in rig.ufm.pkeys


def test_foreign_partition_with_the_same_number_is_not_overwritten(rig: UfmRig) -> None:
    """In weft's range and not recorded, with members of others."""
    rig.foreign(KEY, {rig.ports()[7]: "full"})
    error = create(rig, segment(KEY, rig.ports()[:2])).error
    assert isinstance(error, PermanentError) and "someone else" in str(error)
    assert set(rig.members(KEY)) == {rig.ports()[7]} and rig.methods() == []


def test_member_revived_by_a_stale_writer_is_detected_and_removed(rig: UfmRig) -> None:
    """UFM has no precondition against a PUT based on an older reading. An update restores the set."""
    wanted = made(rig, 3)
    old = rig.members(KEY)
    fewer = segment(KEY, rig.ports()[:2])
    rig.driver.update(scope(), [fewer], {})
    rig.foreign(KEY, old)
    found = {p.kind for p in rig.driver.check(spec(fewer), rig.driver.snapshot()).problems}
    assert ProblemKind.SEGMENT_LEFT in found and seen(rig, fewer).status is Status.PENDING
    rig.driver.update(scope(), [fewer], {})
    assert seen(rig, fewer).status is Status.SETTLED and seen(rig, wanted).differences


def test_stale_write_after_the_release_is_a_stray(rig: UfmRig) -> None:
    """The audit lists it without an owner and can remove it."""
    wanted = made(rig)
    old = rig.members(KEY)
    rig.driver.delete(scope(), [wanted], {})
    rig.foreign(KEY, old)
    [stray] = rig.driver.marked("lab", [])
    assert stray.owner is None and stray.facts["number"] == KEY
    assert rig.driver.remove_marked([stray])["0x101"].error is None
    assert seen(rig, wanted).status is Status.ABSENT

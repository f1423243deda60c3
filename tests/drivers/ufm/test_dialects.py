"""Behaviours of UFM that aren't documented and may vary: the driver works with each."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import KEY, UfmRig, at_index0, basic, create, made, seen, segment
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.resources import Status
from weftlab.ufm import Dialect
from weftlab.ufm.pkeys import USER_EXT


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


@pytest.mark.parametrize(
    "dialect",
    [
        Dialect(unknown_pkey="404"),
        Dialect(created=201),
        Dialect(changes="job"),
        Dialect(long_keys=True),
        Dialect(version="6.12.0"),
        Dialect(version="6.16.1", duplicate=409),
        Dialect(version="6.21.0-8"),
        Dialect(version="6.24.2-1", unknown_guid="404"),
        Dialect(bad_value=500),
        Dialect(user_ext="listed"),
        Dialect(most_guids=3, too_many="cut"),
        Dialect(most_pkeys=1),
        Dialect(index0_twice="409", ip_over_ib="409"),
        Dialect(index0_twice="moves", ip_over_ib="stays"),
    ],
    ids=str,
)
def test_segment_lifecycle_works_in_every_dialect(tmp_path: Path, dialect: Dialect) -> None:
    """Created, changed, emptied, refilled and deleted, with the same outcome."""
    rig = UfmRig(tmp_path, dialect=dialect)
    ports = rig.ports()
    for members in (ports[:2], ports[1:4], [], ports[:1]):
        wanted = segment(KEY, members)
        assert rig.driver.update(scope(), [wanted], {})["partition"].error is None
        assert seen(rig, wanted).status is Status.SETTLED
        assert {p for p in ports if KEY | 0x8000 in rig.keys(p)} == set(members)
    rig.driver.delete(scope(), [segment(KEY, ports[:2])], {})
    found = seen(rig, segment(KEY, ports[:2]))
    assert found.status is Status.ABSENT and "UFM lists" in found.reason


def test_partition_of_unknown_origin_is_foreign(tmp_path: Path) -> None:
    """From an operator's lines in partitions.conf.user_ext: it isn't marked as weft's."""
    rig = UfmRig(tmp_path, dialect=Dialect(user_ext="listed"))
    made(rig)
    assert rig.driver.configured().numbers == {KEY, USER_EXT}
    assert [m.id for m in rig.driver.marked("lab", [])] == ["0x101"]


@pytest.mark.parametrize(("status", "error"), [(400, PermanentError), (500, UnknownError)])
@pytest.mark.parametrize(
    ("pkey", "guid"), [("0x7fff", "1"), ("0x8001", "1"), ("x", "1"), ("0x101", "0"), ("0x101", "no guid")]
)
def test_invalid_value_is_refused_or_unknown(
    tmp_path: Path, pkey: str, guid: str, status: int, error: type[Exception]
) -> None:
    """weft sends none of these. 400 is a refusal, 500 is unknown; nothing was made."""
    rig = UfmRig(tmp_path, dialect=Dialect(bad_value=status))  # type: ignore[arg-type]
    with pytest.raises(error, match="Invalid"):
        rig.driver.rest.change("PUT", "/resources/pkeys/", {"pkey": pkey, "guids": [guid]})
    assert not rig.ufm.pkeys


@pytest.mark.parametrize("status", [200, 409])
def test_fake_ufm_accepts_or_refuses_a_duplicate_guid(tmp_path: Path, status: int) -> None:
    """By POST, which weft doesn't send but other tools do."""
    rig = UfmRig(tmp_path, dialect=Dialect(duplicate=status))  # type: ignore[arg-type]
    body = {"pkey": "0x101", "guids": [rig.ports()[0].removeprefix("0x")]}
    answers = [
        rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
            rig.active, "POST", "/ufmRest/resources/pkeys", body, {}, basic()
        )[0]
        for _ in range(2)
    ]
    assert answers == [200, status] and len(rig.members(KEY)) == 1


def test_expired_licence_is_reported(tmp_path: Path) -> None:
    """If changes are refused a person must act; if everything is refused nothing is known."""
    for over in ("changes", "everything"):
        rig = UfmRig(tmp_path, dialect=Dialect(licence=over))  # type: ignore[arg-type]
        wanted = segment(KEY, rig.ports()[:2])
        if over == "changes":
            error = create(rig, wanted).error
            assert isinstance(error, PermanentError) and "license has expired" in str(error)
            assert seen(rig, wanted).status is Status.ABSENT
            continue
        with pytest.raises(UnknownError, match="license has expired"):
            create(rig, wanted)
        with pytest.raises(UnknownError, match="license has expired"):
            seen(rig, wanted)
        assert not rig.driver.status().known


def test_unknown_guid_is_accepted_or_refused(tmp_path: Path) -> None:
    """6.11.1 accepts it (seen), a mock of other versions refuses: a virtual port may appear later, a refusal is
    reported.
    """
    for unknown in ("accept", "404"):
        rig = UfmRig(tmp_path, dialect=Dialect(unknown_guid=unknown))  # type: ignore[arg-type]
        wanted = segment(KEY, [rig.ports()[0], "0x0011220300334456"])
        error = create(rig, wanted).error
        assert (error is None) is (unknown == "accept")
        assert (seen(rig, wanted).status is Status.SETTLED) is (unknown == "accept")


@pytest.mark.parametrize("refusal", ["400", "413", "500", "cut"])
def test_too_many_members_for_one_call_are_reported(tmp_path: Path, refusal: str) -> None:
    """Refused, or truncated with 200: existing members stay."""
    rig = UfmRig(tmp_path, dialect=Dialect(most_guids=3, too_many=refusal))  # type: ignore[arg-type]
    ports = rig.ports()
    assert create(rig, segment(KEY, ports[:3])).error is None
    more = segment(KEY, ports[:5])
    try:
        error = rig.driver.update(scope(), [more], {})["partition"].error
    except (UnknownError, TemporaryError) as failed:
        error = failed
    assert error is not None and (ports[3] if refusal == "cut" else "at most 3") in str(error)
    assert set(rig.members(KEY)) == set(ports[:3])
    assert seen(rig, more).status is not Status.SETTLED and ports[4] in str(seen(rig, more).differences)


def test_partition_limit_is_reported(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, dialect=Dialect(most_pkeys=1))
    made(rig)
    ports = rig.ports()
    error = rig.driver.create(scope(), [segment(KEY + 1, ports[:2])], {})["partition"].error
    assert isinstance(error, PermanentError) and "there are 1 already" in str(error)
    assert rig.ufm.pkeys.keys() == {KEY}


@pytest.mark.parametrize("twice", ["accept", "409", "moves"])
def test_member_with_another_key_at_index_0_is_reported(tmp_path: Path, twice: str) -> None:
    """It joins an external partition whose members all have it there."""
    rig = UfmRig(tmp_path, dialect=Dialect(index0_twice=twice))  # type: ignore[arg-type]
    ports = rig.ports()
    for number, member in ((KEY, ports[0]), (KEY + 1, ports[1])):
        rig.foreign(number, {member: "full"})
        rig.ufm.set_pkeys(lambda state, n=number, m=member: at_index0(state, n, [m]))
    assert create(rig, segment(KEY, ports[:1])).error is None
    error = rig.driver.update(scope(), [segment(KEY, ports[:2])], {})["partition"].error
    if twice == "409":
        assert isinstance(error, PermanentError) and f"0x{KEY + 1:x}" in str(error)
    assert (error is None) is (twice != "409")
    assert set(rig.members(KEY)) == set(ports[: 1 if error else 2])
    assert rig.members(KEY + 1) == {ports[1]: "full"}


@pytest.mark.parametrize("conflict", ["set", "409", "stays"])
def test_ip_over_ib_set_meanwhile_is_kept(tmp_path: Path, conflict: str) -> None:
    """Between weft's reading and its PUT: the members are right or it is reported, and the next change keeps the
    setting.
    """
    rig = UfmRig(tmp_path, dialect=Dialect(ip_over_ib=conflict))  # type: ignore[arg-type]
    made(rig)
    ports = rig.ports()

    def meanwhile(request: httpx.Request) -> None:
        if request.method == "PUT" and not done:
            done.append(True)
            rig.ufm.set_pkeys(lambda state: setattr(state.pkeys[KEY], "ip_over_ib", False))

    done = list[bool]()
    rig.before = meanwhile
    error = rig.driver.update(scope(), [segment(KEY, ports[:3])], {})["partition"].error
    assert (error is None) is (conflict != "409")
    assert set(rig.members(KEY)) == set(ports[: 2 if error else 3])
    assert rig.driver.update(scope(), [segment(KEY, ports[:4])], {})["partition"].error is None
    assert set(rig.members(KEY)) == set(ports[:4])
    assert rig.ufm.pkeys[KEY].ip_over_ib is (conflict == "set")


@pytest.mark.parametrize("status", [400, 500])
def test_field_outside_the_schema_is_refused(tmp_path: Path, status: int) -> None:
    """500 with `additionalProperties` is a refusal too, since trying again wouldn't help."""
    rig = UfmRig(tmp_path, dialect=Dialect(schema_error=status))  # type: ignore[arg-type]
    with pytest.raises(PermanentError, match="additionalProperties"):
        rig.driver.rest.change("PUT", "/resources/pkeys/", {"pkey": "0x101", "guids": ["1"], "colour": "red"})

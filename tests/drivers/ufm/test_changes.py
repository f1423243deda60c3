"""What UFM does with changes, each oddity of it, and what the driver makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import UfmRig, segment, spec
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.fabric import Membership
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid
from weft.model.problem import ProblemKind
from weft.model.resources import Observed, Outcome, Resource, Status
from weftlab.ufm import Dialect
from weftlab.ufm.inventory import Inventory, VirtualPort
from weftlab.ufm.pkeys import USER_EXT
from weftlab.ufm.state import State

KEY = 0x101
Row = dict[str, Any]


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


def create(rig: UfmRig, wanted: Resource, pod: int = 1) -> Outcome:
    return rig.driver.create(scope(pod), [wanted], {})[wanted.key]


def seen(rig: UfmRig, wanted: Resource, pod: int = 1) -> Observed:
    return rig.driver.find(scope(pod), [wanted], {})[wanted.key]


def made(rig: UfmRig, count: int = 2) -> Resource:
    wanted = segment(KEY, rig.ports()[:count])
    assert create(rig, wanted).error is None
    assert seen(rig, wanted).status is Status.SETTLED
    rig.sent.clear()
    return wanted


# -- the whole set in one PUT ------------------------------------------------------------------------------------


def test_a_change_is_one_put_of_the_whole_list(rig: UfmRig) -> None:
    """Nothing is taken away to be added again, and what is as wanted isn't sent at all."""
    made(rig)
    more = segment(KEY, rig.ports()[1:4])
    rig.driver.update(scope(), [more], {})
    assert rig.methods() == ["PUT /ufmRestV3/resources/pkeys/"]
    assert set(rig.members(KEY)) == set(rig.ports()[1:4])
    rig.sent.clear()
    rig.driver.update(scope(), [more], {})
    assert rig.methods() == []


def test_ip_over_ib_of_another_hand_stays(rig: UfmRig) -> None:
    made(rig)
    rig.ufm.set_pkeys(lambda state: setattr(state.pkeys[KEY], "ip_over_ib", False))
    rig.driver.update(scope(), [segment(KEY, rig.ports()[:3])], {})
    assert not rig.ufm.pkeys[KEY].ip_over_ib


def test_what_another_hand_made_is_taken_over_as_it_is(rig: UfmRig) -> None:
    """Partitions that UFM's own service for Neutron made: nothing is written while the members are the same, and with
    the first change the P_Key keeps its index in the tables of those that stay.
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


def test_an_index_that_only_some_have_is_not_lost(rig: UfmRig) -> None:
    """One PUT says index0 of all of its members: with two that differ it would move the P_Key of one of them."""
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


def at_index0(state: State, number: int, ports: Sequence[str]) -> None:
    for port in ports:
        state.pkeys[number].guids[port.removeprefix("0x")].index0 = True


def test_a_member_too_many_of_another_hand_is_named_and_nothing_is_changed(rig: UfmRig) -> None:
    ports = rig.ports()
    rig.foreign(KEY, dict.fromkeys(ports[:3], "full"))
    error = create(rig, segment(KEY, ports[:2])).error
    assert error is not None and ports[2] in str(error) and len(rig.members(KEY)) == 3


def test_mixed_memberships_are_put(rig: UfmRig) -> None:
    """POST would silently make all of them full members; PUT honours the list."""
    ports = rig.ports()
    members = (Membership(port=ports[0]), Membership(port=ports[1], mode=Mode.LIMITED))
    whole = segment(KEY, ports[:2])
    mixed = whole.model_copy(update={"spec": spec(whole).model_copy(update={"members": members})})
    assert create(rig, mixed).error is None
    assert rig.members(KEY) == {ports[0]: "full", ports[1]: "limited"}
    assert rig.keys(ports[1]) == {0x7FFF, KEY}
    assert seen(rig, mixed).status is Status.SETTLED and seen(rig, whole).differences


def test_the_last_members_removal_takes_the_partition_away(rig: UfmRig) -> None:
    """No empty list is sent; the pod's empty segment is as wanted, and gone once it is released."""
    made(rig)
    empty = segment(KEY, [])
    rig.driver.update(scope(), [empty], {})
    assert rig.methods() == ["DELETE /ufmRestV3/resources/pkeys/0x101"]
    assert seen(rig, empty).status is Status.SETTLED
    rig.driver.delete(scope(), [empty], {})
    assert seen(rig, empty).status is Status.ABSENT


def test_the_stand_in_has_all_the_ways_to_refuse_an_empty_list(tmp_path: Path) -> None:
    """They are documented side by side; the driver meets none of them."""
    for status in (200, 400, 403, 404):
        rig = UfmRig(tmp_path, dialect=Dialect(put_empty=status))  # type: ignore[arg-type]
        made(rig)
        body = {"pkey": "0x101", "guids": [], "ip_over_ib": True, "index0": False}
        answer = rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
            rig.active, "PUT", "/ufmRest/resources/pkeys/", body, {}, _basic()
        )
        assert answer[0] == status and (KEY in rig.ufm.pkeys) is (status != 200)


def _basic() -> dict[str, str]:
    from base64 import b64encode

    from tests.drivers.ufm.rigs import PASSWORD

    return {"Authorization": "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()}


@pytest.mark.parametrize(
    ("method", "body", "status"),
    [
        ("POST", {"memberships": ["limited", "limited"]}, 200),
        ("POST", {"membership": ["limited", "limited"]}, 400),
        ("PUT", {"memberships": ["limited", "limited"]}, 200),
        ("PUT", {"colour": "red"}, 400),
    ],
)
def test_the_stand_in_takes_members_as_real_ones_do(
    rig: UfmRig, method: str, body: dict[str, object], status: int
) -> None:
    """POST ignores `memberships` and makes full members; a list under `membership` is refused; the schema is closed."""
    guids = [p.removeprefix("0x") for p in rig.ports()[:2]]
    body = {"pkey": "0x101", "guids": guids, **body}
    answer = rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
        rig.active, method, "/ufmRest/resources/pkeys", body, {}, _basic()
    )
    assert answer[0] == status
    wanted = "full" if method == "POST" else "limited"
    assert set(rig.members(KEY).values()) == ({wanted} if status == 200 else set())


# -- both ways that nobody has published -------------------------------------------------------------------------


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
def test_a_life_in_every_dialect(tmp_path: Path, dialect: Dialect) -> None:
    """Made, changed, emptied, refilled and gone, with the same outcome everywhere."""
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


def test_a_partition_that_ufm_did_not_make_is_somebody_elses(tmp_path: Path) -> None:
    """An operator's lines in partitions.conf.user_ext: listed or not, weft leaves them as they are."""
    rig = UfmRig(tmp_path, dialect=Dialect(user_ext="listed"))
    made(rig)
    assert rig.driver.configured().numbers == {KEY, USER_EXT}
    assert [m.id for m in rig.driver.marked("lab", [])] == ["0x101"]


@pytest.mark.parametrize(("status", "error"), [(400, PermanentError), (500, UnknownError)])
@pytest.mark.parametrize(
    ("pkey", "guid"), [("0x7fff", "1"), ("0x8001", "1"), ("x", "1"), ("0x101", "0"), ("0x101", "no guid")]
)
def test_a_value_that_is_none(
    tmp_path: Path, pkey: str, guid: str, status: int, error: type[Exception]
) -> None:
    """weft sends none of these; a UFM that says 500 to them is read back, and nothing was made."""
    rig = UfmRig(tmp_path, dialect=Dialect(bad_value=status))  # type: ignore[arg-type]
    with pytest.raises(error, match="Invalid"):
        rig.driver.rest.change("PUT", "/resources/pkeys/", {"pkey": pkey, "guids": [guid]})
    assert not rig.ufm.pkeys


@pytest.mark.parametrize("status", [200, 409])
def test_the_stand_in_takes_a_guid_twice_or_refuses_it(tmp_path: Path, status: int) -> None:
    """By POST, which weft never sends: others' tools do."""
    rig = UfmRig(tmp_path, dialect=Dialect(duplicate=status))  # type: ignore[arg-type]
    body = {"pkey": "0x101", "guids": [rig.ports()[0].removeprefix("0x")]}
    answers = [
        rig.driver.rest._exchange(  # pyright: ignore[reportPrivateUsage]
            rig.active, "POST", "/ufmRest/resources/pkeys", body, {}, _basic()
        )[0]
        for _ in range(2)
    ]
    assert answers == [200, status] and len(rig.members(KEY)) == 1


def test_a_licence_that_is_over(tmp_path: Path) -> None:
    """Nothing is refused, or changes are a person's business, or nothing is known: never taken for absent or clean."""
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


def test_an_unknown_guid_is_taken_or_refused(tmp_path: Path) -> None:
    """6.11.1 takes it (seen), a mock of others refuses: a virtual port may come later, a refusal is told."""
    for unknown in ("accept", "404"):
        rig = UfmRig(tmp_path, dialect=Dialect(unknown_guid=unknown))  # type: ignore[arg-type]
        wanted = segment(KEY, [rig.ports()[0], "0x0011220300334456"])
        error = create(rig, wanted).error
        assert (error is None) is (unknown == "accept")
        assert (seen(rig, wanted).status is Status.SETTLED) is (unknown == "accept")


@pytest.mark.parametrize("told", ["400", "413", "500", "cut"])
def test_more_members_than_one_call_may_have(tmp_path: Path, told: str) -> None:
    """Refused or cut off with 200: it is told, never taken for done, and who is a member stays one."""
    rig = UfmRig(tmp_path, dialect=Dialect(most_guids=3, too_many=told))  # type: ignore[arg-type]
    ports = rig.ports()
    assert create(rig, segment(KEY, ports[:3])).error is None
    more = segment(KEY, ports[:5])
    try:
        error = rig.driver.update(scope(), [more], {})["partition"].error
    except (UnknownError, TemporaryError) as failed:
        error = failed
    assert error is not None and (ports[3] if told == "cut" else "at most 3") in str(error)
    assert set(rig.members(KEY)) == set(ports[:3])
    assert seen(rig, more).status is not Status.SETTLED and ports[4] in str(seen(rig, more).differences)


def test_one_partition_more_than_there_may_be(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, dialect=Dialect(most_pkeys=1))
    made(rig)
    ports = rig.ports()
    error = rig.driver.create(scope(), [segment(KEY + 1, ports[:2])], {})["partition"].error
    assert isinstance(error, PermanentError) and "there are 1 already" in str(error)
    assert rig.ufm.pkeys.keys() == {KEY}


@pytest.mark.parametrize("twice", ["accept", "409", "moves"])
def test_a_member_that_has_another_key_at_index_0(tmp_path: Path, twice: str) -> None:
    """It comes to a partition of another hand whose members all have it there."""
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
def test_ip_over_ib_that_another_hand_sets_meanwhile(tmp_path: Path, conflict: str) -> None:
    """Between weft's look and its PUT: the members are right or it is told, and the next change keeps what is there."""
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
def test_a_field_outside_of_the_schema_is_a_refusal(tmp_path: Path, status: int) -> None:
    """500 with `additionalProperties` too: trying again won't help."""
    rig = UfmRig(tmp_path, dialect=Dialect(schema_error=status))  # type: ignore[arg-type]
    with pytest.raises(PermanentError, match="additionalProperties"):
        rig.driver.rest.change("PUT", "/resources/pkeys/", {"pkey": "0x101", "guids": ["1"], "colour": "red"})


# -- old versions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "why"),
    [("6.11.1", "older than 6.12"), ("6.15.2-4", "RN 4040154"), ("6.15.6-3", "RN 4040154")],
)
def test_versions_that_must_not_be_written_to(tmp_path: Path, version: str, why: str) -> None:
    """On these a change may open the whole fabric, or its way isn't documented: nothing is changed; it is read."""
    rig = UfmRig(tmp_path, dialect=Dialect(version=version))
    wanted = segment(KEY, rig.ports()[:2])
    error = create(rig, wanted).error
    assert isinstance(error, PermanentError) and why in str(error)
    assert rig.methods() == [] and seen(rig, wanted).status is Status.ABSENT
    assert any(why in p for m in rig.driver.status().managers for p in m.problems)


@pytest.mark.parametrize("version", ["6.15.6-4", "6.12.0", "6.24.2"])
def test_versions_that_are_written_to(tmp_path: Path, version: str) -> None:
    made(UfmRig(tmp_path, dialect=Dialect(version=version)))


# -- answers that are late, lost, or wrong -------------------------------------------------------------------------


def test_a_lost_answer_is_read_back(rig: UfmRig) -> None:
    """The PUT was made, and the connection ended: what is read says that it was."""
    rig.ufm.plant({"lose_answers": 1})
    wanted = segment(KEY, rig.ports()[:2])
    assert create(rig, wanted).error is None
    assert seen(rig, wanted).status is Status.SETTLED


def test_a_lost_question_is_unknown(rig: UfmRig) -> None:
    """Closed before it was looked at: not there, so nothing is claimed; the next try makes it."""
    wanted = segment(KEY, rig.ports()[:2])
    rig.driver.configured()
    rig.driver._changer.version()  # pyright: ignore[reportPrivateUsage]
    rig.ufm.plant({"statuses": []})
    hit = False

    def lost(request: httpx.Request) -> None:
        nonlocal hit
        if request.method == "PUT" and not hit:
            hit = True
            rig.ufm.plant({"statuses": [0]})

    rig.before = lost
    with pytest.raises(UnknownError):
        create(rig, wanted)
    assert hit and KEY not in rig.ufm.pkeys
    assert create(rig, wanted).error is None


@pytest.mark.parametrize("done", [True, False])
def test_a_change_that_runs_out_of_time_is_unknown_until_it_is_read(
    rig: UfmRig, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """UFM hangs in the middle of the PUT, and is left alone for a moment; then what it shows decides."""
    ports = rig.ports()
    wanted = segment(KEY, ports[:2])

    def hangs(request: httpx.Request) -> None:
        if request.method == "PUT":
            if done:
                rig.foreign(KEY, dict.fromkeys(ports[:2], "full"))
            raise httpx.ReadTimeout("timed out", request=request)

    rig.before = hangs
    with pytest.raises(UnknownError, match="timed out"):
        create(rig, wanted)
    asked = len(rig.sent)
    with pytest.raises(UnknownError, match="no answer a moment ago"):
        seen(rig, wanted)
    assert len(rig.sent) == asked
    rig.before = lambda _: None
    monkeypatch.setattr("weft.drivers.ufm.rest.SILENT_SECONDS", 0.0)
    assert seen(rig, wanted).status is (Status.SETTLED if done else Status.ABSENT)
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED
    assert rig.methods() == ["PUT /ufmRestV3/resources/pkeys/"] * (1 if done else 2)


def test_done_is_not_believed_until_it_is_shown(rig: UfmRig) -> None:
    """A stale GET after a 200: no claim, no repetition of what was done; then it shows."""
    rig.ufm.plant({"stale": True})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError, match="doesn't show the change"):
        create(rig, wanted)
    assert KEY in rig.ufm.pkeys
    rig.ufm.plant({"stale": False})
    assert seen(rig, wanted).status is Status.SETTLED


def test_members_that_ufm_leaves_out_are_named(rig: UfmRig) -> None:
    """It answers 200 and has fewer than it was sent, or others: whoever reads that knows which."""
    ports = rig.ports()
    wanted = segment(KEY, ports[:3])

    def spoil(request: httpx.Request) -> None:
        if request.method == "GET" and request.url.path.endswith("0x101"):
            rig.foreign(KEY, {ports[0]: "full", ports[1]: "limited", ports[7]: "full"})

    rig.before = spoil
    with pytest.raises(TemporaryError) as caught:
        create(rig, wanted)
    said = str(caught.value)
    assert f"{ports[1]} is limited member, wanted full; {ports[2]} is no member, wanted full" in said
    assert f"{ports[7]} is full member, wanted none" in said and ports[0] not in said


def test_a_stale_listing_is_no_proof_of_absence(rig: UfmRig) -> None:
    """UFM answers with what was before the partition: its ports' own tables have the key."""
    rig.ufm.plant({"stale": True})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError):
        create(rig, wanted)
    assert seen(rig, wanted).status is Status.PENDING
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert {i.result for i in clean.items if i.plane.startswith("p_key ")} >= {"not clean"}


def test_it_is_there_when_the_tables_show_it(rig: UfmRig) -> None:
    """UFM has it, and its subnet manager wasn't told yet (a slow sweep): pending, with each port."""
    rig.ufm.plant({"hold": True})
    wanted = segment(KEY, rig.ports()[:2])
    assert create(rig, wanted).error is None
    found = seen(rig, wanted)
    assert found.status is Status.PENDING and "no member" in found.reason
    rig.ufm.plant({"hold": False})
    assert seen(rig, wanted).status is Status.SETTLED


def test_a_release_waits_for_the_tables(rig: UfmRig) -> None:
    """Gone from UFM, and still on the ports: not absent, not clean."""
    wanted = made(rig)
    rig.ufm.plant({"hold": True})
    rig.driver.delete(scope(), [wanted], {})
    assert KEY not in rig.ufm.pkeys
    assert seen(rig, wanted).status is Status.PENDING
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert [i.plane for i in clean.items if i.result == "clean"] == ["partition", "p_key elsewhere"]
    rig.ufm.plant({"hold": False})
    assert seen(rig, wanted).status is Status.ABSENT


# -- jobs --------------------------------------------------------------------------------------------------------


def test_a_slow_job_is_followed(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"job_polls": 3})
    made(rig)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fail", "Completed With Errors.*OpenSM is busy"),
        ("abort", "Aborted"),
        ("lie", "doesn't show the change"),
        ("forget", "doesn't know its job"),
    ],
)
def test_a_job_that_did_nothing_is_never_done(tmp_path: Path, fault: str, said: str) -> None:
    """Failed with its causes, aborted, Completed with nothing made, or forgotten."""
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"jobs": fault})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError, match=said):
        create(rig, wanted)
    assert seen(rig, wanted).status is Status.ABSENT
    rig.ufm.plant({"jobs": ""})
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED


def test_a_forgotten_job_that_did_its_work_is_read_back(tmp_path: Path) -> None:
    """GET /jobs says `[]`, as for one that never was: what was asked for is there."""
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"jobs": "forget done"})
    made(rig)


# -- other hands -------------------------------------------------------------------------------------------------


def test_partitions_of_others_are_never_touched(rig: UfmRig) -> None:
    """Outside of weft's range: not marked, not removed, not in the way."""
    rig.foreign(0x2001, {rig.ports()[7]: "full"})
    made(rig)
    [mine] = rig.driver.marked("lab", [])
    assert mine.id == "0x101" and rig.driver.configured().numbers == {KEY, 0x2001}
    theirs = type(mine)(mine.kind, mine.where, "0x2001", "", None, None, {"number": 0x2001})
    error = rig.driver.remove_marked([theirs])["0x2001"].error
    assert isinstance(error, PermanentError) and "range" in str(error)
    assert 0x2001 in rig.ufm.pkeys


def test_a_number_that_another_hand_took_is_not_overwritten(rig: UfmRig) -> None:
    """Inside weft's range and nobody's on record, with members that aren't ours."""
    rig.foreign(KEY, {rig.ports()[7]: "full"})
    error = create(rig, segment(KEY, rig.ports()[:2])).error
    assert isinstance(error, PermanentError) and "somebody else" in str(error)
    assert set(rig.members(KEY)) == {rig.ports()[7]} and rig.methods() == []


def test_a_stale_writer_that_revives_a_member_is_seen_and_undone(rig: UfmRig) -> None:
    """A PUT of somebody who had read before: UFM has no condition on it. The set is restored by an update."""
    wanted = made(rig, 3)
    old = rig.members(KEY)
    fewer = segment(KEY, rig.ports()[:2])
    rig.driver.update(scope(), [fewer], {})
    rig.foreign(KEY, old)
    found = {p.kind for p in rig.driver.check(spec(fewer), rig.driver.snapshot()).problems}
    assert ProblemKind.SEGMENT_LEFT in found and seen(rig, fewer).status is Status.PENDING
    rig.driver.update(scope(), [fewer], {})
    assert seen(rig, fewer).status is Status.SETTLED and seen(rig, wanted).differences


def test_a_stale_writer_after_the_release_is_a_stray(rig: UfmRig) -> None:
    """Nobody's by the database: the audit sees it with no owner, and may take it away."""
    wanted = made(rig)
    old = rig.members(KEY)
    rig.driver.delete(scope(), [wanted], {})
    rig.foreign(KEY, old)
    [stray] = rig.driver.marked("lab", [])
    assert stray.owner is None and stray.facts["number"] == KEY
    assert rig.driver.remove_marked([stray])["0x101"].error is None
    assert seen(rig, wanted).status is Status.ABSENT


# -- virtual functions -------------------------------------------------------------------------------------------


def test_a_virtual_port_is_a_member_by_its_guid(tmp_path: Path) -> None:
    """Told apart from its adapter's own port, which isn't in the partition; its node is the adapter's."""
    probe = UfmRig(tmp_path)
    physical = probe.ports()[2]
    virtual = "0x0011220300334456"
    rig = UfmRig(tmp_path, virtual=(VirtualPort(virtual[2:], physical[2:]),))
    assert rig.driver.capabilities.virtual_functions
    wanted = segment(KEY, [rig.ports()[0], virtual])
    assert create(rig, wanted).error is None
    found = seen(rig, wanted)
    assert found.status is Status.SETTLED
    snapshot = rig.driver.snapshot()
    assert snapshot.ports[virtual].node == rig.site.nodes[2].name
    assert snapshot.ports[physical].numbers == {0x7FFF}
    assert rig.driver.check(spec(wanted), snapshot).problems == ()
    rig.driver.delete(scope(), [wanted], {})
    items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
    assert {i.result for i in items} == {"clean"} and any(virtual in i.subject for i in items)


def behind(wanted: Resource, virtual: str, *physical: str) -> Resource:
    """The same, with a virtual function that may be behind these ports."""
    old = spec(wanted)
    member = Membership(port=virtual, behind=tuple(sorted(physical)))
    members = (*(m for m in old.members if m.port != virtual), member)
    return wanted.model_copy(
        update={"spec": old.model_copy(update={"members": tuple(sorted(members, key=lambda m: m.port))})}
    )


def test_a_function_is_up_once_its_port_is_behind_its_node_and_nowhere_else(tmp_path: Path) -> None:
    """What UFM shows after the server has booted: nothing yet, down, active, elsewhere, and in two places."""
    rig = UfmRig(tmp_path)
    first, second, other = rig.ports()[:3]
    virtual = "0x0011220300334456"
    wanted = behind(segment(KEY, [virtual]), virtual, first, second)
    assert create(rig, wanted).error is None

    def found(*ports: VirtualPort) -> list[tuple[ProblemKind, tuple[str, ...], str]]:
        rig.ufm.inventory.virtual = list(ports)
        check = rig.driver.check(spec(wanted), rig.driver.snapshot())
        assert all(virtual in p.subject for p in check.problems)
        return [(p.kind, p.nodes, p.detail["why"]) for p in check.problems]

    guid, names = virtual[2:], [n.name for n in rig.site.nodes[:3]]
    own = tuple(sorted(names[:2]))
    assert [f[:2] for f in found()] == [(ProblemKind.FUNCTION_DOWN, own)]
    assert found(VirtualPort("0" * 16, first[2:])) == found()
    [down] = found(VirtualPort(guid, second[2:], "DOWN"))
    assert down == (ProblemKind.FUNCTION_DOWN, own, "UFM shows it as DOWN")
    assert found(VirtualPort(guid, first[2:])) == found(VirtualPort(guid, second[2:], "Active")) == []
    kinds = [f[:2] for f in found(VirtualPort(guid, other[2:]))]
    assert kinds == [(ProblemKind.FUNCTION_ELSEWHERE, (names[2],)), (ProblemKind.FUNCTION_DOWN, own)]
    [twice] = found(VirtualPort(guid, first[2:]), VirtualPort(guid, other[2:]))
    assert twice[0] is ProblemKind.FUNCTION_ELSEWHERE and names[2] in twice[2]
    for place in (
        first,
        second,
    ):  # an earlier server's, on the same node: which of them the pod's is nobody can say
        [both] = found(VirtualPort(guid, first[2:]), VirtualPort(guid, place[2:]))
        assert both[:2] == (ProblemKind.FUNCTION_ELSEWHERE, own) and "2 active virtual ports" in both[2]
    assert found(VirtualPort(guid, first[2:]), VirtualPort(guid, second[2:], "DOWN")) == []


def test_a_row_that_two_pages_have_is_one_virtual_port(rig: UfmRig) -> None:
    """The list grew between two questions: the same adapter and LID, read twice."""
    virtual, physical = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, physical)
    assert create(rig, wanted).error is None
    row = {"virtual_port_guid": virtual, "port_guid": physical, "virtual_port_state": "ACTIVE"}
    rig.ufm.inventory.vports = lambda query: [{**row, "virtual_port_lid": 7}] * 2  # type: ignore[method-assign]
    assert rig.driver.check(spec(wanted), rig.driver.snapshot()).problems == ()


def test_virtual_ports_that_cant_be_read_are_unknown_where_they_count(rig: UfmRig) -> None:
    plain = segment(KEY, rig.ports()[:2])
    assert create(rig, plain).error is None
    rig.sent.clear()
    assert rig.driver.check(spec(plain), rig.driver.snapshot()).problems == ()
    assert not [r for r in rig.sent if "vports" in str(r.url)]  # most sites have none
    virtual = format_guid(0x1234)
    wanted = behind(segment(KEY, [virtual]), virtual, rig.ports()[0])
    rig.ufm.inventory.vports = lambda query: [{"virtual_port_guid": "no guid", "port_guid": "1"}]  # type: ignore[method-assign]
    snapshot = rig.driver.snapshot()
    rig.sent.clear()
    for _ in range(3):  # the same answer for all who share the snapshot
        with pytest.raises(UnknownError, match="virtual ports"):
            rig.driver.check(spec(wanted), snapshot)
    assert len([r for r in rig.sent if "vports" in str(r.url)]) == 1


@pytest.mark.parametrize("agents", [True, False])
def test_a_release_waits_until_the_virtual_port_is_down(tmp_path: Path, agents: bool) -> None:
    """Up behind its node after the server was deleted: given to the next pod, it would be in that one's partition."""
    rig = UfmRig(tmp_path, agents=agents)
    virtual, own = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, own)
    assert create(rig, wanted).error is None
    rig.driver.delete(scope(), [wanted], {})

    def told(*ports: VirtualPort) -> tuple[set[str], str, tuple[str, ...]]:
        rig.ufm.inventory.virtual = list(ports)
        items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
        mine = next(i for i in items if virtual in i.subject)
        assert {i.result for i in items if i is not mine} == {"clean"}
        return {mine.result}, mine.seen, mine.nodes

    results, said, nodes = told(VirtualPort(virtual[2:], own[2:]))
    assert results == {"not clean"} and "still be running" in said and nodes == (rig.site.nodes[0].name,)
    results, said, _ = told(VirtualPort(virtual[2:], own[2:], "DOWN"))
    assert results == {"clean"} and "UFM shows it behind" in said
    results, said, _ = told()
    assert results == {"clean"} and "UFM shows no virtual port with it any more" in said
    # Elsewhere: whoever has a whole adapter could keep others' pods from ending; the next pod's check is an alarm.
    assert told(VirtualPort(virtual[2:], rig.ports()[3][2:]))[0] == {"clean"}
    thief = VirtualPort(virtual[2:], rig.ports()[3][2:])
    assert told(VirtualPort(virtual[2:], own[2:]), thief)[2] == (rig.site.nodes[0].name,), (
        "the thief's isn't held"
    )
    rig.foreign(0x2001, {virtual: "full"})  # an operator's, for every function of the site: it tells nothing
    assert told(VirtualPort(virtual[2:], own[2:]))[0] == {"not clean"}
    rig.foreign(KEY + 1, {virtual: "full"})  # weft gave it to another pod
    assert told(VirtualPort(virtual[2:], own[2:]))[0] == {"clean"}


@pytest.mark.parametrize("agents", [True, False])
def test_a_function_is_not_down_because_ufm_has_discovered_nothing(tmp_path: Path, agents: bool) -> None:
    """A UFM that has just started answers, has its partitions, and shows no ports, or no virtual ones."""
    rig = UfmRig(tmp_path, agents=agents)
    virtual, own = format_guid(0x1234), rig.ports()[0]
    wanted = behind(segment(KEY, [virtual]), virtual, own)
    assert create(rig, wanted).error is None
    rig.driver.delete(scope(), [wanted], {})
    driver, inventory = rig.another_driver(quiet_seconds=0.2), rig.ufm.inventory

    def told() -> tuple[str, str, tuple[str, ...]]:
        items = driver.clean(spec(wanted), driver.snapshot()).items
        mine = next(i for i in items if virtual in i.subject)
        assert {i.result for i in items if i is not mine} == {"clean"}
        return mine.result, mine.seen, mine.nodes

    nodes = (rig.site.nodes[0].name,)
    result, seen, on = told()
    assert (result, on) == ("unknown", nodes) and "no virtual ports at all" in seen
    time.sleep(0.25)
    assert told()[0] == "clean", "it has shown none for long enough"
    inventory.virtual = [VirtualPort("5678", rig.ports()[1][2:])]
    assert told()[0] == "clean", "others' are shown, and this one isn't"
    inventory.virtual = []
    assert told()[0] == "unknown", "what was shown a moment ago was known"
    inventory.virtual = [VirtualPort("5678", rig.ports()[1][2:])]
    rig.blind(own)
    result, seen, on = driver_blind = told()
    assert (result, on) == ("unknown", nodes) and "nothing behind it" in seen, driver_blind


def test_a_virtual_port_that_is_not_there_yet(rig: UfmRig) -> None:
    """A VF joins before it exists; left behind in UFM's list it is not clean."""
    wanted = segment(KEY, [rig.ports()[0], format_guid(0x1234)])
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED
    items = rig.driver.clean(spec(wanted), rig.driver.snapshot()).items
    assert any(i.result == "not clean" and format_guid(0x1234) in i.subject for i in items)


# -- bare-metal machines, without an agent -----------------------------------------------------------------------

FLASHED = 0x0002C90300FFFF01


def _down(rows: dict[int, Row], one: int, other: int) -> None:
    rows[one].update(physical_state="Down", logical_state="Down", peer="N/A")


def _coming_up(rows: dict[int, Row], one: int, other: int) -> None:
    """It has a link, and the table that it had: its subnet manager doesn't sweep."""
    rows[one].update(logical_state="Initialize")


def _dropped(rows: dict[int, Row], one: int, other: int) -> None:
    del rows[one]


def _flashed(rows: dict[int, Row], one: int, other: int) -> None:
    theirs = {
        **rows[one],
        "guid": f"{FLASHED:016x}",
        "systemID": f"{FLASHED:016x}",
        "name": f"{FLASHED:016x}_1",
    }
    _down(rows, one, other)
    rows[FLASHED] = theirs


def _swapped(rows: dict[int, Row], one: int, other: int) -> None:
    rows[one]["peer"], rows[other]["peer"] = rows[other]["peer"], rows[one]["peer"]


@pytest.mark.parametrize(
    ("change", "port", "place", "told"),
    [
        (None, "clean", "clean", "where the site has it"),
        (_down, "clean", "clean", "its port is down"),
        (_coming_up, "unknown", "clean", "UFM shows it as Initialize, Link Up"),
        (_dropped, "unknown", "unknown", "UFM doesn't list it"),
        (_flashed, "clean", "not clean", f"{format_guid(FLASHED)} is seen at"),
        (_swapped, "clean", "not clean", "the site has it at"),
    ],
)
def test_of_a_machine_that_is_off_ufms_word_is_proof_if_no_other_adapter_is_at_its_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[int, Row], int, int], None] | None,
    port: str,
    place: str,
    told: str,
) -> None:
    rig = UfmRig(tmp_path, agents=False)
    machine = {"machine": "12345678-0000-4000-8000-000000000001"}
    nodes = [n.model_copy(update=machine) if n.role == "compute" else n for n in rig.site.nodes]
    rig.site = rig.site.model_copy(update={"nodes": tuple(nodes)})
    driver = rig.another_driver()
    one, other = [n.hcas[0].port_guid for n in nodes if n.role == "compute"][:2]
    listed = Inventory.ports

    def changed(self: Inventory, query: Mapping[str, str]) -> list[Row]:
        rows = {int(row["guid"], 16): row for row in listed(self, query)}
        if change is not None:
            change(rows, one, other)
        return list(rows.values())

    monkeypatch.setattr(Inventory, "ports", changed)
    former = spec(segment(KEY, [format_guid(one), format_guid(other)]))
    items = driver.clean(former, driver.snapshot()).items
    mine = {i.plane: (i.result, i.seen) for i in items if format_guid(one) in i.subject}
    assert mine["ufm port"][0] == port and mine["adapter"][0] == place
    assert told in " ".join(seen for _, seen in mine.values())
    assert "UFM's inventory: " in mine["adapter"][1]


def test_of_hosts_of_virtual_machines_no_place_is_in_the_receipt(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, agents=False)
    rig.blind(rig.ports()[0])
    items = rig.driver.clean(spec(segment(KEY, rig.ports()[:2])), rig.driver.snapshot()).items
    assert [i.result for i in items if i.plane == "ufm port"] == ["unknown", "clean"]
    assert not [i for i in items if i.plane == "adapter"]

"""Answers of UFM that are late, lost or wrong, and its jobs."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.drivers.opensm.rigs import scope
from tests.drivers.ufm.rigs import KEY, UfmRig, create, made, seen, segment, spec
from weft.drivers.ufm.change import UfmChanger
from weft.drivers.ufm.jobs import LANDS_SECONDS
from weft.model.errors import TemporaryError, UnknownError
from weft.model.resources import Status
from weftlab.ufm import Dialect


@pytest.fixture
def rig(tmp_path: Path) -> UfmRig:
    return UfmRig(tmp_path)


def test_lost_answer_is_read_back(rig: UfmRig) -> None:
    """The PUT was made and the connection ended; the next reading shows it."""
    rig.ufm.plant({"lose_answers": 1})
    wanted = segment(KEY, rig.ports()[:2])
    assert create(rig, wanted).error is None
    assert seen(rig, wanted).status is Status.SETTLED


def test_lost_request_is_unknown(rig: UfmRig) -> None:
    """The connection ended before UFM read it: nothing was made, and the next attempt makes it."""
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
def test_timed_out_change_is_unknown_until_read_back(
    rig: UfmRig, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """UFM hangs during the PUT and isn't asked for a moment; then the next reading decides."""
    ports = rig.ports()
    wanted = segment(KEY, ports[:2])

    def hangs(request: httpx.Request) -> None:
        if request.method == "PUT":
            if done:
                rig.foreign(KEY, dict.fromkeys(ports[:2], "full"))
            raise httpx.ReadTimeout("timed out", request=request)

    rig.before = hangs
    with pytest.raises(UnknownError, match="timed out") as caught:
        create(rig, wanted)
    assert caught.value.lands > 0.0
    asked = len(rig.sent)
    with pytest.raises(UnknownError, match="no answer a moment ago"):
        seen(rig, wanted)
    assert len(rig.sent) == asked
    rig.before = lambda _: None
    monkeypatch.setattr("weft.drivers.ufm.rest.SILENT_SECONDS", 0.0)
    assert seen(rig, wanted).status is (Status.SETTLED if done else Status.ABSENT)
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED
    assert rig.methods() == ["PUT /ufmRestV3/resources/pkeys/"] * (1 if done else 2)


def test_completed_job_is_not_believed_until_read_back(rig: UfmRig) -> None:
    """A stale GET after a 200: pending and not repeated until it shows."""
    rig.ufm.plant({"stale": True})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError, match="doesn't show the change"):
        create(rig, wanted)
    assert KEY in rig.ufm.pkeys
    rig.ufm.plant({"stale": False})
    assert seen(rig, wanted).status is Status.SETTLED


def test_members_left_out_by_ufm_are_named(rig: UfmRig) -> None:
    """It answers 200 with fewer members than were sent, or others."""
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


def test_stale_listing_does_not_prove_absence(rig: UfmRig) -> None:
    """UFM answers with its state before the partition; the ports' own tables have the key."""
    rig.ufm.plant({"stale": True})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError):
        create(rig, wanted)
    assert seen(rig, wanted).status is Status.PENDING
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert {i.result for i in clean.items if i.plane.startswith("p_key ")} >= {"not clean"}


def test_segment_is_settled_when_the_tables_show_it(rig: UfmRig) -> None:
    """UFM has it, but its subnet manager hasn't applied it yet: pending, with each port."""
    rig.ufm.plant({"hold": True})
    wanted = segment(KEY, rig.ports()[:2])
    assert create(rig, wanted).error is None
    found = seen(rig, wanted)
    assert found.status is Status.PENDING and "no member" in found.reason
    rig.ufm.plant({"hold": False})
    assert seen(rig, wanted).status is Status.SETTLED


def test_release_waits_for_the_tables(rig: UfmRig) -> None:
    """UFM doesn't have it any more, but the ports do: neither absent nor clean."""
    wanted = made(rig)
    rig.ufm.plant({"hold": True})
    rig.driver.delete(scope(), [wanted], {})
    assert KEY not in rig.ufm.pkeys
    assert seen(rig, wanted).status is Status.PENDING
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert [i.plane for i in clean.items if i.result == "clean"] == ["partition", "p_key elsewhere"]
    rig.ufm.plant({"hold": False})
    assert seen(rig, wanted).status is Status.ABSENT


# -- jobs -----------------------------------------------------------------------------------------------------------


def test_slow_job_is_followed_to_its_end(tmp_path: Path) -> None:
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"job_polls": 3})
    made(rig)


@pytest.mark.parametrize("silent", [False, True], ids=["it runs on", "no answer about it"])
def test_job_whose_end_is_not_seen_may_take_effect_later(tmp_path: Path, silent: bool) -> None:
    """A release reads back only after that time, and no other pod gets the number before."""
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.driver._changer = UfmChanger(rig.driver.rest, 0.3, 0.1)  # pyright: ignore[reportPrivateUsage]
    rig.ufm.plant({"job_polls": 1000})
    wanted = segment(KEY, rig.ports()[:2])

    def no_answer(request: httpx.Request) -> None:
        if silent and "/jobs/" in request.url.path:
            raise httpx.ReadTimeout("timed out", request=request)

    rig.before = no_answer
    with pytest.raises(
        UnknownError, match="no answer a moment ago" if silent else "job 1 is Running"
    ) as caught:
        create(rig, wanted)
    assert caught.value.lands == LANDS_SECONDS


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fail", "Completed With Errors.*OpenSM is busy"),
        ("abort", "Aborted"),
        ("lie", "doesn't show the change"),
        ("forget", "doesn't know its job"),
    ],
)
def test_job_without_effect_is_never_done(tmp_path: Path, fault: str, said: str) -> None:
    """Failed with its causes, aborted, Completed without an effect, or forgotten."""
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"jobs": fault})
    wanted = segment(KEY, rig.ports()[:2])
    with pytest.raises(TemporaryError, match=said) as caught:
        create(rig, wanted)
    assert caught.value.lands == 0.0
    assert seen(rig, wanted).status is Status.ABSENT
    rig.ufm.plant({"jobs": ""})
    assert create(rig, wanted).error is None and seen(rig, wanted).status is Status.SETTLED


def test_effect_of_a_job_that_ufm_forgot_is_read_back(tmp_path: Path) -> None:
    """GET /jobs answers `[]`, as for an unknown job; the change is there."""
    rig = UfmRig(tmp_path, dialect=Dialect(changes="job"))
    rig.ufm.plant({"jobs": "forget done"})
    made(rig)

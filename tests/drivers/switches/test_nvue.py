"""NVIDIA's switches: revisions that take time, and NVIDIA's own schema."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from tests.drivers.switches.onefront import VLAN, One, change_every_way, ordered, results
from tests.drivers.switches.rigs import scope
from weft.drivers.switches import open_fabric, switch
from weft.drivers.switches.nvue import Nvue as NvueSession
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.vlans import Batch
from weft.model.errors import UnknownError
from weft.model.site import Site
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches.front import Answer, Request
from weftlab.switches.nvue import Nvue, schema_check


def applied(nvue: One) -> None:
    """Let the revision that is being applied complete."""
    assert isinstance(nvue.front, Nvue)
    nvue.front.finish()


def unanswered(nvue: One, fault: str = "mute") -> None:
    """Send a change whose apply takes long and whose answer is lost."""
    nvue.front.faults.slow_commit = 3600.0
    setattr(nvue.front.faults, fault, r"PATCH /nvue_v1/revision/\d+ ")
    with pytest.raises(UnknownError):
        nvue.put(0, VLAN)


def test_revision_lost_before_apply_leaves_no_doubt(nvue: One) -> None:
    for request in ("POST /nvue_v1/revision", r"PATCH /nvue_v1/\?rev="):
        nvue.front.faults.mute = request
        with pytest.raises(UndoneError):
            nvue.put(0, VLAN)
        assert nvue.untagged(0) is None


def test_revision_with_a_lost_apply_answer_is_followed(nvue: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it takes longer than a change is doubted."""
    monkeypatch.setattr(switch, "DOUBT_SECONDS", 0.0)
    unanswered(nvue)
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.read()
    applied(nvue)
    assert nvue.untagged(0) == VLAN


def test_late_applied_revision_is_followed(nvue: One) -> None:
    """It was read as pending, and the request to apply it arrived later."""
    unanswered(nvue, "late")
    with pytest.raises(UnknownError, match="may not show"):
        nvue.session.read()
    nvue.front.arrive()
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.read()
    applied(nvue)
    assert nvue.untagged(0) == VLAN


@pytest.mark.parametrize("state", ["apply", "verifying", "readying"])
def test_another_processs_revision_in_progress_is_not_clean(nvue: One, state: str) -> None:
    """That process ended, and another one releases the pod. `state` is the name NVUE gives to the progress."""
    assert isinstance(nvue.front, Nvue)
    nvue.front.on_the_way = state
    spec, wanted = ordered(nvue, 0)
    nvue.front.faults.slow_commit = 3600.0
    nvue.front.faults.mute = r"PATCH /nvue_v1/revision/\d+ "
    with pytest.raises(UnknownError):
        nvue.fabric.create(scope(), [wanted], {})
    other = nvue.another()
    assert other.delete(scope(), [wanted], {})["partition"].error is None
    [of_all, of_port] = [i for i in other.clean(spec, other.snapshot()).items if i.result != "clean"]
    assert "a change that is under way on leaf1 has it" in of_all.seen
    assert not of_port.whole and of_port.seen.endswith("a change that is under way on leaf1 has it"), (
        "also for a node that leaves a pod that stays"
    )
    applied(nvue)
    nvue.front.faults.slow_commit = 0.0
    assert "not clean" in results(other, spec)
    assert other.delete(scope(), [wanted], {})["partition"].error is None
    assert results(other, spec) == {"clean"}


def test_neutrons_revision_in_progress_is_not_clean(nvue: One) -> None:
    """Neutron's worker, with weft's driver in it, stopped waiting, and the port is deleted."""
    spec, wanted = ordered(nvue, 0)
    nvue.front.faults.slow_commit = 3600.0
    nvue.front.faults.mute = r"PATCH /nvue_v1/revision/\d+ "
    with pytest.raises(UnknownError):
        nvue.fabric.create(scope(), [wanted], {})
    document = nvue.site.model_dump(mode="json")
    document["fabrics"][FABRIC]["manager"]["switching"]["configured_by"] = "neutron"
    with closing(open_fabric(Site.model_validate(document), FABRIC, NoLedger())) as neutrons:
        dirty = [i for i in neutrons.clean(spec, neutrons.snapshot()).items if i.result != "clean"]
        assert {i.plane for i in dirty} == {"switch", "switch port"}
        assert all("a change that is under way on leaf1 has it" in i.seen for i in dirty)
        applied(nvue)
        nvue.front.faults.slow_commit = 0.0
        assert nvue.another().delete(scope(), [wanted], {})["partition"].error is None
        assert results(neutrons, spec) == {"clean"}


def test_slow_revision_is_waited_for(nvue: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVUE goes on applying it: until then the switch's state is unknown to all readers."""
    monkeypatch.setattr(switch, "DOUBT_SECONDS", 0.0)
    assert isinstance(nvue.session, NvueSession)
    nvue.session._apply_seconds = 0.2  # pyright: ignore[reportPrivateUsage]
    nvue.front.faults.slow_commit = 1.0
    with pytest.raises(UnknownError, match="still apply"):
        nvue.put(0, VLAN)
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.read()
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.change(lambda state: Batch())
    nvue.front.faults.slow_commit = 0.0
    time.sleep(1.0)
    assert nvue.untagged(0) == VLAN


def test_vanished_revision_may_have_been_applied(nvue: One) -> None:
    """NVUE's server was restarted meanwhile, which isn't a refusal."""
    nvue.front.faults.slow_commit = 3600.0

    def restarted() -> None:
        for _ in range(6000):
            with nvue.front.lock:
                if any('"apply"' in request.line for request in nvue.front.requests):
                    nvue.front.forget_sessions()
                    return
            time.sleep(0.01)

    gone = threading.Thread(target=restarted)
    gone.start()
    with pytest.raises(UnknownError, match="isn't there any more") as caught:
        nvue.put(0, VLAN)
    gone.join()
    assert caught.value.lands == nvue.session.lands_seconds
    with pytest.raises(UnknownError, match="may not show"):
        nvue.session.read()


def test_port_missing_in_nvue_does_not_exist(nvue: One) -> None:
    """A port without configuration isn't in the applied revision, nor is one with another name."""
    assert nvue.untagged(2) is None
    limits = nvue.session.limits
    nvue.session.limits = type(limits)(limits.vlans, limits.ports | {"swp99"}, limits.parking)
    assert "swp99" not in nvue.session.read().ports
    assert nvue.session.read().lacks("swp99") == "has no port swp99"


def test_save_is_followed_to_its_end(nvue: One) -> None:
    """It is accepted before it is done."""
    states = ["save", "save", "save_error"]

    def slow(request: Request, answer: Answer) -> Answer:
        return Answer(200, {"state": states.pop(0)}) if request.path.endswith("/revision/applied") else answer

    nvue.front.faults.instead = slow
    with pytest.raises(UnknownError, match="save_error"):
        nvue.put(0, VLAN)
    assert nvue.session.read().unsaved and not states
    states += ["save", "applied_and_saved"]
    nvue.session.change(lambda state: Batch())
    assert not nvue.session.read().unsaved and not states


def test_requests_match_nvues_schema() -> None:
    """The check finds what NVIDIA's models would ignore."""
    # here and not above: it takes a second, which every collecting process would spend
    from nvueschema.models import v5_9

    check = schema_check("5.9")
    assert v5_9.NvueConfig.model_fields
    assert check({"interface": {"swp1": {"bridge": {"domain": {"br_default": {"access": 11}}}}}}) == ""
    assert "no such field" in check(
        {"interface": {"swp1": {"bridge": {"domain": {"br_default": {"acess": 11}}}}}}
    )
    assert check({"interface": {"swp1": {"bridge": {"domain": {"br_default": {"access": 5000}}}}}}) != ""


AT_NIGHT = pytest.mark.nightly(
    reason="each version's schema takes seconds to import; the oldest, 5.9 and the newest by day"
)

BY_DAY = (0, 9, 18)


@pytest.mark.parametrize(
    "minor", [n if n in BY_DAY else pytest.param(n, marks=AT_NIGHT) for n in range(19)], ids="5.{}".format
)
def test_every_nvue_version_accepts_wefts_requests(minor: int, nvue: One) -> None:
    """Ports in a VLAN, as a trunk, parked; VLANs made and deleted: no field is unknown to any version."""
    assert isinstance(nvue.front, Nvue)
    nvue.front.claim(f"5.{minor}")
    misspelt = {"interface": {"swp1": {"bridge": {"domain": {"br_default": {"acess": 11}}}}}}
    assert "no such field" in schema_check(f"5.{minor}")(misspelt), "the version's schema is there"
    change_every_way(nvue)

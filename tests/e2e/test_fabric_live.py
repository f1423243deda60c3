"""A pod on the lab while things happen to the real fabric."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.people import People, Person, wait_for
from weftlab.fabric.faults import Faults
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud


@pytest.fixture
def faults(lab: Lab) -> Generator[Faults]:
    """The fabric is well before and after: other tests of this lab are on it too."""
    faults = Faults(lab.layout, lab.site, lab.supervisor)
    faults.repair()
    yield faults
    faults.repair()


def comparison(operator: Person) -> list[dict[str, Any]]:
    return operator.weft("fabric", "compare", "ib0", "--json").json["differences"]


def test_moved_cable_is_reported_and_adopted(lab: Lab, people: People, faults: Faults) -> None:
    """gpu16 is plugged into another leaf: reported as moved; taken in, it is the truth; and back again."""
    operator = people("operator")
    assert comparison(operator) == []
    link = next(k for k in lab.site.links if "gpu16/mlx5_0" in (k.a, k.b))
    leaf, port = (link.a, link.a_port) if link.b.startswith("gpu16") else (link.b, link.b_port)
    used = {(k.a, k.a_port) for k in lab.site.links} | {(k.b, k.b_port) for k in lab.site.links}
    free = next(n for n in range(1, 41) if ("leaf01", n) not in used)
    faults.unlink("gpu16/mlx5_0")
    faults.link("leaf01", free, "gpu16/mlx5_0", 1)
    try:
        wait_for(lambda: [d["kind"] for d in comparison(operator)] == ["moved cable"])
        assert operator.weft("fabric", "compare", "ib0").code == 1
        assert operator.weft("fabric", "compare", "ib0", "--adopt").code == 0
        assert comparison(operator) == []
        leaves = {n["name"]: n["leaf"] for n in operator.weft("node", "list", "--json").json}
        assert leaves["gpu16"] == "leaf01"
    finally:
        faults.unlink("gpu16/mlx5_0")
        faults.link(leaf, port, "gpu16/mlx5_0", 1)
        wait_for(lambda: [d["kind"] for d in comparison(operator)] in (["moved cable"], []))
        operator.weft("fabric", "compare", "ib0", "--adopt")
    assert comparison(operator) == []


def _take_over(master: Callable[[], str], faults: Faults) -> str:
    """Stop the master until another rules; its name.

    The simulator may lose what the standby asks just then, and has no time-out that would make it ask again.
    """
    for _ in range(3):
        old = master()
        faults.stop(f"opensm-{old}")
        with suppress(AssertionError):
            wait_for(lambda old=old: master() not in ("", old), seconds=60)
            return old
        faults.repair()
    raise AssertionError("no standby takes over")


@pytest.mark.nightly(
    reason="half a minute of processor; by day takeovers are on the same OpenSM, and the audit's repair on fakes"
)
def test_drift_is_repaired_and_a_takeover_survived(lab: Lab, people: People, faults: Faults) -> None:
    """A key written behind OpenSM's back is found and repaired; the master dies, the standby rules, the pod stays."""
    tenant, operator = people("team-a"), people("operator")
    assert tenant.order("steady", 1, "--wait").code == 0
    pod = tenant.weft("pod", "show", "steady", "--json").json
    key = 0x8000 | int(pod["segment"], 16)
    outsider = lab.site.node_by_name["gpu15"].hcas[0].port_guid
    faults.write_key(outsider, 20, key)
    found = operator.weft("audit", "--json")
    assert found.code == 1 and any(f["kind"] == "membership" for f in found.json["findings"]), found.out
    repaired = operator.weft("audit", "--repair", "--json")
    assert repaired.json["findings"] and all(f["repaired"] for f in repaired.json["findings"]), repaired.out
    assert key not in faults.read_keys(outsider)[0]

    def master() -> str:
        managers = operator.weft("fabric", "status", "--json").json
        return next((m["name"] for f in managers for m in f["managers"] if m["state"] == "master"), "")

    old = _take_over(master, faults)

    def missing() -> bool:
        """The wire is as before, only a manager is missing; right after the takeover it may still be unreadable."""
        findings = operator.weft("audit", "--json").json["findings"]
        return {f["kind"] for f in findings} <= {"fabric manager"}

    wait_for(missing)
    assert tenant.weft("pod", "show", "steady", "--json").json["state"] == "READY"
    faults.start(f"opensm-{old}")
    wait_for(lambda: operator.weft("audit").code == 0)

"""Switch ports of a site's own networks in a whole lab: real Neutron, running switches behind vendors' interfaces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e.people import Answer, People, Person, assert_clean, connection, wait_for
from tests.helpers.sitenetworks import GATEWAYS, STORAGE
from weft.app.sitefile import checked, load_site
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.vlans import PARK, Batch, PortEdit
from weft.model.site import Device, Interface, SiteNetwork
from weft.model.specs import SegmentSpec
from weft.planning.site.graph import site_graph
from weftlab.lab import Lab
from weftlab.switches.hosts import frame
from weftlab.switches.labsite import FABRIC, hardware, lab_plan
from weftlab.switches.probe import Probe

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="a minute; by day a site's ports on fakes and its networks on the lab, and pods on the same switches"
    ),
]

BMCS, STORAGES = 13, 12
POD = "name: gpu\nnodes: {count: 2, flavor: a100x8, image: tiny}\n"


@dataclass
class Ports:
    """The operator, with two leaves' hardware described; and who hears what on the wire.

    Attributes:
        names: hardware's namespaces: two on each leaf.
    """

    lab: Lab
    operator: Person
    probe: Probe
    names: list[str]

    def port(self, name: str) -> str:
        plan = lab_plan(self.lab.settings)
        host = next(h for h in plan.hosts if h.name == name)
        return plan.port(host.ends[0])

    def heard(self, sender: str, by: set[str], mark: bytes) -> set[str]:
        hosts = self.probe.hosts
        everybody = hosts.by_name.keys() - {sender}
        return hosts.heard(sender, everybody, [frame(hosts.by_name[sender].mac, mark=mark)], mark, by=by)

    def untagged(self, name: str) -> int | None:
        return self.probe.fabric.snapshot().ends[self.port(name)].untagged


def good(answer: Answer) -> Answer:
    assert answer.code == 0, answer.out + answer.err
    return answer


def described(lab: Lab, project: str, names: list[str], ports: dict[str, str]) -> str:
    """Three BMCs on VLAN 13 of two leaves, the fourth host a filer on VLAN 12; as JSON."""
    own = {"physical_network": "sitenet", "fabric": FABRIC}
    networks = {
        "site-gw": SiteNetwork.model_validate(GATEWAYS | own),
        "site-storage": SiteNetwork.model_validate(STORAGE | own | {"shared_with": [project]}),
    }
    rows: list[Interface] = []
    for n, name in enumerate(names, 1):
        switch, _, port = ports[name].partition("/")
        at = ("site-gw", "10.201.0") if n < len(names) else ("site-storage", "10.212.0")
        row = {"device": name, "name": "eth0", "network": at[0], "address": f"{at[1]}.{10 + n}"}
        row |= {"mac": f"02:00:00:b5:00:{n:02x}", "switch": switch, "port": port}
        rows.append(Interface.model_validate(row))
    update = {
        "networks": networks,
        "interfaces": tuple(rows),
        "devices": tuple(Device(name=n, kind="other") for n in names),
    }
    return checked(load_site(lab.site_path).model_copy(update=update)).model_dump_json()


@pytest.fixture
def ports(lab: Lab, people: People) -> Iterator[Ports]:
    person = people("operator")
    identity: Any = connection(lab, "operator").identity
    project = identity.find_project("team-a", ignore_missing=False).id
    names = [hardware(leaf, n) for n in (1, 2) for leaf in ("tor01", "tor02")]
    with contextlib.closing(Probe.of(lab)) as probe:
        made = Ports(lab, person, probe, names)
        file = person.folder / "described.yaml"  # JSON is YAML
        file.write_text(described(lab, project, names, {n: made.port(n) for n in names}))
        good(person.weft("site", "activate", str(file)))
        yield made
        person.weft("site", "destroy", "--wait", "--timeout", "120")
        good(person.weft("site", "activate", str(lab.site_path)))


def test_switch_ports_go_from_plan_to_receipt(ports: Ports, people: People) -> None:
    """Each network's hardware is together and alone, beside a pod; drift is planned and mended; after the end none
    hears another."""
    operator, (one, two, three, filer) = ports.operator, ports.names
    planned = good(operator.weft("site", "plan"))
    assert "VLAN 13, 3 members" in planned.out and "2 segments" in planned.out, planned.out
    assert ports.untagged(one) is None
    good(operator.weft("site", "apply", "--wait"))
    assert {n: ports.untagged(n) for n in ports.names} == {
        one: BMCS, two: BMCS, three: BMCS, filer: STORAGES
    }  # fmt: skip
    assert "Nothing to change" in good(operator.weft("site", "apply", "--wait")).out
    tenant = people("team-a")
    (tenant.folder / "gpu.yaml").write_text(POD)
    good(tenant.weft("pod", "create", "-f", "gpu.yaml", "--wait", timeout=400))
    assert ports.heard(one, {two, three}, b"bmc") == {two, three}
    assert ports.heard(filer, set(), b"filer") == set()
    assert_clean(operator)
    shown = tenant.weft("pod", "show", "gpu", "--json").json
    members = ports.probe.members(int(shown["segment"]))
    assert len(members) == 4
    sender = min(members)
    assert ports.heard(sender, members - {sender}, b"pod") == members - {sender}
    own, strangers = int(shown["segment"]), set(ports.names) - members
    assert ports.probe.forged(sender, ports.names, [BMCS, STORAGES], own=()) == set()
    assert ports.probe.forged(sender, strangers, [BMCS, STORAGES], own=[own]) == set(), "behind its own tag"
    _drift(ports, two)
    good(tenant.weft("pod", "release", "gpu", "--wait"))
    good(operator.weft("site", "destroy", "--wait"))
    receipt = operator.weft("site", "receipt", "--json").json["receipt"]
    assert receipt["clean"]
    read = {i["subject"] for i in receipt["items"] if i["plane"] == "switch port"}
    assert read == {ports.port(n) for n in ports.names}
    assert {ports.untagged(n) for n in ports.names} == {None}
    assert ports.heard(one, set(), b"after") == set()
    assert ports.probe.carried(BMCS) == set()
    assert_clean(operator)


def _drift(ports: Ports, name: str) -> None:
    """A BMC is removed from its VLAN on the switch itself, through the switch's own API."""
    switch, _, port = ports.port(name).partition("/")
    session = ports.probe.fabric.session(switch)
    spec = next(s for s in _specs(ports) if s.number == BMCS)
    asked = Asked(lambda state: Batch(ports={port: PortEdit(PARK)}), own=(spec,))
    assert session.change_all([asked]) == [None]
    said = good(ports.operator.weft("site", "plan")).out
    assert f"port {switch}/{port}: no member → access" in said, said
    assert ports.operator.weft("audit").code == 1
    good(ports.operator.weft("site", "apply", "--wait"))
    wait_for(lambda: ports.untagged(name) == BMCS)
    assert "Nothing to change" in good(ports.operator.weft("site", "plan")).out


def _specs(ports: Ports) -> list[SegmentSpec]:
    site = load_site(ports.operator.folder / "described.yaml")
    return [r.spec for r in site_graph(site).resources if isinstance(r.spec, SegmentSpec)]

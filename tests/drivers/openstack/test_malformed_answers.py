"""Answers with one field of another shape: weft may call them unknown, and never raises an exception of Python's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.drivers.openstack.test_absence import IDS, NETWORK, SCOPE, SERVER
from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions, service
from weft.drivers.openstack.errors import CloudAnswer
from weft.model.errors import OutsideError
from weft.model.kinds import Kind

pytestmark = pytest.mark.landing

MAC = "7c:fe:90:29:26:52"
NET, SUBNET, PORT, ROUTER, GROUP = (f"5f0c4a4e-0000-4000-8000-00000000000{n}" for n in range(5))
Call = Callable[[OpenStackFacts, OpenStackDriver], object]
CALLS: dict[str, Call] = {
    "find": lambda _, driver: driver.find(SCOPE, [SERVER, NETWORK], IDS),
    "remove_marked": lambda _, driver: driver.remove_marked(driver.marked(SCOPE.site, ())),
    "segments": lambda facts, _: facts.segments([f"ibnet-{id(object())}"]),
    "on_networks": lambda facts, _: facts.on_networks(PROJECT, [NET]),
    "uses": lambda facts, _: facts.uses(
        PROJECT, {Kind.PORT: [PORT], Kind.ROUTER: [ROUTER], Kind.SECURITY_GROUP: [GROUP]}
    ),
    "networks_on": lambda facts, _: facts.networks_on("ibnet"),
    "is_gone": lambda facts, _: facts.is_gone("no-such-network", PROJECT),
    "port_now": lambda facts, _: facts.port_now(PORT, PROJECT),
    "ports_at": lambda facts, _: facts.ports_at(PROJECT, ["gpu01"], [MAC]),
    "pairs_with": lambda facts, _: facts.pairs_with(PROJECT, [MAC], [(NET, "10.0.0.9")]),
    "ports_in": lambda facts, _: facts.ports_in([GROUP], [PORT]),
    "witness": lambda facts, _: facts.witness("lab"),
    "hosts": lambda facts, _: facts.hosts(),
    "projects": lambda facts, _: facts.projects(),
    "built": lambda facts, _: facts.built(datetime.now(UTC), list),
    "on_hosts": lambda facts, _: facts.on_hosts(["gpu01"]),
}
PORT_ROW = {
    **{"id": PORT, "name": "p", "network_id": NET, "project_id": PROJECT, "mac_address": MAC},
    **{"device_id": "srv-1", "device_owner": "compute:nova", "description": "", "dns_name": "p"},
    **{"binding:host_id": "gpu01", "binding:vnic_type": "direct", "binding:vif_type": "hw_veb"},
    "binding:profile": {"pci_slot": "0000:0c:00.0"},
    "extra_dhcp_opts": [{"opt_name": "client-id", "opt_value": "ff"}],
    "fixed_ips": [{"ip_address": "10.0.0.5", "subnet_id": SUBNET}],
    "allowed_address_pairs": [{"ip_address": "10.0.0.9", "mac_address": "7c:fe:90:29:26:99"}],
    "security_groups": [GROUP],
}
THINGS: dict[str, list[dict[str, Any]]] = {
    "servers": [
        {
            **{"id": "srv-1", "name": SERVER.name, "description": SCOPE.mark(SERVER.key).text()},
            **{"tenant_id": PROJECT, "created": "2026-01-01T00:00:00Z", "status": "ACTIVE", "user_id": "u"},
            **{"flavor": {"original_name": "gpu8"}, "OS-EXT-SRV-ATTR:host": "gpu01", "locked": False},
        }
    ],
    "networks": [
        {
            **{"id": "net-1", "name": NETWORK.name, "description": SCOPE.mark(NETWORK.key).text()},
            **{"project_id": PROJECT, "created_at": "2026-01-01T00:00:00Z", "subnets": [SUBNET]},
            **{"provider:network_type": "vlan", "provider:physical_network": "ibnet"},
            "provider:segmentation_id": 257,
        }
    ],
    "ports": [PORT_ROW],
    "subnets": [{"id": SUBNET, "name": "s", "network_id": NET, "project_id": PROJECT, "cidr": "10.0.0.0/24"}],
    "rbac_policies": [
        {"id": "r", "object_id": NET, "target_tenant": "other", "action": "access_as_shared"}
    ],
    "trunks": [{"id": "t", "name": "t", "project_id": PROJECT, "port_id": PORT}],
    "floatingips": [
        {"id": "f", "floating_ip_address": "203.0.113.5", "project_id": PROJECT, "port_id": PORT, "router_id": ROUTER}
    ],
    "hypervisors": [
        {
            **{"id": "h", "hypervisor_hostname": "gpu01", "hypervisor_type": "QEMU", "state": "up"},
            **{"service": {"host": "gpu01"}, "servers": [{"uuid": "srv-1", "name": "s"}]},
        }
    ],
    "keypairs": [{"keypair": {"name": "weft-epoch-x", "public_key": f"ssh-ed25519 A weft-epoch/lab/{NET}/4"}}],
}  # fmt: skip
GONE = object()
DAMAGES = (GONE, "x")


def places(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each field, and of each list's first entry."""
    parts: Any = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, part in parts:
        yield (*at, key)
        yield from places(part, (*at, key))


def damaged(body: Any, place: tuple[Any, ...], damage: object) -> Any:
    body = copy.deepcopy(body)
    at = body
    for key in place[:-1]:
        at = at[key]
    if damage is GONE:
        del at[place[-1]]
    else:
        at[place[-1]] = damage
    return body


@pytest.fixture
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[OpenStackFacts, OpenStackDriver, Callable[[], None]]]:
    """Facts and driver of a cloud, and a function that restores its contents."""
    with tiny_cloud() as (tiny, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield OpenStackFacts(sessions, "public"), driver, lambda: tiny.things.update(copy.deepcopy(THINGS))
        driver.close()
        sessions.close()


@pytest.mark.parametrize("name", CALLS)
def test_damaged_answer_raises_only_errors_of_weft(
    cloud: tuple[OpenStackFacts, OpenStackDriver, Callable[[], None]],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any other exception would be a defect in the middle of a visit, and could keep a release from ending."""
    facts, driver, restore = cloud
    honest, call = service._answer, CALLS[name]  # pyright: ignore[reportPrivateUsage] - between both
    heard: list[Any] = []
    lie: list[tuple[int, Any]] = []

    def answer(response: Any) -> CloudAnswer:
        found = honest(response)
        heard.append(found.body)
        return replace(found, body=lie[0][1]) if lie and lie[0][0] == len(heard) - 1 else found

    monkeypatch.setattr(service, "_answer", answer)
    for _ in range(2):  # record the second call, which doesn't ask what is asked only once
        restore()
        heard.clear()
        call(facts, driver)
    for number, body in [(n, one) for n, one in enumerate(heard) if isinstance(one, dict)]:
        for place in places(body):
            for damage in DAMAGES:
                restore()
                heard.clear()
                lie[:] = [(number, damaged(body, place, damage))]
                with suppress(OutsideError):
                    call(facts, driver)

"""The contract's bench on a running lab: real Keystone, Nova, Neutron, Glance."""

from __future__ import annotations

import functools
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.drivers.openstack.bench import PUBLIC_KEY, Bench, Offer, colons
from weft.drivers.openstack import KeystoneIdentity, OpenStackDriver, OpenStackFacts, Sessions
from weft.model.resources import Resource
from weftlab.lab import Lab

OFFER = Offer("lab", "ibnet", "physnet1", "public", "tiny", "gpu8")


def hosts_of(lab: Lab) -> tuple[str, str]:
    """The lab's last two GPU nodes on InfiniBand, since pods get the first ones."""
    *_, first, second = (n.nova_host for n in lab.site.nodes if n.role == "compute" and n.hcas_on("ib0"))
    return first, second


@functools.cache
def _connect(files: str, cloud: str) -> Connection:
    config = OpenStackConfig(config_files=[files])
    return Connection(config=config.get_one(cloud=cloud))


class RealBench(Bench):
    """The admin and the tenant change the cloud from outside; the driver signs in only as the service user `weft`.

    Args:
        clouds: the lab's clouds.yaml, with profiles for `operator`, `team-a` and `weft`.
        hosts: two hosts without servers.
    """

    pause = 1.0  # each look lists everything, which loads the services

    def __init__(self, clouds: Path, hosts: Sequence[str], segment: int = 0) -> None:
        self.clouds = clouds
        self.sessions = Sessions("weft", [clouds])
        self.offer = OFFER
        self.driver = OpenStackDriver(OFFER.cloud, self.sessions)
        self.identity = KeystoneIdentity(self.sessions, remembered=0)
        self.facts = OpenStackFacts(self.sessions, OFFER.external_network)
        self.hosts = hosts
        self.segment = segment or random.randrange(500, 900)  # outside the lab site's own ranges
        self.set_pod(str(self.tenant.current_project_id))
        self._strangers: list[str] = []

    @property
    def tenant(self) -> Connection:
        return _connect(str(self.clouds), "team-a")

    @property
    def operator(self) -> Connection:
        return _connect(str(self.clouds), "operator")

    def other_pod(self, segment: int | None = None) -> Bench:
        return RealBench(self.clouds, self.hosts, segment or self.segment)

    def _group(self, name: str, description: str) -> str:
        group: Any = self.tenant.network.create_security_group(name=name, description=description)
        return str(group.id)

    def duplicate_security_group(self, resource: Resource) -> str:
        time.sleep(1.1)  # ages are whole seconds
        return self._group(resource.name, self.scope.mark(resource.key).text())

    def stranger_security_group(self, name: str) -> str:
        self._strangers.append(self._group(name, "someone else's"))
        return self._strangers[-1]

    def stranger_port(self, network_id: str, group_id: str) -> str:
        neutron: Any = self.tenant.network
        made = neutron.create_port(network_id=network_id, name="own", security_groups=[group_id])
        return str(made.id)

    def stranger_trunk(self, parent: str) -> str:
        neutron: Any = self.tenant.network
        return str(neutron.create_trunk(port_id=parent, name="own").id)

    def lose_port(self, port_id: str) -> None:
        self.tenant.network.delete_port(port_id)

    def unmark_security_group(self, group_id: str) -> None:
        self.tenant.network.update_security_group(group_id, description="")
        self._strangers.append(group_id)

    def is_there(self, group_id: str) -> bool:
        return self.tenant.network.find_security_group(group_id, ignore_missing=True) is not None

    def sweep_strangers(self) -> None:
        for group_id in self._strangers:
            self.tenant.network.delete_security_group(group_id)
        self._strangers.clear()

    def token(self) -> str:
        fresh = OpenStackConfig(config_files=[str(self.clouds)]).get_one(cloud="team-a")
        return str(Connection(config=fresh).auth_token)

    def revoke(self, token: str) -> None:
        answer = self.operator.identity.delete("/auth/tokens", headers={"X-Subject-Token": token})
        assert answer.status_code == 204, answer.text

    def users_key_pair(self) -> tuple[str, str, str]:
        name, text = f"laptop-{uuid.uuid4().hex[:6]}", f"{PUBLIC_KEY} alice@laptop"
        self.tenant.compute.create_keypair(name=name, public_key=text)
        return str(self.tenant.current_user_id), name, text

    @contextmanager
    def another_image(self, **properties: object) -> Iterator[str]:
        name = f"contract-{uuid.uuid4().hex[:6]}"
        image = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        glance = self.operator.image
        made = glance.post("/images", json={**image, **colons(properties)})
        assert made.status_code == 201, made.text
        path = f"/images/{made.json()['id']}"
        try:
            sent = glance.put(f"{path}/file", data=b"x", headers={"Content-Type": "application/octet-stream"})
            assert sent.status_code == 204, sent.text
            yield name
        finally:
            glance.delete(path)

    @contextmanager
    def another_flavor(self, **extra_specs: str) -> Iterator[str]:
        nova: Any = self.operator.compute
        like = nova.find_flavor(self.flavor, get_extra_specs=True)
        name = f"contract-{uuid.uuid4().hex[:6]}"
        made = nova.create_flavor(name=name, vcpus=like.vcpus, ram=like.ram, disk=like.disk)
        try:
            nova.create_flavor_extra_specs(made, {**like.extra_specs, **colons(extra_specs)})
            yield name
        finally:
            nova.delete_flavor(made)

    @contextmanager
    def trait(self, host: str) -> Iterator[str]:
        name = f"CUSTOM_CONTRACT_{uuid.uuid4().hex[:6].upper()}"
        self._asked("PUT", f"/traits/{name}")
        (provider,) = self._asked("GET", f"/resource_providers?name={host}")["resource_providers"]
        path = f"/resource_providers/{provider['uuid']}/traits"
        try:
            self._set_traits(path, lambda traits: [*traits, name])
            yield name
        finally:
            self._set_traits(path, lambda traits: [t for t in traits if t != name])
            self._asked("DELETE", f"/traits/{name}")

    def _set_traits(self, path: str, change: Callable[[list[str]], list[str]]) -> None:
        """nova-compute writes its own traits there too, so after a conflict they are read again."""
        while True:
            seen = self._asked("GET", path)
            body = {**seen, "traits": change(seen["traits"])}
            if self._asked("PUT", path, body, ok=(200, 409)).get("traits") is not None:
                return

    def _asked(
        self, method: str, path: str, body: object = None, ok: Collection[int] = (200, 201, 204)
    ) -> Any:
        headers = {"OpenStack-API-Version": "placement 1.18"}
        answer = self.operator.placement.request(path, method, json=body, headers=headers)
        assert answer.status_code in ok, answer.text
        return answer.json() if answer.content and answer.status_code < 300 else {}

    @contextmanager
    def quota(self, name: str, limit: int) -> Iterator[None]:
        project = self.scope.project_id
        self.operator.network.put(f"/quotas/{project}", json={"quota": {name.rstrip("s"): limit}})
        try:
            yield
        finally:
            self.operator.network.delete(f"/quotas/{project}")

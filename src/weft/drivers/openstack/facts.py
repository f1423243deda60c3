"""What is read from a cloud before anything is created: offers, quotas, hosts, public keys."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import cast
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from weft.drivers.openstack.errors import all_shaped
from weft.drivers.openstack.existing import OpenStackExisting
from weft.drivers.openstack.given import foreign_part
from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.machine import machine_states
from weft.drivers.openstack.metalfacts import unfit_machines
from weft.drivers.openstack.networks import OpenStackNetworks
from weft.drivers.openstack.nodes import changed_machines, seen_machines
from weft.drivers.openstack.occupants import OpenStackOccupants
from weft.drivers.openstack.servers import OpenStackServers
from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project, Sessions
from weft.drivers.openstack.storagefacts import OpenStackStorage
from weft.drivers.openstack.tenantnetworks import OpenStackTenantNetworks
from weft.drivers.openstack.witness import OpenStackWitness
from weft.model.errors import InputError, OutsideError, UnknownError
from weft.model.hostneeds import HostNeeds, too_small
from weft.model.messages import outside
from weft.model.messages.orders import instead
from weft.model.novaflavor import NovaFlavor, accelerators_of, miscounted
from weft.model.order import KEY_PAIR_NAME, KEY_PAIR_NAMES, Order, SshPublicKey
from weft.model.ordernames import OrderNames
from weft.model.quota import more_quota
from weft.model.resources import NOTHING, Graph, Kind
from weft.model.site import Flavor
from weft.ports.cloud import QuotaRow
from weft.ports.occupants import SeenMachine

_SSH_KEY: TypeAdapter[str] = TypeAdapter(SshPublicKey)
_NEUTRON = {
    "networks": "network",
    "subnets": "subnet",
    "ports": "port",
    "routers": "router",
    "floating IPs": "floatingip",
    "security groups": "security_group",
    "security group rules": "security_group_rule",
}
_NOVA = {
    "servers": ("maxTotalInstances", "totalInstancesUsed"),
    "cores": ("maxTotalCores", "totalCoresUsed"),
    "RAM (MiB)": ("maxTotalRAMSize", "totalRAMUsed"),
}


@all_shaped
class OpenStackFacts(
    OpenStackOccupants,
    OpenStackNetworks,
    OpenStackTenantNetworks,
    OpenStackWitness,
    OpenStackExisting,
    OpenStackServers,
    OpenStackStorage,
):
    """`CloudFacts`.

    Args:
        external_network: name of the network for routers' gateways; None if the site has none.
        machines: ids of the site's bare-metal machines in the cloud.
        site: name of the site, as in the marks of its machines.
        by_ironic: Ironic deploys them without Nova.
    """

    def __init__(
        self,
        sessions: Sessions,
        external_network: str | None = None,
        machines: Collection[str] = (),
        site: str = "",
        by_ironic: bool = False,
    ) -> None:
        OpenStackOccupants.__init__(
            self, sessions, by_ironic=machines if by_ironic else (), machines=machines
        )
        OpenStackNetworks.__init__(self, sessions)
        OpenStackTenantNetworks.__init__(self, sessions)
        OpenStackWitness.__init__(self, sessions)
        OpenStackServers.__init__(self, sessions, bool(machines) and by_ironic)
        OpenStackExisting.__init__(self, sessions)
        OpenStackStorage.__init__(self, sessions)
        self._external = external_network
        self._site = site
        self._lookups = Lookups()

    def order_names(self, project_id: str) -> OrderNames:
        return self._lookups.names(self._sessions.project(project_id))

    def check_order(self, project_id: str, order: Order, flavor: str, counted: Flavor | None = None) -> None:
        project = self._sessions.project(project_id)
        image = self._lookups.image(project, order.nodes.image)
        if image is None:
            raise InputError(
                "nodes.image", order.nodes.image, instead("the project has no active image of that name")
            )
        if self._by_ironic and order.nodes.kind == "bare_metal":  # their flavors are the site's alone
            self._check_ironics_image(project, order.nodes.image, image)
        else:
            found = self._check_flavor(project, order, flavor, counted, image)
            if why := too_small(image, flavor, int(found["ram"]), int(found["disk"])):
                raise InputError("nodes.image", order.nodes.image, why)
        wants_router = order.network.router or order.access.floating_ip != "none"
        if not wants_router:
            return
        field = "network.router" if order.network.router else "access.floating_ip"
        value = order.network.router or order.access.floating_ip
        if self._external is None:
            raise InputError(field, value, instead("the site names no external network for this cloud"))
        if self._lookups.external_network(project, self._external) is None:
            allowed = instead("the project can't see the site's external network", more=f" {self._external}")
            raise InputError(field, value, allowed)

    def unfit(self, project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        project, own = self._sessions.project(project_id), self._sessions.own()
        found, offered = self._lookups.image(project, image), self._lookups.flavor(project, flavor)
        if found is None:
            return {}  # `check_order` reports it
        reasons: dict[str, str | None] = {}
        if self._by_ironic and (of_image := HostNeeds.of(found, {})):
            reasons |= self._unfit_machines(own, of_image, alone=offered is None)
        if offered is None:
            return {host: why for host, why in reasons.items() if why}
        needs = HostNeeds.of(found, offered.get("extra_specs", {}))
        if not needs:
            return {}
        having = {t: self._lookups.providers(own, t) for t in sorted(needs.required | needs.forbidden)}
        reasons |= {
            one.host: needs.lacks([t for t in having if provider in having[t]], one.architecture)
            for provider, one in self._lookups.hypervisors(own).items()
            if one.host not in self._by_ironic
        }
        return {host: why for host, why in reasons.items() if why}

    def _unfit_machines(self, own: Project, needs: HostNeeds, alone: bool) -> Mapping[str, str]:
        """Machine -> why it is unfit. If Ironic doesn't answer, no machine is fit; the hosts of virtual machines aren't
        affected.

        Args:
            alone: only machines are asked for: then an unknown state is the answer.
        """
        try:
            return unfit_machines(own, self._by_ironic, needs)
        except OutsideError as error:
            if alone:
                raise
            return dict.fromkeys(self._by_ironic, f"unknown: {error.answer}")

    def public_key(self, user_id: str, key_pair: str) -> str:
        # Read with the service user's rights, which cover all users' keys: the name must stay one path
        # segment.
        if not re.fullmatch(KEY_PAIR_NAME, key_pair):
            raise InputError("access.key_pair", key_pair, instead(KEY_PAIR_NAMES))
        answer = self._sessions.own().compute.ask(
            f"read the public key of key pair {key_pair}",
            "GET",
            f"/os-keypairs/{quote(key_pair, safe='')}",
            params={"user_id": user_id},
            ok=(400, 404),
        )
        row: Json = answer.body.get("keypair", {}) if answer.fine else {}
        if (row.get("name"), row.get("user_id")) != (key_pair, user_id):
            raise InputError(
                "access.key_pair", key_pair, instead("the ordering user has no such key pair in this cloud")
            )
        if row.get("type", "ssh") != "ssh":
            raise InputError("access.key_pair", key_pair, instead("a key pair of type ssh"))
        try:
            return _SSH_KEY.validate_python(str(row["public_key"]).strip())
        except ValidationError:
            allowed = instead("its public key must be of type ssh-ed25519, ssh-rsa or ecdsa-sha2-nistp*")
            raise InputError("access.key_pair", key_pair, allowed) from None

    def exceeded_quotas(
        self, project_id: str, graph: Graph, flavor: str, freed: Graph = NOTHING
    ) -> Sequence[QuotaRow]:
        project = self._sessions.project(project_id)
        found = self._lookups.flavor(project, flavor) or {}
        needed = more_quota(graph, freed, int(found.get("vcpus", 0)), int(found.get("ram", 0)))
        limits = {**self._nova_limits(project), **self._neutron_limits(project)}
        limits |= self.storage_limits(project, graph)
        if any(r.kind is Kind.KEY_PAIR for r in graph.resources):
            limits["key pairs"] = self._key_pair_limit()
        rows: list[QuotaRow] = []
        for name, wanted in sorted(needed.items()):
            limit, used = limits.get(name, (-1, 0))
            if limit >= 0 and used + wanted > limit:
                rows.append(QuotaRow(name, limit, used, max(wanted, 0)))
        return rows

    def projects(self) -> Mapping[str, str]:
        return self._sessions.served()

    def hosts(self) -> Mapping[str, str]:
        own = self._sessions.own()
        rows = own.compute.listing(
            "list compute hosts", "/os-services", "services", only={"binary": "nova-compute"}
        )
        found = {row["host"]: _state(row) for row in rows}
        if not self._machines:
            return found
        try:
            return {**found, **machine_states(own, self._machines, self._site)}
        except OutsideError as error:  # the hosts of virtual machines aren't affected
            return {**found, **dict.fromkeys(self._machines, f"unknown: {error.answer}")}

    def seen_machines(self) -> Mapping[str, SeenMachine]:
        return seen_machines(self._sessions.own(), self._machines) if self._machines else {}

    def changed_machines(self) -> Mapping[str, SeenMachine]:
        return changed_machines(self._sessions.own(), self._machines) if self._machines else {}

    def _check_ironics_image(self, tenant: Project, name: str, image: Json) -> None:
        """Ironic reads an image with the rights of the deploying user, which is weft's: a tenant's private
        image would be refused only after the machine was claimed (HTTP 400, `Image … can not be found`).
        """
        own = self._sessions.own()
        if self._lookups.image(own, str(image["id"])) is None:
            project = own.image.signed_in_project()
            allowed = f"an image that is public, community, or shared with weft's project {project}"
            raise InputError("nodes.image", name, allowed)
        if why := foreign_part(self._lookups, tenant, own, image):
            allowed = "an image whose kernel and ramdisk its project and weft's can read"
            raise InputError("nodes.image", name, f"{allowed}: it has {why}")

    def _check_flavor(
        self, project: Project, order: Order, name: str, counted: Flavor | None, image: Json
    ) -> Json:
        flavor = self._lookups.flavor(project, name)
        if flavor is None:
            raise InputError("nodes.flavor", name, instead("the project has no flavor of that name"))
        nova = NovaFlavor(flavor["vcpus"], flavor["ram"], flavor.get("extra_specs", {}), image)
        if counted and (why := miscounted(counted, nova)):
            raise InputError(
                "nodes.flavor",
                name,
                instead("a flavor whose entry in the site matches Nova's", more=f": {why}"),
            )
        ordered = order.nodes.accelerators
        if ordered is None:
            return flavor
        if order.nodes.kind == "bare_metal":
            return flavor  # no devices: those of the machine are fixed
        if accelerators_of(nova.alias) < ordered.count:
            allowed = instead(
                "flavor {name} gives {devices} (pci_passthrough:alias)",
                name=name,
                devices=nova.alias or "no PCI devices",
            )
            raise InputError("nodes.accelerators", f"{ordered.count} x {ordered.type}", allowed)
        return flavor

    def _nova_limits(self, project: Project) -> dict[str, tuple[int, int]]:
        limits = _absolute(project.compute, "read the project's limits in Nova")
        return {
            name: (int(limits[top]), int(limits[used]))
            for name, (top, used) in _NOVA.items()
            if top in limits
        }

    def _neutron_limits(self, project: Project) -> dict[str, tuple[int, int]]:
        path = f"/quotas/{project.project_id}/details"
        quota = project.network.item("read the project's quotas in Neutron", path, "quota")
        limits: dict[str, tuple[int, int]] = {}
        for name, theirs in _NEUTRON.items():
            if theirs in quota:
                row = quota[theirs]
                limits[name] = (int(row["limit"]), int(row["used"]) + int(row.get("reserved", 0)))
        return limits

    def _key_pair_limit(self) -> tuple[int, int]:
        """Limit and use of the service user, who owns all pods' key pairs; Nova counts them per user."""
        own = self._sessions.own().compute
        limits = _absolute(own, "read the service user's limits in Nova")
        used = own.listing(outside.REQUEST(verb="list", what="key pairs"), "/os-keypairs", "keypairs")
        return int(limits.get("maxTotalKeypairs", -1)), len(used)


def _absolute(compute: CloudService, asked: str) -> Json:
    limits = compute.item(asked, "/limits", "limits").get("absolute")
    if not isinstance(limits, dict):
        raise UnknownError(asked, "compute", "no object 'absolute' in the limits")
    return cast(Json, limits)


def _state(service: Json) -> str:
    if service.get("status") == "disabled":
        return f"disabled: {service.get('disabled_reason') or 'no reason given'}"
    if service.get("forced_down"):
        return "down: forced down by an operator"
    return str(service.get("state"))

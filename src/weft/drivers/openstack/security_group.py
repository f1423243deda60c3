"""Security groups: exactly SSH from given networks, everything within the group, and everything outbound.
Closed groups allow only what their rules say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fields, ListedResource
from weft.drivers.openstack.networks import add_share, set_shares, shared_projects
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.service import Json
from weft.model.resources import Kind, Resource
from weft.model.specs import Egress, Ingress, SecurityGroupSpec

Rule = tuple[tuple[str, object], ...]
"""A rule without its id: sorted pairs, so that rules compare as sets."""
INSIDE = "everything within the group and outbound"
SHARED = "weft:shared_with"
"""Field that `prepare` adds to a row of the site's own: ids of the projects that it is shared with."""
COMPARED = (
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id",
)


class SecurityGroups(NeutronKind):
    """Security groups with exactly the desired rules. Those of a new group depend on the cloud's template, so they are
    made exact afterwards."""

    kind = Kind.SECURITY_GROUP
    updatable = frozenset({"mark", "name", "ssh_from", "rules", "shared_with"})
    collection, item = "security_groups", "security_group"
    bulk = False
    fields = ("security_group_rules",)

    def body(self, call: Call, resource: Resource) -> Json:
        return {}

    def created(self, call: Call, resource: Resource, raw: Json) -> None:
        self._make_exact(call, resource, self.row(raw))
        spec = resource.spec_as(SecurityGroupSpec)
        for project in spec.shared_with:
            add_share(call.project, "security_group", raw["id"], resource.name, project)

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        return {"name": resource.name} if "name" in fields else {}

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        super().repair(call, resource, row, fields)
        if fields & {"ssh_from", "rules"}:
            self._make_exact(call, resource, row)
        if "shared_with" in fields:
            spec = resource.spec_as(SecurityGroupSpec)
            set_shares(call.project, "security_group", row.id, resource.name, spec.shared_with)

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        """Add the projects that the site's own groups are shared with, which use them by name; what a tenant
        does with its pods' groups isn't compared."""
        if call.scope.owner.kind != "site":
            return rows
        with_whom = shared_projects(call.project, [row.id for row in rows], "security_group")
        return [replace(row, raw={**row.raw, SHARED: with_whom[row.id]}) for row in rows]

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(SecurityGroupSpec)
        further = {_words(rule) for rule in _further(spec)}
        return {
            "ssh_from": frozenset(spec.ssh_from),
            "rules": frozenset(further if spec.egress is not None else {INSIDE, *further}),
            "shared_with": frozenset(spec.shared_with),
            "name": resource.name,
        }

    def seen(self, call: Call, row: ListedResource) -> Fields:
        rules = set(_rules_of(row))
        ssh = frozenset(str(dict(r)["remote_ip_prefix"]) for r in rules if _is_ssh(r))
        others = {r for r in rules if not _is_ssh(r)}
        base = set(_base_rules(row.id))
        words = {_words(r) for r in others - base}
        # The rules that every open group has are summarized in one word, unless some are missing.
        if base <= others:
            words.add(INSIDE)
        elif base & others:
            words |= {f"missing: {_words(r)}" for r in base - others}
        shared = {"shared_with": row.raw[SHARED], "name": row.name} if SHARED in row.raw else {}
        return {"ssh_from": ssh, "rules": frozenset(words), **shared}

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"rules": len(row.raw["security_group_rules"])}

    def _make_exact(self, call: Call, resource: Resource, row: ListedResource) -> None:
        spec = resource.spec_as(SecurityGroupSpec)
        network = call.project.network
        should = {
            *(_base_rules(row.id) if spec.egress is None else ()),
            *(_ssh_rule(cidr) for cidr in spec.ssh_from),
            *_further(spec),
        }
        missing = sorted(should - set(_rules_of(row)), key=str)
        if missing:
            bodies = [{"security_group_id": row.id, **dict(rule)} for rule in missing]
            network.ask(
                f"create rules of security group {resource.name}",
                "POST",
                "/security-group-rules",
                json={"security_group_rules": bodies},
            )
        for raw in row.raw["security_group_rules"]:
            if _rule(raw) not in should:
                asked = f"delete rule {raw['id']} of security group {resource.name}"
                network.ask(asked, "DELETE", f"/security-group-rules/{raw['id']}", ok=(404,))


def _rule(raw: Json) -> Rule:
    pairs = {name: raw.get(name) for name in COMPARED}
    return tuple(sorted((name, value) for name, value in pairs.items() if value is not None))


def _rules_of(row: ListedResource) -> Iterable[Rule]:
    return (_rule(raw) for raw in row.raw["security_group_rules"])


def _base_rules(group_id: str) -> Iterable[Rule]:
    for ethertype in ("IPv4", "IPv6"):
        yield _rule({"direction": "egress", "ethertype": ethertype})
        yield _rule({"direction": "ingress", "ethertype": ethertype, "remote_group_id": group_id})


def _ssh_rule(cidr: str) -> Rule:
    return _rule(
        {
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": "tcp",
            "port_range_min": 22,
            "port_range_max": 22,
            "remote_ip_prefix": cidr,
        }
    )


def _further(spec: SecurityGroupSpec) -> Iterable[Rule]:
    return map(_traffic_rule, (*spec.ingress, *(spec.egress or ())))


def _traffic_rule(wanted: Ingress | Egress) -> Rule:
    inward = isinstance(wanted, Ingress)
    raw: Json = {
        "direction": "ingress" if inward else "egress",
        "ethertype": "IPv4",
        "protocol": wanted.protocol,
        "port_range_min": wanted.port,
        "port_range_max": wanted.port,
        "remote_ip_prefix": wanted.source if inward else wanted.to,
    }
    return _rule(raw)


def _is_ssh(rule: Rule) -> bool:
    prefix = dict(rule).get("remote_ip_prefix")
    return prefix is not None and rule == _ssh_rule(str(prefix))


def _words(rule: Rule) -> str:
    return " ".join(str(value) for _, value in rule)

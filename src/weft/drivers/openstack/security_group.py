"""Security groups: SSH from given networks, everything within the group, everything outbound; exactly that."""

from __future__ import annotations

from collections.abc import Iterable

from weft.drivers.openstack.base import Call, Fields, Row
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.service import Json
from weft.model.resources import Ingress, Kind, Resource, SecurityGroupSpec

Rule = tuple[tuple[str, object], ...]
"""A rule without its id: sorted pairs, so that rules compare as sets."""
INSIDE = "everything within the group and outbound"
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
    """The rules of a new group depend on the cloud's template, so they are made exact afterwards."""

    kind = Kind.SECURITY_GROUP
    updatable = frozenset({"mark", "ssh_from", "rules"})
    collection, item = "security_groups", "security_group"
    bulk = False
    fields = ("security_group_rules",)

    def body(self, call: Call, resource: Resource) -> Json:
        return {}

    def created(self, call: Call, resource: Resource, raw: Json) -> None:
        self._make_exact(call, resource, self.row(raw))

    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        return {}

    def repair(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        super().repair(call, resource, row, fields)
        if fields & {"ssh_from", "rules"}:
            self._make_exact(call, resource, row)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec
        assert isinstance(spec, SecurityGroupSpec)
        return {
            "ssh_from": frozenset(spec.ssh_from),
            "rules": frozenset({INSIDE, *(_words(_ingress_rule(i)) for i in spec.ingress)}),
        }

    def seen(self, call: Call, row: Row) -> Fields:
        rules = set(_rules_of(row))
        ssh = frozenset(str(dict(r)["remote_ip_prefix"]) for r in rules if _is_ssh(r))
        others = {r for r in rules if not _is_ssh(r)}
        base = set(_base_rules(row.id))
        told = {_words(r) for r in others - base} | {f"missing: {_words(r)}" for r in base - others}
        # The rules that every group has are one word, unless some are missing.
        return {"ssh_from": ssh, "rules": frozenset(told if base - others else {INSIDE, *told})}

    def facts(self, row: Row) -> dict[str, object]:
        return {"rules": len(row.raw["security_group_rules"])}

    def _make_exact(self, call: Call, resource: Resource, row: Row) -> None:
        spec = resource.spec
        assert isinstance(spec, SecurityGroupSpec)
        network = call.project.network
        should = {
            *_base_rules(row.id),
            *(_ssh_rule(cidr) for cidr in spec.ssh_from),
            *(_ingress_rule(i) for i in spec.ingress),
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


def _rules_of(row: Row) -> Iterable[Rule]:
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


def _ingress_rule(wanted: Ingress) -> Rule:
    raw: Json = {
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": wanted.protocol,
        "port_range_min": wanted.port,
        "port_range_max": wanted.port,
        "remote_ip_prefix": wanted.source,
    }
    return _rule(raw)


def _is_ssh(rule: Rule) -> bool:
    prefix = dict(rule).get("remote_ip_prefix")
    return prefix is not None and rule == _ssh_rule(str(prefix))


def _words(rule: Rule) -> str:
    return " ".join(str(value) for _, value in rule)

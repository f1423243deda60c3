"""An imitated SONiC switch behind the management framework's RESTCONF: `sonic-vlan`, ports, the copy to start-up.

CONFIG_DB's rules are those of the CLI and the YANG models: a port has one VLAN without a tag (models since 2024);
a member's VLAN must exist; a VLAN with members isn't deleted. Each request is a transaction. Errors are
`ietf-restconf:errors` (RFC 8040) as the management framework's `rest/server/error.go` makes them: a constraint that
doesn't hold is a status 500 with `invalid-value`, an entry that isn't there a 404 of type `application`, an
unknown path a 404 of type `protocol`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from weftlab.switches.bridge import Vlans
from weftlab.switches.front import Answer, Front

VLAN_ROOT = "sonic-vlan:sonic-vlan"
MODELS = {
    "PORT": "sonic-port:sonic-port",
    "PORT_QOS_MAP": "sonic-port-qos-map:sonic-port-qos-map",
    "DSCP_TO_TC_MAP": "sonic-dscp-tc-map:sonic-dscp-tc-map",
    "TC_TO_QUEUE_MAP": "sonic-tc-queue-map:sonic-tc-queue-map",
    "QUEUE": "sonic-queue:sonic-queue",
    "WRED_PROFILE": "sonic-wred-profile:sonic-wred-profile",
}
"""Table -> the model that it is in, by sonic-buildimage's YANG models."""
KEYS = {
    "PORT": ("name",),
    "PORT_QOS_MAP": ("ifname",),
    "DSCP_TO_TC_MAP": ("name",),
    "TC_TO_QUEUE_MAP": ("name",),
    "QUEUE": ("ifname", "qindex"),
    "WRED_PROFILE": ("name",),
}


class RuleError(Exception):
    """A change that the models don't allow."""


class UnknownLeafError(Exception):
    """A leaf that isn't in the models."""


MEDIA = "application/yang-data+json"


class Restconf(Front):
    """Attributes:
    modern: by the models of today; else by those of 2019, which call each port `ifname`.
    missing: models that this image's server doesn't have.
    """

    content_type = MEDIA
    modern = True
    missing: frozenset[str] = frozenset()

    @property
    def _own(self) -> str:
        """Field with a port's name in the port's own row."""
        return "name" if self.modern else "ifname"

    @property
    def _member(self) -> str:
        """Field with a port's name in rows that refer to it."""
        return "port" if self.modern else "ifname"

    def takes(self, media: str) -> Answer | None:
        if media == MEDIA:
            return None
        return _error(415, "protocol", "invalid-value", "Unsupported content-type")

    def factory(self) -> dict[str, Any]:
        """`vlans`: names; `members`: (VLAN, port) -> tagging mode; `tables`: rows of other tables, by their keys."""
        return {"vlans": set[str](), "members": {}, "tables": {table: {} for table in KEYS}}

    def forwarding(self) -> Mapping[int, Vlans]:
        found = dict.fromkeys(self.plan.by_name().values(), Vlans())
        by_name = self.plan.by_name()
        for (vlan, port), mode in self.running["members"].items():
            number, now = int(vlan.removeprefix("Vlan")), found[by_name[port]]
            if mode == "untagged":
                found[by_name[port]] = Vlans(number, now.tagged)
            else:
                found[by_name[port]] = Vlans(now.untagged, now.tagged | {number})
        return found

    def forget_sessions(self) -> None:
        """There are none."""

    def unauthorised(self) -> Answer:
        """401 as SONiC's management framework answers it."""
        return _error(401, "protocol", "access-denied", "Authentication not provided")

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        _, _, inside = path.removeprefix("/restconf/").partition("/")
        if inside.partition(":")[0] in self.missing:
            return _not_found()
        if path == "/restconf/operations/sonic-config-mgmt:copy" and method == "POST":
            return self._copy(body)
        if not path.startswith("/restconf/data/"):
            return _not_found()
        where = path.removeprefix("/restconf/data/").rstrip("/")
        if method == "GET":
            return self._get(where)
        if self.faults.fail_after is not None:
            if self.faults.fail_after <= 0:
                self.faults.fail_after = None
                return _error(409, "protocol", "in-use", "Transaction failed. Please try again.")
            self.faults.fail_after -= 1
        candidate = deepcopy(self.running)
        try:
            answer = self._edit(candidate, method, where, body)
            self._check(candidate)
        except UnknownLeafError as error:
            return _error(400, "protocol", "invalid-value", f"no leaf {error} in the models")
        except RuleError as error:
            return _error(500, "application", "invalid-value", str(error))
        if answer.status < 300:
            self.take(candidate)
        return answer

    def _copy(self, body: Any) -> Answer:
        given = (body or {}).get("sonic-config-mgmt:input", {})
        if (given.get("source"), given.get("destination")) != (
            "running-configuration",
            "startup-configuration",
        ):
            return _error(400, "application", "invalid-value", "source and destination")
        good = self.save()
        said = "SUCCESS." if good else "ERROR: no space left on device"
        return Answer(200, {"sonic-config-mgmt:output": {"status": 0 if good else 1, "status-detail": said}})

    def _status(self, port: str) -> dict[str, str]:
        admin = "DOWN" if port in self.disabled else "UP"
        return {"admin-status": admin, "oper-status": "DOWN" if port in self.unplugged else admin}

    def _get(self, where: str) -> Answer:
        ports, lags, mtu = self.plan.by_name(), self.plan.members(), self.reading()["tables"]["PORT"]
        if where == "sonic-port:sonic-port/PORT":
            names = [*(p for p in ports if p.startswith("Ethernet")), *lags.values()]
            rows = [{self._own: p, "admin_status": "up", "mtu": 9100, **mtu.get((p,), {})} for p in names]
            return Answer(200, {"sonic-port:PORT": {"PORT_LIST": rows}})
        if where == "sonic-portchannel:sonic-portchannel/PORTCHANNEL":
            return _rows(where, [{"name": lag, "admin_status": "up", "mtu": 9100} for lag in lags])
        if where == "sonic-portchannel:sonic-portchannel/PORTCHANNEL_MEMBER":
            return _rows(where, [{"name": lag, self._member: link} for lag, link in lags.items()])
        if where == "openconfig-interfaces:interfaces":
            rows = [
                {"name": n, "state": {**self._status(n), "counters": _counters(c)}}
                for n, c in self.statistics().items()
            ]
            return Answer(200, {"openconfig-interfaces:interfaces": {"interface": rows}})
        if where == "openconfig-lldp:lldp/interfaces":
            return Answer(200, {"openconfig-lldp:interfaces": {"interface": _neighbours(self.heard)}})
        if (model := MODELS.get(where.rpartition("/")[2])) and where == f"{model}/{where.rpartition('/')[2]}":
            return _rows(where, list(self.reading()["tables"][where.rpartition("/")[2]].values()))
        if where != VLAN_ROOT:
            return _not_found()
        config = self.reading()
        vlans = [{"name": v, "vlanid": int(v.removeprefix("Vlan"))} for v in sorted(config["vlans"])]
        members = [
            {"name": v, self._member: p, "tagging_mode": m} for (v, p), m in sorted(config["members"].items())
        ]
        tree = {"VLAN": {"VLAN_LIST": vlans}} if vlans else {}
        tree |= {"VLAN_MEMBER": {"VLAN_MEMBER_LIST": members}} if members else {}
        return Answer(200, {VLAN_ROOT: tree})

    def _edit(self, config: dict[str, Any], method: str, where: str, body: Any) -> Answer:
        if method == "PATCH" and where == VLAN_ROOT:
            tree = (body or {}).get(VLAN_ROOT, {})
            for row in tree.get("VLAN", {}).get("VLAN_LIST", []):
                config["vlans"].add(_vlan(_known(row, "name", "vlanid")))
            for row in tree.get("VLAN_MEMBER", {}).get("VLAN_MEMBER_LIST", []):
                _join(config, _known(row, "name", self._member, "tagging_mode"), self._member)
            return Answer(204)
        table = where.rpartition("/")[2]
        if method == "PATCH" and where == f"{MODELS.get(table, '')}/{table}":
            body = body or {}
            for row in body.get(f"{where.partition(':')[0]}:{table}", {}).get(f"{table}_LIST", []):
                key = tuple(str(row.get(k)) for k in KEYS[table])
                config["tables"][table][key] = {**config["tables"][table].get(key, {}), **row}
            return Answer(204)
        if match := re.fullmatch(rf"{VLAN_ROOT}/VLAN_MEMBER/VLAN_MEMBER_LIST=([^,]+),([^,]+)", where):
            if method != "DELETE":
                return _error(405, "protocol", "operation-not-supported", "Method not allowed")
            there = config["members"].pop((unquote(match[1]), unquote(match[2])), None)
            return Answer(204) if there else _error(404, "application", "invalid-value", "Resource not found")
        if match := re.fullmatch(rf"{VLAN_ROOT}/VLAN/VLAN_LIST=(\w+)", where):
            if match[1] not in config["vlans"]:
                return _error(404, "application", "invalid-value", "Resource not found")
            if any(vlan == match[1] for vlan, _ in config["members"]):
                raise RuleError(f"{match[1]} has members: Dependent data exists")
            config["vlans"].discard(match[1])
            return Answer(204)
        return _not_found()

    def _check(self, config: dict[str, Any]) -> None:
        ports = self.plan.by_name()
        untagged: dict[str, str] = {}
        tables = config["tables"]
        for row in tables["PORT_QOS_MAP"].values():
            named = row.get("dscp_to_tc_map")
            if named is not None and (named,) not in tables["DSCP_TO_TC_MAP"]:
                raise RuleError(f"DSCP_TO_TC_MAP {named}: No instance found")
            if not re.fullmatch(r"([0-7](,[0-7])*)?", str(row.get("pfc_enable", ""))):
                raise RuleError(f"pfc_enable {row['pfc_enable']}")
        for row in tables["QUEUE"].values():
            if "wred_profile" in row and (row["wred_profile"],) not in tables["WRED_PROFILE"]:
                raise RuleError(f"WRED_PROFILE {row['wred_profile']}: No instance found")
        for (vlan, port), mode in config["members"].items():
            if vlan not in config["vlans"]:
                raise RuleError(f"{vlan} does not exist")
            if port not in ports:
                raise RuleError(f"No instance found for {port}")
            # Of 2024, `sonic-vlan.yang`: "Port can be untagged in at most one VLAN."
            if self.modern and mode == "untagged" and untagged.setdefault(port, vlan) != vlan:
                raise RuleError(f"{port} is already untagged member!")


def _known(row: dict[str, Any], *leaves: str) -> dict[str, Any]:
    if unknown := sorted(row.keys() - {*leaves}):
        raise UnknownLeafError(unknown[0])
    return row


def _join(config: dict[str, Any], row: dict[str, Any], port: str) -> None:
    key, mode = (str(row.get("name")), str(row.get(port))), row.get("tagging_mode")
    if mode not in ("tagged", "untagged"):
        raise RuleError("tagging_mode: tagged or untagged")
    if config["members"].get(key, mode) != mode:
        raise RuleError(f"{key[1]} is already a member of {key[0]}")
    config["members"][key] = mode


def _vlan(row: dict[str, Any]) -> str:
    number, name = row.get("vlanid"), row.get("name")
    if not isinstance(number, int) or not 2 <= number <= 4094 or name != f"Vlan{number}":
        raise RuleError(f"Invalid VLAN ID {number} (2-4094)")
    return f"Vlan{number}"


def _rows(where: str, rows: list[dict[str, Any]]) -> Answer:
    """A table of CONFIG_DB; one without rows isn't there."""
    model, table = where.partition(":")[0], where.rpartition("/")[2]
    if not rows:
        return _error(404, "application", "invalid-value", "Resource not found")
    return Answer(200, {f"{model}:{table}": {f"{table}_LIST": rows}})


def _neighbours(heard: Mapping[str, tuple[str, str]]) -> list[dict[str, Any]]:
    def one(local: str, device: str, port: str) -> dict[str, Any]:
        kind = "MAC_ADDRESS" if port.count(":") == 5 else "INTERFACE_NAME"
        state = {"id": local, "system-name": device, "port-id": port, "port-id-type": kind}
        return {"name": local, "neighbors": {"neighbor": [{"id": local, "state": state}]}}

    return [one(local, *said) for local, said in heard.items()]


def _not_found() -> Answer:
    """No model of the server's has such a path."""
    return _error(404, "protocol", "invalid-value", "Not Found")


def _error(status: int, kind: str, tag: str, said: str) -> Answer:
    error = {"error-type": kind, "error-tag": tag, "error-message": said}
    return Answer(status, {"ietf-restconf:errors": {"error": [error]}})


def _counters(counted: Mapping[str, int]) -> dict[str, str]:
    """Counters as text of digits, as RFC 7951 writes numbers of 64 bits."""
    kinds = {"octets": "bytes", "pkts": "packets", "errors": "errors", "discards": "dropped"}
    return {
        f"{way}-{name}": str(counted[f"{key}_{what}"])
        for way, key in (("in", "rx"), ("out", "tx"))
        for name, what in kinds.items()
    }

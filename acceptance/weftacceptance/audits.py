"""Steps about Neutron's audit trail and weft's audit log: a tenant's act is in them, with who, when and from
where."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from weftacceptance.cloud import Answer, Json, LostError, soon
from weftacceptance.steps import PREFIX, Run, Tests, groups, rules, step, weft

_SPAN = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGENT = PREFIX + "agent"
_REQUEST = "x-openstack-request-id"
_ACTIONS = {"POST": "create", "PUT": "update", "DELETE": "delete"}


class _Acts:
    """Requests to Neutron, and the trail's events for each."""

    def __init__(self, run: Run) -> None:
        self._run, self.began = run, datetime.now(UTC)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[Answer, str]:
        """The answer, and the request's id."""
        answer = self._run.tenant.ask("network", method, path, body, {"User-Agent": _AGENT})
        sent = {name.lower(): value for name, value in answer.headers.items()}
        return answer, str(sent.get(_REQUEST, ""))

    def events(self, request: str) -> list[Json]:
        """A request's events: its beginning and its outcome; empty if it isn't in the trail."""
        found: list[Json] = []

        def are_there() -> bool:
            found[:] = [e for e in self._run.lab.trail() if e["initiator"].get("request_id") == request]
            return any(one["outcome"] == "success" for one in found)

        return found if request and soon(are_there) else []

    def is_logged(self, request: str, method: str, path: str) -> bool:
        """Whether the trail has this request of the tenant's, with its path, and that it succeeded."""
        events = self.events(request)
        return bool(events) and all(
            one["action"] == _ACTIONS[method]
            and one["requestPath"].split("?")[0] == path
            and one["initiator"]["id"] == self._run.tenant.user_id
            for one in events
        )


@step("sdn_filter_audit_trail", "network")
def sdn_filter_audit_trail(run: Run) -> Json:
    """A security group's rule is created, replaced (Neutron can't change rules) and deleted: each is logged."""
    acts, tests, path = _Acts(run), Tests(), "/v2.0/security-group-rules"
    group = groups(run.tenant).make(name=PREFIX + "trail")
    try:

        def make(port: int) -> tuple[str, str]:
            rule = {"security_group_id": group, "direction": "ingress", "protocol": "tcp"}
            ports = {"port_range_min": port, "port_range_max": port}
            answer, request = acts.ask("POST", path, {"security_group_rule": rule | ports})
            return str(answer.get("security_group_rule")["id"]), request

        first, made = make(8080)
        there = rules(run.tenant).find(first) is not None
        tests.add("create_rule_logged", there and acts.is_logged(made, "POST", path), "made, as Neutron says")
        second, other = make(8081)
        _, gone = acts.ask("DELETE", f"{path}/{first}")
        replaced = rules(run.tenant).find(first) is None and rules(run.tenant).find(second) is not None
        logged = acts.is_logged(other, "POST", path) and acts.is_logged(gone, "DELETE", f"{path}/{first}")
        tests.add("modify_rule_logged", replaced and logged, "replaced by another one")
        _, last = acts.ask("DELETE", f"{path}/{second}")
        away = rules(run.tenant).find(second) is None
        tests.add(
            "delete_rule_logged", away and acts.is_logged(last, "DELETE", f"{path}/{second}"), "deleted"
        )
        events = acts.events(made)
        fields = ("eventTime", "action", "outcome", "requestPath", "initiator", "target")
        whole = bool(events) and all(one.get(name) for one in events for name in fields)
        tests.add("audit_event_has_required_fields", whole, ", ".join(fields))
        tests.add("audit_endpoint_reachable", bool(events), "the trail is read")
    finally:
        groups(run.tenant).delete(group)
    tests.add("cleanup", groups(run.tenant).find(group) is None, "Neutron no longer has the group")
    shown = {"trail_id": "Neutron: CADF events of keystonemiddleware", "actor_field": "initiator.id"}
    return {**shown, "target_rule_id": first, "tests": tests}


@step("audit_logging_test", "security")
def audit_logging(run: Run) -> Json:
    """A tenant's acts are in Neutron's trail (who, when, from where, with what, in which region) and in weft's
    log, which is kept for as long as the site says."""
    tests = Tests()
    _entry(run, tests)
    _kept(run, tests)
    return {"success": tests.all_passed, "tests": tests}


def _entry(run: Run, tests: Tests) -> None:
    acts, path = _Acts(run), "/v2.0/security-groups"
    answer, request = acts.ask("POST", path, {"security_group": {"name": PREFIX + "trail"}})
    group = str(answer.get("security_group")["id"])
    try:
        if groups(run.tenant).find(group) is None:
            raise LostError("Neutron doesn't have the group")
        events = acts.events(request)
    finally:
        groups(run.tenant).delete(group)
    if not events:
        raise LostError("the act isn't in Neutron's audit trail")
    event, who = events[0], events[0]["initiator"]
    when = datetime.fromisoformat(event["eventTime"])
    recent = acts.began - timedelta(seconds=5) <= when <= datetime.now(UTC) + timedelta(seconds=5)
    named = event["action"] == "create" and event["requestPath"] == path
    tests.add("audit_log_entry_found", event["outcome"] in ("pending", "success"), "by the request's id")
    tests.add("audit_log_event_name_matches", named, f"{event['action']} {event['requestPath']}")
    tests.add("audit_log_event_time_in_window", recent, event["eventTime"])
    tests.add("audit_log_user_identity_present", who["id"] == run.tenant.user_id, who["id"])
    tests.add("audit_log_source_ip_present", bool(who["host"]["address"]), who["host"]["address"])
    tests.add("audit_log_user_agent_matches", who["host"]["agent"] == _AGENT, who["host"]["agent"])
    endpoints = run.operator.ask("identity", "GET", "/endpoints").get("endpoints")
    urls = [one["url"] for one in event["target"]["addresses"]]
    regions = {one["region_id"] for one in endpoints if one["url"] in urls}
    tests.add("audit_log_region_matches", regions == {"RegionOne"}, "of the event's endpoint in Keystone")
    source = event["target"]["typeURI"].startswith("service/network")
    tests.add("audit_log_event_source_matches", source, event["target"]["typeURI"])


def _kept(run: Run, tests: Tests) -> None:
    began, name = datetime.now(UTC), PREFIX + "logged"
    answer = run.tenant.ask("accelerator-pod", "POST", f"/v1/pods/{name}/release").status
    asked = f"/v1/audit-log?limit=50&user={run.tenant.user_id}"
    rows = weft(run.operator, asked)["entries"]
    mine = [one for one in rows if one["subject"] == name and one["action"] == "pod release"]
    fresh = [
        one
        for one in mine
        if datetime.fromisoformat(one["last_at"].replace("Z", "+00:00")) >= began - timedelta(seconds=5)
    ]
    logged = answer == 404 and bool(fresh)
    tests.add("audit_log_trail_logging_enabled", logged, "the act just made is in weft's log")
    kept = str(weft(run.operator, "/v1/site")["document"]["retention"]["audit_log"])
    seconds = int(kept[:-1]) * _SPAN[kept[-1]]
    tests.add("audit_log_retention_at_least_30_days", seconds >= 30 * 86_400, f"kept for {kept}")

"""The API's verbs, as plain data.

Answers are plain dicts as the API's schema (/openapi.json) says, not models: a client must understand a newer server
that knows more fields. Errors are the `WeftError`s that the server raised, by `weft.model.errortable`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from keystoneauth1.session import Session

from weft.client.bandwidth import BandwidthClient
from weft.client.nodes import part
from weft.client.transport import Json, Transport, listed, with_query
from weft.model.errors import NotFoundError, TemporaryError

PAGE = 500
"""Pods that are asked for at once."""
LONGEST_WAIT = 45.0
"""Seconds that one request waits; shorter than the time-outs of usual proxies."""


class Client(BandwidthClient):
    """The API's verbs, by the names of `weft.app.service.Service`; orders and answers are plain JSON.

    Args:
        session: signed in, or able to.
        url: address of the API, with or without `/v1`.
        timeout: seconds that a single answer may take, waiting on purpose not counted.
    """

    def __init__(self, session: Session, url: str, timeout: float = 60.0) -> None:
        self._transport = Transport(session, url, timeout)
        self.url = self._transport.url
        super().__init__(self._transport.ask)

    def plan_pod(self, order: Mapping[str, Any], remove: Sequence[str] = ()) -> Json:
        return self._ask("POST", "/v1/pods/plan" + _removing(remove), order)

    def apply_pod(
        self, order: Mapping[str, Any], remove: Sequence[str] = (), generation: int | None = None
    ) -> Json:
        """Args:
        generation: of which the pod must be; None: of any.
        """
        path = f"/v1/pods/{part('name', str(order['name']))}{_removing(remove)}"
        given = {"If-Match": f'"{generation}"'} if generation is not None else None
        return self._ask("PUT", path, order, headers=given)

    def create_pod(
        self, order: Mapping[str, Any], until: Sequence[str] = (), wait: float = 0.0, key: str | None = None
    ) -> Json:
        """The pod that was ordered; with `until`, as `show_pod`. If that answer is lost, the order stands.

        Args:
            key: your own name for this order, such as a UUID: after a lost answer, the same call returns the same pod.
        """
        query, wait = _waiting(until, wait)
        headers = None if key is None else {"Idempotency-Key": key}
        return self._ask("POST", f"/v1/pods{query}", order, extra_time=wait, headers=headers)

    def list_pods(
        self, all_projects: bool = False, limit: int | None = None, page: int = PAGE, **search: str | None
    ) -> list[Json]:
        """Pods by name, page after page.

        Args:
            limit: at most so many; None: all.
            page: so many at once.
            search: project, state, node, name, server, alarmed, marker (see the API's `/v1/pods`); None: not
                given.
        """
        asked = {"all_projects": "true" if all_projects else None, **search}
        given = {name: value for name, value in asked.items() if value is not None}
        found: list[Json] = []
        while True:
            wanted = page if limit is None else min(page, limit - len(found))
            answer = self._ask("GET", f"/v1/pods?{urlencode({**given, 'limit': wanted})}")
            found += answer["pods"]
            if answer.get("next") is None or len(found) == limit:
                return found
            given["marker"] = answer["next"]

    def show_pod(self, name: str, until: Sequence[str] = (), wait: float = 0.0) -> Json:
        """A pod; with `until`, once it is in one of these states (no change under way) or can't get there by itself, or
        as it is after `wait` seconds (at most `LONGEST_WAIT`).
        """
        query, wait = _waiting(until, wait)
        return self._ask("GET", f"/v1/pods/{part('name', name)}{query}", extra_time=wait)

    def wait_for_pod(self, name: str, until: Sequence[str] = ("READY",), timeout: float = 1800.0) -> Json:
        """The pod once it is in one of these states or can't get there by itself, or as it is after `timeout` seconds.

        Errors that may pass, such as a restart of the API, don't end the wait before its time.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                pod = self.show_pod(name, until, left)
            except TemporaryError as error:
                if left <= 0:
                    raise
                time.sleep(min(error.delay, left))
                continue
            name = pod["id"]
            if left <= 0 or _is_over(pod, until):
                return pod

    def pod_events(
        self,
        name: str,
        after: int = 0,
        wait: float = 0.0,
        gather: float | None = None,
        newest: int | None = None,
    ) -> list[Json]:
        """Events after a sequence; waits up to `wait` seconds (at most `LONGEST_WAIT`) for the first.

        Args:
            gather: seconds after the first in which further ones are collected; None: as the server does.
            newest: only the last so many of them, at most 1,000; None: all.
        """
        wait = min(wait, LONGEST_WAIT)
        given = {"after": after, "wait": f"{wait:g}"} | ({} if gather is None else {"gather": f"{gather:g}"})
        given |= {} if newest is None else {"newest": newest}
        return self._events(f"/v1/pods/{part('name', name)}", given, wait)

    def events(
        self,
        after: str | None = None,
        wait: float = 0.0,
        newest: int | None = None,
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """A page of events of all pods of the project: `events`, `position` to go on after, and if there are `more`.

        Args:
            after: `position` of an earlier page; None: the oldest that are kept.
            wait: seconds to wait for an event after it, at most `LONGEST_WAIT`.
            newest: only the last so many, at most 1,000; without `after`.
            all_projects: of all projects, or of `project` (operators).
        """
        wait = min(wait, LONGEST_WAIT)
        given = {"after": after, "newest": newest, "project": project, "wait": f"{wait:g}" if wait else None}
        path = with_query("/v1/events", **given, all_projects="true" if all_projects else None)
        return self._ask("GET", path, extra_time=wait)

    def pod_health(self, name: str) -> Json:
        return self._ask("GET", f"/v1/pods/{part('name', name)}/health")

    def node_health(self, node: str) -> Json:
        return self._ask("GET", f"/v1/nodes/{part('node', node)}/health")

    def node_healths(self, health: str | None = None) -> list[Json]:
        """All nodes, or those of one health."""
        return self._ask("GET", with_query("/v1/site/health/nodes", health=health))["nodes"]

    def part_history(self, serial: str) -> Json:
        return self._ask("GET", f"/v1/parts/{part('serial', serial)}/history")

    def site_health(self, by: str = "type") -> Json:
        return self._ask("GET", with_query("/v1/site/health", by=by))

    def use(
        self,
        since: str,
        until: str | None = None,
        by: str = "pod",
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """Node and accelerator hours of a period, of the caller's project or of all. Args: by: pod, project or type."""
        given = {"since": since, "until": until, "by": by, "project": project}
        every = "true" if all_projects else None
        return self._ask("GET", with_query("/v1/use", **given, all_projects=every))

    def webhooks(self, all_projects: bool = False) -> list[Json]:
        path = with_query("/v1/webhooks", all_projects="true" if all_projects else None)
        return self._ask("GET", path)["webhooks"]

    def show_webhook(self, name: str) -> Json:
        return self._ask("GET", f"/v1/webhooks/{part('name', name)}")

    def make_webhook(self, name: str, url: str, events: Sequence[str] = ()) -> Json:
        """A webhook with its `secret`, which is shown only once."""
        return self._ask("POST", "/v1/webhooks", {"name": name, "url": url, "events": list(events)})

    def delete_webhook(self, name: str) -> Json:
        """The webhook as it was."""
        return self._ask("DELETE", f"/v1/webhooks/{part('name', name)}")

    def act_on_webhook(self, name: str, act: str) -> Json:
        """Args: act: rotate (a new `secret`), enable, or test (`delivered`, or the `reason`)."""
        return self._ask("POST", f"/v1/webhooks/{part('name', name)}/{act}", {})

    def release_pod(self, name: str, until: Sequence[str] = (), wait: float = 0.0) -> Json:
        """The pod, being released; with `until`, as `show_pod`."""
        query, wait = _waiting(until, wait)
        return self._ask("POST", f"/v1/pods/{part('name', name)}/release{query}", extra_time=wait)

    def pod_receipt(self, name: str) -> Json:
        """The signed receipt of a pod's release."""
        return self._ask("GET", f"/v1/pods/{part('name', name)}/receipt")

    def pod_topology(self, name: str, format_: str) -> tuple[str, list[str]]:
        """A pod's topology as a file, and the servers that are left out, with the reason of each."""
        query = urlencode({"format": format_})
        found = self._transport.fetch(f"/v1/pods/{part('name', name)}/topology?{query}", "Weft-Left-Out")
        return found.text, [one for one in found.mark.split("; ") if one]

    def receipt_key(self) -> Json:
        return self._ask("GET", "/v1/receipt-key")

    def extend_pod(self, name: str, until: str) -> Json:
        return self._ask("POST", f"/v1/pods/{part('name', name)}/extend", {"until": until})

    def replace_node(
        self, name: str, node: str, by: str | None = None, generation: int | None = None, hold: bool = True
    ) -> Json:
        """Args:
        by: the node that takes its place; None: the service chooses.
        generation: of which the pod must be; None: of any.
        hold: hold the replaced node until it is accepted.
        """
        given = {"If-Match": f'"{generation}"'} if generation is not None else None
        path = f"/v1/pods/{part('name', name)}/replace"
        return self._ask("POST", path, _replacing(node, by, hold), headers=given)

    def report_node(self, name: str, node: str, reason: str) -> Json:
        """Report a node of a pod as faulty."""
        body = {"node": node, "reason": reason}
        return self._ask("POST", f"/v1/pods/{part('name', name)}/report", body)

    def plan_replacement(self, name: str, node: str, by: str | None = None, hold: bool = True) -> Json:
        return self._ask("POST", f"/v1/pods/{part('name', name)}/replace/plan", _replacing(node, by, hold))

    def retry_pod(self, name: str) -> Json:
        return self._ask("POST", f"/v1/pods/{part('name', name)}/retry")

    def abandon_pod(self, name: str, reason: str) -> Json:
        return self._ask("POST", f"/v1/pods/{part('name', name)}/abandon", {"reason": reason})

    def act_on_server(self, name: str, server: str, action: str) -> Json:
        """Args: action: reboot, reset, rescue or unrescue."""
        path = f"/v1/pods/{part('name', name)}/servers/{part('server', server)}/action"
        return self._ask("POST", path, {"action": action})

    def pod_console(self, name: str, server: str) -> Json:
        path = f"/v1/pods/{part('name', name)}/servers/{part('server', server)}/console"
        return self._ask("POST", path)

    def capacity(
        self, accelerator: str | None = None, level: str | None = None, duration: str | None = None
    ) -> Json:
        given = {"accelerator": accelerator, "level": level, "duration": duration}
        query = urlencode({k: v for k, v in given.items() if v is not None})
        return self._ask("GET", "/v1/capacity" + (f"?{query}" if query else ""))

    def reservations(self) -> list[Json]:
        """All reservations."""
        return listed(self._ask, "/v1/reservations", "reservations")

    def create_reservation(self, reservation: Mapping[str, Any]) -> Json:
        """Set nodes aside for a project; for operators."""
        return self._ask("POST", "/v1/reservations", reservation)

    def delete_reservation(self, name: str) -> Json:
        """End a reservation; for operators."""
        return self._ask("DELETE", f"/v1/reservations/{part('name', name)}")

    def show_site(self) -> Json:
        """Long tables of its document are in parts; `whole_site` has their rows."""
        return self._ask("GET", "/v1/site")

    def whole_site(self) -> Json:
        """The same with every row. Raises `NotFoundError` if another site comes into force meanwhile."""
        view = self.show_site()
        for table, value in view["document"].items():
            if isinstance(value, dict) and "parts" in value:
                parts = (self._ask("GET", f"/v1/site/parts/{part('part', d)}") for d in value["parts"])
                view["document"][table] = [row for part in parts for row in part["rows"]]
        return view

    def activate_site(
        self,
        document: Mapping[str, Any],
        base: int | None = None,
        parts: Mapping[str, bytes] | None = None,
    ) -> Json:
        """Activate a site; of its parts those are sent that the server hasn't.

        Args:
            base: generation that it was made from, 0 for the first; the server refuses an older one.
            parts: by the digests that the document has in place of rows (`weft.planning.site.parts.cut`).
        """
        headers = {} if base is None else {"If-Match": f'"{base}"'}
        if parts:
            self._send_parts(parts)
        return self._ask("PUT", "/v1/site", document, extra_time=600, headers=headers)

    def _send_parts(self, parts: Mapping[str, bytes]) -> None:
        asked = {"parts": list(parts)}
        for digest in self._ask("POST", "/v1/site/parts/missing", asked, extra_time=60)["missing"]:
            if digest in parts:
                self._ask("PUT", f"/v1/site/parts/{digest}", parts[digest])

    def site_generation(self) -> int:
        """Of the active site; 0: there is none yet."""
        try:
            return int(self.show_site()["generation"])
        except NotFoundError:
            return 0

    def plan_site(self, adopt: bool = False) -> Json:
        """Reads all that the site has in its clouds: give it time."""
        return self._ask("GET", "/v1/site/plan" + ("?adopt=true" if adopt else ""), extra_time=600)

    def apply_site(self, adopt: bool = False) -> Json:
        """The plan that is now carried out; `site_resources` shows how far it is."""
        return self._ask("POST", "/v1/site/apply", {"adopt": adopt}, extra_time=600)

    def site_resources(self) -> Json:
        return self._ask("GET", "/v1/site/resources")

    def site_events(self, after: int = 0, wait: float = 0.0) -> list[Json]:
        """Events after a sequence; waits up to `wait` seconds (at most `LONGEST_WAIT`) for the first."""
        wait = min(wait, LONGEST_WAIT)
        return self._events("/v1/site", {"after": after, "wait": f"{wait:g}"}, wait)

    def destroy_site(self) -> Json:
        return self._ask("POST", "/v1/site/destroy")

    def abandon_site(self, reason: str) -> Json:
        return self._ask("POST", "/v1/site/abandon", {"reason": reason})

    def site_receipt(self) -> Json:
        return self._ask("GET", "/v1/site/receipt")

    def pod_map(self, name: str) -> Json:
        """A pod's order, nodes, servers, ports and leaf ports: wanted beside seen, for operators."""
        return self._ask("GET", f"/v1/pods/{quote(name, safe='')}/map", extra_time=60)

    def search(self, text: str) -> Json:
        """What has exactly this value: a name, id, GUID, address, P_Key or VLAN."""
        return self._ask("GET", f"/v1/search?{urlencode({'text': text})}")

    def leaves(self) -> list[Json]:
        """The leaves of the site's fabrics that nodes are on."""
        return self._ask("GET", "/v1/site/leaves")["leaves"]

    def agent_certificates(self) -> list[Json]:
        """Certificates of the site's agents, and weft's own for them, as they were seen last."""
        return listed(self._ask, "/v1/site/certificates", "certificates")

    def site_impact(self, target: str, limit: int | None = None, place: bool = True) -> Json:
        """What an outage of a node, switch, link or rack would touch."""
        query = {"target": target, **({} if limit is None else {"limit": limit}), "place": str(place).lower()}
        return self._ask("GET", f"/v1/site/impact?{urlencode(query)}", extra_time=60)

    def fabric_readings(self) -> list[Json]:
        """What was read last of each fabric's managers; no manager is asked."""
        return self._ask("GET", "/v1/site/fabrics")["fabrics"]

    def compare_fabric(self, fabric: str | None = None) -> Json:
        return self._ask("GET", "/v1/site/differences" + _fabric(fabric), extra_time=120)

    def adopt_cabling(self, fabric: str | None = None) -> Json:
        return self._ask("POST", "/v1/site/adopt-cabling" + _fabric(fabric), extra_time=240)

    def list_networks(self, all_projects: bool = False) -> list[Json]:
        """All of them, page after page."""
        given = "true" if all_projects else None
        return listed(self._ask, "/v1/networks", "networks", limit=PAGE, all_projects=given)

    def show_network(self, name: str) -> Json:
        """A tenant's own network by name or id."""
        return self._ask("GET", f"/v1/networks/{part('network', name)}")

    def network_events(self, name: str, after: int = 0) -> list[Json]:
        return self._events(f"/v1/networks/{part('network', name)}", {"after": after})

    def abandon_network(self, name: str, reason: str) -> Json:
        return self._ask("POST", f"/v1/networks/{part('network', name)}/abandon", {"reason": reason})

    def network_receipt(self, name: str) -> Json:
        return self._ask("GET", f"/v1/networks/{part('network', name)}/receipt")

    def _events(self, of: str, query: Mapping[str, Any], wait: float = 0.0) -> list[Json]:
        """Page after page; only the first one is waited for."""
        answer = self._ask("GET", f"{of}/events?{urlencode(query)}", extra_time=wait)
        found = answer["events"]
        while answer.get("next") is not None:
            answer = self._ask("GET", f"{of}/events?after={answer['next']}")
            found += answer["events"]
        return found

    def audit(
        self, repair: bool = False, unknown_pods: Sequence[str] = (), findings: Sequence[str] | None = None
    ) -> Json:
        """Looks at everything outside: give it time. Args: findings: repair only these, by `key`; None: all."""
        if repair:
            body: dict[str, Any] = {"repair": True}
            if unknown_pods:
                body["unknown_pods"] = list(unknown_pods)
            if findings is not None:  # weft refuses an empty list
                body["findings"] = list(findings)
            return self._ask("POST", "/v1/audit", body, extra_time=1800)
        return self._ask("GET", "/v1/audit", extra_time=600)

    def accept_database(self) -> Json:
        """Looks at everything outside, as `audit` does."""
        return self._ask("POST", "/v1/audit/accept", extra_time=600)

    def audit_log(self, **search: Any) -> list[Json]:
        """Newest first. Args: the fields of `weft.model.views.AuditLogSearch`; None is left out."""
        query = urlencode({k: v for k, v in search.items() if v is not None})
        return self._ask("GET", "/v1/audit-log" + (f"?{query}" if query else ""))["entries"]


def _removing(nodes: Sequence[str]) -> str:
    return "?" + "&".join(f"remove={quote(n, safe='')}" for n in nodes) if nodes else ""


def _fabric(name: str | None) -> str:
    return "" if name is None else f"?fabric={quote(name, safe='')}"


def _waiting(until: Sequence[str], wait: float) -> tuple[str, float]:
    """The query that waits for one of these states, and for how many seconds; nothing for no states."""
    if not until:
        return "", 0.0
    wait = min(wait, LONGEST_WAIT)
    return "?" + urlencode({"until": ",".join(until), "wait": f"{wait:g}"}), wait


def _is_over(pod: Json, until: Sequence[str]) -> bool:
    """As the server sees it; a newer one may know states that this client doesn't, and they are waited for."""
    from weft.model.pod import PodState, wait_is_over  # with pydantic: most commands do without

    known = [PodState(state) for state in until if state in PodState.__members__]
    if pod["state"] in PodState.__members__ and len(known) == len(until):
        return wait_is_over(known, PodState(pod["state"]), bool(pod.get("changing_since")))
    return pod["state"] in until


def _replacing(node: str, by: str | None, hold: bool) -> Json:
    return {"node": node} | ({"with": by} if by is not None else {}) | ({} if hold else {"hold": False})

"""Pods: orders, changes and releases, and readings of one pod."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from weft.client.asking import LONGEST_WAIT, PAGE, Pages, events, matching, part, waiting
from weft.client.transport import Json, Transport
from weft.model.errors import TemporaryError


@dataclass(frozen=True, slots=True)
class Pods:
    """See `weft.client.client.Client`."""

    weft: Transport

    def plan(self, order: Mapping[str, Any], remove: Sequence[str] = ()) -> Json:
        """Plan an order without changing anything; for an existing pod, `change` has the difference.

        Args:
            remove: nodes that are to leave it.
        """
        return self.weft.ask("POST", "/v1/pods/plan" + _removing(remove), order)

    def apply(
        self, order: Mapping[str, Any], remove: Sequence[str] = (), generation: int | None = None
    ) -> Json:
        """Create the pod of an order, or change it to match; returns the pod.

        Args:
            generation: that the pod must have; None: any.
        """
        path = f"/v1/pods/{part('name', str(order['name']))}{_removing(remove)}"
        given = matching(generation)
        return self.weft.ask("PUT", path, order, headers=given)

    def create(
        self, order: Mapping[str, Any], until: Sequence[str] = (), wait: float = 0.0, key: str | None = None
    ) -> Json:
        """The pod that was ordered; with `until`, as `show`. If that answer is lost, the order stands.

        Args:
            key: your own name for this order, such as a UUID: after a lost answer, the same call returns the same pod.
        """
        query, wait = waiting(until, wait)
        headers = None if key is None else {"Idempotency-Key": key}
        return self.weft.ask("POST", f"/v1/pods{query}", order, extra_time=wait, headers=headers)

    def list(
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
        found, pages = list[Json](), Pages()
        while True:
            wanted = page if limit is None else min(page, limit - len(found))
            answer = self.weft.ask("GET", f"/v1/pods?{urlencode({**given, 'limit': wanted})}")
            found += answer["pods"]
            if (following := pages.after(answer)) is None or len(found) == limit:
                return found
            given["marker"] = following

    def show(self, name: str, until: Sequence[str] = (), wait: float = 0.0) -> Json:
        """A pod; with `until`, once it is in one of these states (no change under way) or can't get there by itself, or
        as it is after `wait` seconds (at most `LONGEST_WAIT`).
        """
        query, wait = waiting(until, wait)
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}{query}", extra_time=wait)

    def wait_for(self, name: str, until: Sequence[str] = ("READY",), timeout: float = 1800.0) -> Json:
        """The pod once it is in one of these states or can't get there by itself, or as it is after `timeout` seconds.

        Errors that may pass, such as a restart of the API, don't end the wait before its time.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            try:
                pod = self.show(name, until, left)
            except TemporaryError as error:
                if left <= 0:
                    raise
                time.sleep(min(error.delay, left))
                continue
            name = pod["id"]
            if left <= 0 or _is_over(pod, until):
                return pod

    def events(
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
        return events(self.weft, f"/v1/pods/{part('name', name)}", given, wait)

    def health(self, name: str) -> Json:
        """Whether a pod and its nodes are well, and what that follows from."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/health")

    def map(self, name: str) -> Json:
        """A pod's order, nodes, servers, ports and leaf ports: wanted beside seen, for operators."""
        return self.weft.ask("GET", f"/v1/pods/{quote(name, safe='')}/map", extra_time=60)

    def release(
        self, name: str, until: Sequence[str] = (), wait: float = 0.0, generation: int | None = None
    ) -> Json:
        """The pod, being released; with `until`, as `show`. Args: generation: that it must have; None: any."""
        query, wait = waiting(until, wait)
        path = f"/v1/pods/{part('name', name)}/release{query}"
        return self.weft.ask("POST", path, extra_time=wait, headers=matching(generation))

    def receipt(self, name: str) -> Json:
        """The signed receipt of a pod's release."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/receipt")

    def topology(self, name: str, format_: str) -> tuple[str, list[str]]:
        """A pod's topology as a file, and the servers that are left out, with the reason of each."""
        query = urlencode({"format": format_})
        found = self.weft.fetch(f"/v1/pods/{part('name', name)}/topology?{query}", "Weft-Left-Out")
        return found.text, [one for one in found.mark.split("; ") if one]

    def extend(self, name: str, until: str, generation: int | None = None) -> Json:
        """Extend the lease to a time (ISO 8601). Args: generation: that the pod must have; None: any."""
        path = f"/v1/pods/{part('name', name)}/extend"
        return self.weft.ask("POST", path, {"until": until}, headers=matching(generation))

    def replace_node(
        self, name: str, node: str, by: str | None = None, generation: int | None = None, hold: bool = True
    ) -> Json:
        """Replace a node of a pod; returns the pod.

        Args:
            by: the node that takes its place; None: the service chooses.
            generation: that the pod must have; None: any.
            hold: hold the replaced node until it is accepted.
        """
        given = matching(generation)
        path = f"/v1/pods/{part('name', name)}/replace"
        return self.weft.ask("POST", path, _replacing(node, by, hold), headers=given)

    def plan_replacement(self, name: str, node: str, by: str | None = None, hold: bool = True) -> Json:
        """Plan the replacement of a node without changing anything; `change` has the difference."""
        return self.weft.ask(
            "POST", f"/v1/pods/{part('name', name)}/replace/plan", _replacing(node, by, hold)
        )

    def report_node(self, name: str, node: str, reason: str) -> Json:
        """Report a node of a pod as faulty."""
        body = {"node": node, "reason": reason}
        return self.weft.ask("POST", f"/v1/pods/{part('name', name)}/report", body)

    def retry(self, name: str) -> Json:
        """Resume a FAILED pod where it failed."""
        return self.weft.ask("POST", f"/v1/pods/{part('name', name)}/retry")

    def abandon(self, name: str, reason: str) -> Json:
        """End a release that can't finish; its receipt is never clean; for operators."""
        return self.weft.ask("POST", f"/v1/pods/{part('name', name)}/abandon", {"reason": reason})

    def act_on_server(self, name: str, server: str, action: str) -> Json:
        """Ask for an action on a server. Args: action: reboot, reset, rescue or unrescue."""
        path = f"/v1/pods/{part('name', name)}/servers/{part('server', server)}/action"
        return self.weft.ask("POST", path, {"action": action})

    def console(self, name: str, server: str) -> Json:
        """A console of a server: serial for bare metal, graphical for virtual machines."""
        path = f"/v1/pods/{part('name', name)}/servers/{part('server', server)}/console"
        return self.weft.ask("POST", path)


def _removing(nodes: Sequence[str]) -> str:
    return "?" + "&".join(f"remove={quote(n, safe='')}" for n in nodes) if nodes else ""


def _is_over(pod: Json, until: Sequence[str]) -> bool:
    """Whether a wait is over, as the server decides it; states of a newer server are waited for."""
    from weft.model.pod import PodState, wait_is_over  # imports pydantic, which most commands don't need

    known = [PodState(state) for state in until if state in PodState.__members__]
    if pod["state"] in PodState.__members__ and len(known) == len(until):
        return wait_is_over(known, PodState(pod["state"]), bool(pod.get("changing_since")))
    return pod["state"] in until


def _replacing(node: str, by: str | None, hold: bool) -> Json:
    return {"node": node} | ({"with": by} if by is not None else {}) | ({} if hold else {"hold": False})

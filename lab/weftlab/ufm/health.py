"""What UFM says of the fabric's health and of itself: alarms, unhealthy ports, versions of its models."""

from __future__ import annotations

from typing import Any

from weftlab.ufm.dialect import Dialect
from weftlab.ufm.messages import Refused, Request, Response


class Health:
    """`alarms` and `unhealthy` are set by tests and by the control."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.alarms: list[tuple[str, str, str]] = []
        """Object, severity, what it is."""
        self.unhealthy: dict[str, str] = {}
        """`<guid>_<port>` -> condition."""

    def answer(self, method: str, path: str, request: Request) -> Response:
        """Answer a request below `/app` about health; 404 for others."""
        match method, path:
            case "GET", "/app/alarms":
                return Response(body=[self._alarm(i, *alarm) for i, alarm in enumerate(self.alarms, 1)])
            case "GET", "/app/unhealthy_ports":
                return Response(body=[_unhealthy(*port) for port in self.unhealthy.items()])
            case "PUT", "/app/unhealthy_ports":
                body = request.json()
                for port in body.get("ports", []):
                    self.unhealthy[port] = str(body.get("ports_policy", "UNHEALTHY"))
                return Response()
            case "GET", "/app/ufm_config":
                return Response(body={"ha_mode": "ha", "site_name": ""})
            case "GET", "/app/versioning":
                return Response(body={"ports_version": 1, "links_version": 1, "systems_version": 1})
            case _:
                raise Refused(404, "Not Found")

    def _alarm(self, number: int, name: str, severity: str, text: str) -> dict[str, Any]:
        """Two shapes: up to 6.16, and from 6.17 on."""
        common = {"id": number, "severity": severity, "description": text, "timestamp": "2026-11-22 10:00:00"}
        if self._dialect.new_alarms:
            return {**common, "object_name": name, "type": "Switch", "duration": "0 s", "more": {"x": 1}}
        return {**common, "related_object_name": name, "type": 352, "duration": 0}


def _unhealthy(port: str, condition: str) -> dict[str, Any]:
    guid, _, number = port.rpartition("_")
    return {
        "UnhealthyGUID": guid,
        "UnhealthyPort": number,
        "PeerGUID": "N/A",
        "Condition": condition,
        "State": "isolated",
    }

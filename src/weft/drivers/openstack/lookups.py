"""Names of the cloud's own offers (images, flavors, external networks) turned into ids, remembered for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from weft.drivers.openstack.session import Json, Project
from weft.model.errors import PermanentError

REMEMBERED = 60.0
"""Seconds."""


class Lookups:
    """Safe to use from many threads. What isn't found is `None` or a `PermanentError`, and never remembered."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._asking: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def image(self, project: Project, name: str) -> Json | None:
        """An image that the project may use, by name or id; the newest, if several bear the name."""

        def ask() -> Json | None:
            asked = f"look for image {name}"
            rows = project.image.listing(
                asked, "/images", "images", {"name": name, "status": "active", "sort": "created_at:desc"}
            )
            if rows:
                return rows[0]
            answer = project.image.ask(asked, "GET", f"/images/{name}", ok=(404,))
            return dict(answer.body) if answer.fine and answer.body.get("status") == "active" else None

        return self._remembered(("image", str(project.project_id), name), ask)

    def flavor(self, project: Project, name: str) -> Json | None:
        """A flavor that the project may use, by name or id, with its extra_specs."""

        def ask() -> Json | None:
            rows = project.compute.listing(f"look for flavor {name}", "/flavors/detail", "flavors")
            return next((f for f in rows if name in (f["name"], f["id"])), None)

        return self._remembered(("flavor", str(project.project_id), name), ask)

    def external_network(self, project: Project, name: str) -> Json | None:
        """An external network, by name or id."""

        def ask() -> Json | None:
            rows = project.network.listing(
                f"look for external network {name}",
                "/networks",
                "networks",
                {"router:external": "true", "fields": ["id", "name"]},
            )
            return next((n for n in rows if name in (n["name"], n["id"])), None)

        return self._remembered(("network", str(project.project_id), name), ask)

    def site_network(self, project: Project, name: str) -> Json | None:
        """A network of the service user's own project, by name or id."""

        def ask() -> Json | None:
            rows = project.network.listing(
                f"look for network {name}",
                "/networks",
                "networks",
                {"project_id": project.network.signed_in_project(), "fields": ["id", "name"]},
            )
            return next((n for n in rows if name in (n["name"], n["id"])), None)

        return self._remembered(("site network", name), ask)

    def id_of(self, what: Callable[[Project, str], Json | None], project: Project, name: str) -> str:
        """The id of what must be there; raises `PermanentError`."""
        row = what(project, name)
        if row is None:
            kind = what.__name__.replace("_", " ")
            raise PermanentError(
                f"look for {kind} {name}",
                "the cloud",
                f"project {project.project_id} has no such {kind}",
                "put it there, or order anew with another",
            )
        return str(row["id"])

    def _remembered(self, key: tuple[str, ...], ask: Callable[[], Json | None]) -> Json | None:
        with self._lock:
            asking = self._asking.setdefault(key, threading.Lock())
        with asking:  # who asks for the same waits for the first one's answer
            known = self._known.get(key)
            if known is not None and time.monotonic() - known[0] < REMEMBERED:
                return known[1]
            value = ask()
            if value is not None:
                self._known[key] = (time.monotonic(), value)
            return value

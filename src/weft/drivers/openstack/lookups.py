"""Names of images, flavors and external networks resolved to ids, with a cache."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import PermanentError, UnknownError
from weft.model.ordernames import OrderNames
from weft.ports.patience import waiting_at_most

REMEMBERED = 60.0
"""Seconds for which an answer is cached."""
KEPT = 2_000
"""Maximum number of cached answers; the oldest are evicted."""

PLACEMENT_MICROVERSION = "1.18"
"""Placement's microversion of Queens, the first that lists providers by a required trait; 1.14 brought the roots of
trees."""

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
T = TypeVar("T")


class Hypervisor(NamedTuple):
    """Nova's host, and the architecture of its processor; empty: unknown."""

    host: str
    architecture: str


def _names(rows: list[Json]) -> tuple[str, ...]:
    return tuple(sorted({row["name"] for row in rows if row.get("name")}))


class Lookups:
    """Cached lookups in one cloud. Thread-safe. A failed lookup is `None` or a `PermanentError`, and never cached.

    Args:
        closed: names of networks of the service user's project that no tenant may have a port on.
    """

    def __init__(self, closed: Collection[str] = ()) -> None:
        self._closed = frozenset(closed)
        self._known: dict[tuple[str, ...], tuple[float, Any]] = {}
        self._asking: dict[tuple[str, ...], threading.Lock] = {}
        self._lock = threading.Lock()

    def image(self, project: Project, name: str) -> Json | None:
        """An image that the project may use, by name or id; the newest, if several have the name."""

        def ask() -> Json | None:
            asked = f"find image {name}"
            rows = project.image.listing(
                asked, "/images", "images", {"name": name, "status": "active", "sort": "created_at:desc"}
            )
            # Glance accepts operators in a filter (`in:…`): only a row with exactly this name is meant.
            if named := [row for row in rows if row["name"] == name]:
                return named[0]
            if not UUID.fullmatch(name):  # Glance ids are always UUIDs; nothing else gets into the path
                return None
            answer = project.image.ask(asked, "GET", f"/images/{name}", ok=(404,))
            if answer.status == 404:
                if name in answer.text and answer.request_id:  # Glance's own page names the image
                    return None
                raise project.image.error(asked, answer, reading=True)
            if answer.body.get("id") != name.lower():
                raise UnknownError(asked, "image", f"it shows image {answer.body.get('id')} instead")
            return dict(answer.body) if answer.body.get("status") == "active" else None

        return self._remembered(("image", str(project.project_id), name), ask)

    def flavor(self, project: Project, name: str) -> Json | None:
        """A flavor that the project may use, by name or id, with its extra_specs."""

        def ask() -> Json | None:
            rows = project.compute.listing(f"find flavor {name}", "/flavors/detail", "flavors")
            return next((f for f in rows if name in (f["name"], f["id"])), None)

        return self._remembered(("flavor", str(project.project_id), name), ask)

    def names(self, project: Project) -> OrderNames:
        """Names of flavors and active images that the project may use, sorted."""

        def ask() -> OrderNames:
            flavors = project.compute.listing("list flavors", "/flavors", "flavors")
            images = project.image.listing("list images", "/images", "images", {"status": "active"})
            return OrderNames(flavors=_names(flavors), images=_names(images))

        return self._remembered(("names", str(project.project_id)), ask) or OrderNames()

    def external_network(self, project: Project, name: str) -> Json | None:
        """An external network, by id or name.

        Raises `PermanentError` if several have the name: any tenant can create an external network of that
        name, and share it with anyone.
        """
        rows = self._external_networks(project, name)
        if len(rows) > 1:
            ids = ", ".join(sorted(row["id"] for row in rows))
            then = "put the id of the right one in the site's external_network"
            raise PermanentError(
                f"find external network {name}", "the cloud", f"several have the name: {ids}", then
            )
        return rows[0] if rows else None

    def external_name(self, project: Project, name: str, network_id: str | None) -> str | None:
        """The name as given, if that network has it, else the id: a choice made once isn't replaced by
        another network of the same name.
        """
        rows = self._external_networks(project, name)
        return name if any(row["id"] == network_id for row in rows) else network_id

    def _external_networks(self, project: Project, name: str) -> list[Json]:
        def ask() -> list[Json] | None:
            params, only = {"fields": ["id", "name"]}, {"router:external": "true"}
            asked = f"find external network {name}"
            rows = project.network.listing(asked, "/networks", "networks", params, only=only)
            # Ids are unique; a name may equal another network's id.
            return [n for n in rows if n["id"] == name] or [n for n in rows if n["name"] == name] or None

        return self._remembered(("network", str(project.project_id), name), ask) or []

    def site_network(self, project: Project, name: str) -> Json | None:
        """A network of the service user's own project, by name or id."""

        def ask() -> Json | None:
            rows = project.network.listing(
                f"find network {name}",
                "/networks",
                "networks",
                {"fields": ["id", "name"]},
                only={"project_id": project.network.signed_in_project()},
            )
            return next((n for n in rows if name in (n["name"], n["id"])), None)

        return self._remembered(("site network", name), ask)

    def tenants_network(self, project: Project, name: str) -> Json | None:
        """`site_network`, for a tenant's port. Raises `PermanentError` if no tenant may have a port there: a
        site file may give a network's id, and only the cloud knows its name."""
        row = self.site_network(project, name)
        if row is not None and row["name"] in self._closed:
            raise PermanentError(
                f"create a port on network {name}",
                "the site",
                f"it is {row['name']}, which tenants must never reach",
                "put another network into storage.network of the site's cloud",
            )
        return row

    def forget_networks(self, answer: str) -> bool:
        """Forget cached networks whose ids are in an answer that says that they don't exist; False if there
        are none."""
        found = [
            key
            for key, (_, value) in list(self._known.items())
            if key[0] in ("network", "site network")
            and any(row["id"] in answer for row in (value if isinstance(value, list) else [value]))
        ]
        for key in found:
            self._known.pop(key, None)
        return bool(found)

    def hypervisors(self, own: Project) -> Mapping[str, Hypervisor]:
        """Resource provider id -> hypervisor, of the whole cloud."""

        def ask() -> Mapping[str, Hypervisor]:
            with waiting_at_most(
                None
            ):  # of the whole cloud, and cached: a single caller's time limit would be too short
                rows = own.compute.listing("list hypervisors", "/os-hypervisors/detail", "hypervisors")
            return {row["id"]: Hypervisor(place_of(row), _architecture(row)) for row in rows}

        return self._remembered(("hypervisors",), ask)

    def providers(self, own: Project, trait: str) -> frozenset[str]:
        """Ids of the resource providers that have a trait, and of the roots of their trees."""

        def ask() -> frozenset[str]:
            asked = f"list resource providers with trait {trait}"
            answer = own.placement.ask(
                asked,
                "GET",
                "/resource_providers",
                params={"required": trait},
                headers={"OpenStack-API-Version": f"placement {PLACEMENT_MICROVERSION}"},
                ok=(400,),
            )
            if answer.status == 400:
                if "No such trait" not in answer.text:
                    raise own.placement.error(asked, answer, reading=True)
                return frozenset()
            rows = own.placement.rows(asked, answer, "resource_providers")
            return frozenset(i for row in rows for i in (row["uuid"], row["root_provider_uuid"]))

        return self._remembered(("trait", trait), ask)

    def id_of(self, what: Callable[[Project, str], Json | None], project: Project, name: str) -> str:
        """The id of a required object; raises `PermanentError`."""
        row = what(project, name)
        if row is None:
            kind = what.__name__.replace("_", " ")
            raise PermanentError(
                f"find {kind} {name}",
                "the cloud",
                f"project {project.project_id} has no such {kind}",
                "create it, or order again with another",
            )
        return str(row["id"])

    def _remembered(self, key: tuple[str, ...], ask: Callable[[], T]) -> T:
        with self._lock:
            asking = self._asking.setdefault(key, threading.Lock())
        try:
            with asking:  # concurrent requests for the same wait for the first answer
                known = self._known.get(key)
                if known is not None and time.monotonic() - known[0] < REMEMBERED:
                    return known[1]
                value = ask()
                if value is not None:
                    self._remember(key, value)
                return value
        finally:
            with self._lock:  # tenants choose the names that are looked up: keep nothing of an expired answer
                if self._asking.get(key) is asking:
                    del self._asking[key]

    def _remember(self, key: tuple[str, ...], value: Any) -> None:
        with self._lock:
            self._known.pop(key, None)
            while len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = (time.monotonic(), value)


def place_of(hypervisor: Json) -> str:
    """The name a site uses: the Nova host, or for bare metal, of which a host has many, the node in
    Ironic."""
    if hypervisor.get("hypervisor_type") == "ironic":
        return str(hypervisor["hypervisor_hostname"])
    return str(hypervisor["service"]["host"])


def _architecture(row: Json) -> str:
    """`cpu_info` is an object from microversion 2.28 to 2.87, empty if the driver reports nothing."""
    info: object = row.get("cpu_info")
    return str(cast(Json, info).get("arch") or "") if isinstance(info, dict) else ""

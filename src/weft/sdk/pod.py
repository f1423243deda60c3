"""A pod as a resource of openstacksdk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from openstack.resource import Body, QueryParameters, Resource


class Pod(Resource):
    """A pod of accelerators. Fields as in `weft pod show -f json`; those that a list leaves out come with `get_pod`."""

    base_path = "/v1/pods"
    resource_key = None
    resources_key = "pods"
    allow_list = True
    allow_fetch = True

    _query_mapping = QueryParameters(
        "all_projects", "project", "state", "node", "server", "alarmed", "name", "limit", "marker"
    )

    project_id = Body("project_id")
    phase = Body("phase")
    state = Body("state")
    """One word: PENDING, PLACED, WIRING, BOOTING, VERIFYING, READY, DEGRADED, RELEASING, RELEASED, FAILED …"""
    reason = Body("reason")
    code = Body("code")
    params = Body("params", type=dict)
    since = Body("since")
    created_at = Body("created_at")
    nodes = Body("nodes", type=int)
    nodes_failing = Body("nodes_failing", type=int)
    fabric = Body("fabric")
    segment = Body("segment")
    lease_end = Body("lease_end")
    position = Body("position", type=int)
    expected_start = Body("expected_start")
    conditions = Body("conditions", type=list)
    created_by = Body("created_by")
    generation = Body("generation", type=int)
    changing_since = Body("changing_since")
    site = Body("site")
    cloud = Body("cloud")
    flavor = Body("flavor")
    vlan = Body("vlan", type=int)
    order = Body("order", type=dict)
    placed = Body("placed", type=list)
    spares = Body("spares", type=list)
    servers = Body("servers", type=list)
    ipus = Body("ipus", type=dict)
    resources = Body("resources", type=list)
    has_receipt = Body("has_receipt", type=bool)

    @classmethod
    def _get_next_link(
        cls,
        uri: str,
        response: Any,
        data: Any,
        marker: str | None,
        limit: str | None,
        total_yielded: int,
    ) -> tuple[str | None, Mapping[str, str | list[str] | int | None]]:
        """URL and query of the next page. `next` is a marker, which openstacksdk would take for a URL; the filters are
        kept.
        """
        following = data.get("next") if isinstance(data, Mapping) else None
        if not isinstance(following, str):
            return None, {}
        return uri, dict(parse_qsl(urlsplit(response.url).query)) | {"marker": following}

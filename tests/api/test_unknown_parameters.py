"""A parameter that a route doesn't have is refused by every route, after the caller's permission was checked."""

from __future__ import annotations

import json
import re

import pytest
from httpx import Client

from tests.helpers.doors import ORDER
from tests.helpers.paths import DOCS
from weft.testing.callers import by

DISCOVERY, PROBES = "discovery by other clients of OpenStack", "probes add parameters of their own"
TOPOGRAPH = "topograph sends parameters for other services, which differ between its versions"
OPEN = {
    **{"/": DISCOVERY, "/v1": DISCOVERY, "/healthz": PROBES, "/readyz": PROBES, "/metrics": PROBES},
    **{
        f"/v1/pods/{{name}}/topograph/{rest}": TOPOGRAPH
        for rest in ("v1/topology", "v2/topology", "v2/instances")
    },
}
"""Documents that take any parameter, and why."""
OF_NODES = {("POST", "/v1/nodes/{name}/checks"), ("GET", "/v1/nodes/{name}/checks/expected")}
"""Routes that accept only a node's token."""
OF_TENANTS = {("POST", "/v1/pods/{name}/bandwidth")}
"""Routes that an operator can't use for another project."""
ROUTES = [
    (method.upper(), path)
    for path, found in json.loads((DOCS / "schemas" / "openapi.json").read_text())["paths"].items()
    for method in found
]
JSON = {"Content-Type": "application/json"}
OLGA = by("operator")


@pytest.fixture
def named(api: Client) -> dict[str, str]:
    """The names to use in paths, by the beginning of the path."""
    hook = api.post("/v1/webhooks", json={"name": "ops", "url": "https://hooks.example.org/x"}).json()["id"]
    pod = api.post("/v1/pods", json=ORDER).json()["id"]
    return {"/v1/webhooks/": hook, "/v1/nodes/": "gpu01", "/v1/pods/": pod}


def test_unknown_parameter_is_refused_by_every_route(api: Client, named: dict[str, str]) -> None:
    """Before a body is read or anything is changed."""
    token = api.post("/v1/nodes/gpu01/check-tokens", json={}, headers=OLGA).json()["token"]
    revision, taken = api.get("/v1/webhooks/ops").json()["revision"], list[str]()
    for method, path in (route for route in ROUTES if route[1] not in OPEN):
        name = next((name for begin, name in named.items() if path.startswith(begin)), "nix")
        filled = re.sub(r"\{\w+\}", "nix", path.replace("{name}", name, 1))
        node = {"X-Auth-Token": "", "Authorization": f"Bearer {token}"}
        headers = node if (method, path) in OF_NODES else {} if (method, path) in OF_TENANTS else OLGA
        body = {"content": b"{}"} if method in ("POST", "PUT") else {}
        answer = api.request(method, filled, params={"nosuch": "1"}, headers={**JSON, **headers}, **body)
        refused = answer.headers.get("content-type") == "application/problem+json"
        fields = [one["field"] for one in answer.json().get("errors", ())] if refused else []
        if (answer.status_code, fields) != (400, ["nosuch"]):
            taken.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
    assert not taken, "\n".join(taken)
    assert api.get(f"/v1/pods/{named['/v1/pods/']}").json()["state"] == "PLACED", "nothing was released"
    assert api.get("/v1/webhooks/ops").json()["revision"] == revision
    assert {path for _, path in ROUTES} >= OPEN.keys()


def test_unknown_parameter_is_404_for_callers_who_may_not_see_the_resource(
    api: Client, named: dict[str, str]
) -> None:
    """The route's parameters aren't listed; the answer is that for a pod or webhook that doesn't exist."""
    for begin, rest in (("pods", "/receipt"), ("pods", "/health"), ("webhooks", "")):
        path = f"/v1/{begin}/{named[f'/v1/{begin}/']}{rest}?nosuch=1"
        assert api.get(path, headers=by("b-member")).status_code == 404


def test_parameter_with_a_nul_character_is_refused(api: Client, named: dict[str, str]) -> None:
    """Before the audit log would have to store it; what is held stays held."""
    api.put("/v1/nodes/gpu02/hold", json={"what": "burn-in"}, headers=OLGA)
    for method, path, field in (
        ("DELETE", "/v1/nodes/gpu02/hold?what=burn-in%00", "what"),
        ("DELETE", "/v1/nodes/gpu02/reports?project=a%00b", "project"),
        ("GET", "/v1/site/impact?target=gpu01%00", "target"),
    ):
        answer = api.request(method, path, headers=OLGA)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field), answer.text
        assert answer.json()["errors"][0]["allowed"] == "text without NUL characters"
    assert len(api.get("/v1/holds", headers=OLGA).json()["holds"]) == 1

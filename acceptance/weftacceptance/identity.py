"""Steps about identities, for the suites iam, control-plane and security: Keystone's own API."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from weftacceptance.cloud import Caller, Json, LostError, pause, soon
from weftacceptance.steps import PREFIX, Run, Tests, groups, networks, projects, skip, step, users

_SHORT = timedelta(hours=1)
_BRIEF = timedelta(seconds=3)
"""Lifetime of a credential whose end the step waits for."""
_LONGEST = 43_200
"""Longest lifetime in seconds of a credential that the suite calls short-lived."""


def _role(caller: Caller, name: str) -> str:
    rows = caller.ask("identity", "GET", f"/roles?name={name}").get("roles")
    if len(rows) != 1:
        raise LostError(f"Keystone shows {len(rows)} roles named {name}")
    return rows[0]["id"]


def make_user(run: Run, name: str, role: str = "member") -> Json:
    """A user of the tenant's project: id, name, password."""
    admin, password = run.operator, secrets.token_urlsafe(16)
    project = run.tenant.project_id
    key = users(admin).make(
        name=PREFIX + name, password=password, domain_id="default", default_project_id=project
    )
    path = f"/projects/{project}/users/{key}/roles/{_role(admin, role)}"
    if not admin.ask("identity", "PUT", path).is_done or admin.ask("identity", "HEAD", path).status != 204:
        raise LostError(f"the user doesn't have the role {role} in the project")
    return {"id": key, "name": PREFIX + name, "password": password}


def make_key(run: Run, user: Json, name: str, **more: object) -> Json:
    """An application credential, made with the user's own password: id and secret."""
    caller = run.cloud.login(user["id"], user["password"], run.tenant.project_id)
    given = {"application_credential": {"name": PREFIX + name, **more}}
    path = f"/users/{user['id']}/application_credentials"
    found = caller.ask("identity", "POST", path, given).get("application_credential")
    return {"id": found["id"], "secret": found["secret"]}


def who_is(caller: Caller) -> Json:
    """User and project of a caller's token, as Keystone reports them. Raises `LostError`."""
    token = caller.ask("identity", "GET", "/auth/projects")
    if token.status in (401, 403, 404):
        raise LostError(f"the credentials are refused: {token.status}")
    return {"user": caller.user_id, "projects": [one["id"] for one in token.get("projects")]}


def is_refused(caller: Caller) -> bool:
    """Whether Keystone refuses the caller's credentials; any other failure is no refusal."""
    return caller.ask("identity", "GET", "/auth/projects").status == 401


def key_of(run: Run, user: Json, key: str) -> Json | None:
    """An application credential as an administrator reads it; None if it doesn't exist."""
    got = run.operator.ask("identity", "GET", f"/users/{user['id']}/application_credentials/{key}")
    return None if got.status == 404 else got.get("application_credential")


def _delete_user(run: Run, user: Json) -> bool:
    users(run.operator).delete(user["id"])
    return users(run.operator).find(user["id"]) is None


@step("create_user", "iam")
def create_user(run: Run) -> Json:
    """Creates a user with an application credential; both are read back. Raises `LostError` if one doesn't exist."""
    user = make_user(run, "user")
    key = make_key(run, user, "key")
    found, credential = users(run.operator).find(user["id"]), key_of(run, user, key["id"])
    if found is None or not found.get("enabled") or credential is None:
        raise LostError("the user or its credential can't be read back")
    run.kept |= {"user": user, "key": key}
    return {"username": found["name"], "access_key_id": credential["id"]}


@step("test_credentials", "iam")
def test_credentials(run: Run) -> Json:
    """Signs in with the new credential, and reads as its user."""
    user, key, tests = run.need("user"), run.need("key"), Tests()
    caller = run.cloud.key(key["id"], key["secret"])
    who = who_is(caller)
    tests.add("identity", who["user"] == user["id"], "the token is the new user's")
    rows = networks(caller).rows()
    tests.add(
        "access", run.tenant.project_id in who["projects"], f"lists {len(rows)} networks of its project"
    )
    return {"account_id": run.tenant.project_id, "tests": tests}


@step("teardown", "iam")
def delete_user(run: Run) -> Json:
    """Deletes the user; passes if Keystone has neither it nor its credential afterwards."""
    user, key, tests = run.need("user"), run.need("key"), Tests()
    tests.add("user_gone", _delete_user(run, user), "Keystone no longer has the user")
    tests.add("key_refused", is_refused(run.cloud.key(key["id"], key["secret"])), "its credential is refused")
    return {"tests": tests}


@step("check_api", "control-plane")
def check_api(run: Run) -> Json:
    """Asks Keystone who the caller is, and each API of the cloud for a list."""
    tests, tenant = Tests(), run.tenant
    who = who_is(tenant)
    tests.add("identity", tenant.project_id in who["projects"], "the token is of the project")
    for service, path, member in (
        ("network", "/v2.0/networks", "networks"),
        ("image", "/v2/images", "images"),
        ("compute", "/servers", "servers"),
        ("accelerator-pod", "/v1/pods", "pods"),
    ):
        rows = tenant.ask(service, "GET", path).get(member)
        tests.add(service, isinstance(rows, list), "answers with a list")
    return {"account_id": tenant.project_id, "tests": tests}


@step("create_access_key", "control-plane")
def create_access_key(run: Run) -> Json:
    """Creates a service account with an application credential, read back. Raises `LostError`."""
    user = make_user(run, "service")
    key = make_key(run, user, "key")
    found = key_of(run, user, key["id"])
    if found is None:
        raise LostError("the credential can't be read back")
    run.kept |= {"user": user, "key": key}
    return {"access_key_id": found["id"], "username": user["name"]}


@step("test_access_key", "control-plane")
def test_access_key(run: Run) -> Json:
    """Signs in with the service account's credential; user and project of the token."""
    user, key, project = run.need("user"), run.need("key"), run.tenant.project_id
    who = who_is(run.cloud.key(key["id"], key["secret"]))
    same = who["user"] == user["id"] and project in who["projects"]
    return {"authenticated": same, "identity": who["user"], "account_id": project}


@step("disable_access_key", "control-plane")
def disable_access_key(run: Run) -> Json:
    """Disables the service account, and so its credential."""
    user = run.need("user")
    users(run.operator).change(user["id"], "PATCH", enabled=False)
    found = users(run.operator).find(user["id"])
    is_off = found is not None and found.get("enabled") is False
    return {"status": "Inactive" if is_off else "Active", "access_key_id": run.need("key")["id"]}


@step("verify_key_rejected", "control-plane")
def verify_key_rejected(run: Run) -> Json:
    """Signs in with the deleted credential; passes if Keystone answers 401."""
    key = run.need("key")
    return {"rejected": is_refused(run.cloud.key(key["id"], key["secret"])), "error_code": "401"}


@step("delete_access_key", "control-plane")
def delete_access_key(run: Run) -> Json:
    """Deletes the credential and its user; passes if Keystone has neither afterwards."""
    user, key, tests = run.need("user"), run.need("key"), Tests()
    tests.add("key_there", key_of(run, user, key["id"]) is not None, "Keystone has the credential")
    run.operator.ask("identity", "DELETE", f"/users/{user['id']}/application_credentials/{key['id']}")
    tests.add("key_gone", key_of(run, user, key["id"]) is None, "Keystone no longer has the credential")
    tests.add("user_gone", _delete_user(run, user), "nor its user")
    return {"tests": tests}


@step("create_tenant", "control-plane")
def create_tenant(run: Run) -> Json:
    """Creates a project, read back. Raises `LostError` if it doesn't exist."""
    key = projects(run.operator).make(name=PREFIX + "tenant", domain_id="default", description="acceptance")
    found = projects(run.operator).find(key)
    if found is None:
        raise LostError("the project can't be read back")
    run.kept["project"] = key
    return {"tenant_name": found["name"], "tenant_id": found["id"]}


@step("list_tenants", "control-plane")
def list_tenants(run: Run) -> Json:
    """Lists projects; whether the new one is among them."""
    key, rows = run.need("project"), projects(run.operator).rows()
    there = any(one["id"] == key for one in rows)
    return {"found_target": there, "target_tenant": PREFIX + "tenant", "count": len(rows)}


@step("get_tenant", "control-plane")
def get_tenant(run: Run) -> Json:
    """Reads the project by its id. Raises `LostError`."""
    found = projects(run.operator).find(run.need("project"))
    if found is None:
        raise LostError("Keystone doesn't have the project")
    return {
        "tenant_name": found["name"],
        "tenant_id": found["id"],
        "description": found.get("description", ""),
    }


@step("delete_tenant", "control-plane")
def delete_tenant(run: Run) -> Json:
    """Deletes the project; passes if it existed and doesn't any more."""
    key, tests = run.need("project"), Tests()
    tests.add("project_there", projects(run.operator).find(key) is not None, "Keystone has the project")
    projects(run.operator).delete(key)
    tests.add("project_gone", projects(run.operator).find(key) is None, "Keystone no longer has the project")
    return {"tests": tests}


@step("sa_credential_test", "security")
def sa_credential(run: Run) -> Json:
    """A service account outside of the cloud, with an application credential."""
    user = make_user(run, "ci")
    try:
        key = make_key(run, user, "ci")
        who = who_is(run.cloud.key(key["id"], key["secret"]))
        return {
            "authenticated": who["user"] == user["id"],
            "credential_type": "application_credential",
            "credential_source": "long_lived_key",
            "identity": who["user"],
        }
    finally:
        users(run.operator).delete(user["id"])


@step("short_lived_credentials_test", "security")
def short_lived_credentials(run: Run) -> Json:
    """A workload's application credential and a node's token each have an end, which is read back; a credential past
    its end is refused.
    """
    user, tests = make_user(run, "brief"), Tests()
    try:
        ends = datetime.now(UTC) + _SHORT
        key = make_key(run, user, "hour", expires_at=ends.strftime("%Y-%m-%dT%H:%M:%S.%f"))
        found = key_of(run, user, key["id"]) or {}
        ttl = _seconds(found.get("expires_at"))
        tests.add("workload_credential_has_expiry", ttl is not None, "as Keystone reads it back")
        works = who_is(run.cloud.key(key["id"], key["secret"]))["user"] == user["id"]
        within = ttl is not None and 0 < ttl <= _LONGEST and works and _ends(run, user)
        tests.add("workload_credential_ttl_within_bound", within, "an hour; one that has ended is refused")
        node_ttl = _node_token_ttl(run)
        tests.add("node_credential_has_expiry", node_ttl is not None, "as weft lists it")
        tests.add(
            "node_credential_ttl_within_bound", node_ttl is not None and 0 < node_ttl <= _LONGEST, "an hour"
        )
        seconds = {"node_credential_ttl_seconds": node_ttl or 0, "workload_credential_ttl_seconds": ttl or 0}
        return {**seconds, "max_ttl_seconds": _LONGEST, "tests": tests}
    finally:
        users(run.operator).delete(user["id"])


def _seconds(text: object) -> int | None:
    if not isinstance(text, str) or not text:
        return None
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())


def _ends(run: Run, user: Json) -> bool:
    """Whether a credential is accepted before its end and refused after it."""
    ends = datetime.now(UTC) + _BRIEF
    key = make_key(run, user, "brief", expires_at=ends.strftime("%Y-%m-%dT%H:%M:%S.%f"))
    if is_refused(run.cloud.key(key["id"], key["secret"])):
        return False
    pause(max(0.0, (ends - datetime.now(UTC)).total_seconds()))
    return soon(lambda: is_refused(run.cloud.key(key["id"], key["secret"])), 5)


def _node_token_ttl(run: Run) -> int | None:
    pod = "accelerator-pod"
    node = run.operator.ask(pod, "GET", "/v1/nodes").get("nodes")[0]["name"]
    until = (datetime.now(UTC) + _SHORT).isoformat()
    made = run.operator.ask(pod, "POST", f"/v1/nodes/{node}/check-tokens", {"until": until}).get("id")
    try:
        rows = run.operator.ask(pod, "GET", f"/v1/check-tokens?node={node}").get("tokens")
        mine = [one for one in rows if one["id"] == made]
        return _seconds(mine[0]["expires_at"]) if mine else None
    finally:
        run.operator.ask(pod, "DELETE", f"/v1/check-tokens/{made}")


@step("least_privilege_test", "security")
def least_privilege(run: Run) -> Json:
    """A reader of a project reads there, changes nothing, and sees nothing of another project."""
    tests, reader = Tests(), run.reader
    mine = networks(run.tenant).make(name=PREFIX + "least")
    theirs = networks(run.other).make(name=PREFIX + "least")
    try:
        seen = networks(reader).find(mine) is not None
        tests.add("policy_dimensions_allowed_action_succeeds", seen, "reads a network of its project")
        changed = networks(reader).change(mine, name=PREFIX + "changed").status
        still = (networks(run.tenant).find(mine) or {}).get("name")
        is_kept = changed in (403, 404) and still == PREFIX + "least"
        tests.add("policy_dimensions_user_based", is_kept, "may not change it, which its member may")
        hidden = networks(reader).find(theirs) is None and networks(run.other).find(theirs) is not None
        tests.add("policy_dimensions_resource_based", hidden, "another project's network isn't there for it")
        _out_of_scope(run, tests)
        return {"test_identity": reader.user_id, "allowed_resource": mine, "tests": tests}
    finally:
        networks(run.tenant).delete(mine)
        networks(run.other).delete(theirs)


def _out_of_scope(run: Run, tests: Tests) -> None:
    """As a reader, tries to create what a reader may not; the project's member checks that it doesn't exist."""
    reader, name, pod = run.reader, PREFIX + "denied", "accelerator-pod"
    order = {"name": name, "nodes": {"count": 1, "flavor": "gpu8", "image": "tiny"}}
    answer = reader.ask(pod, "POST", "/v1/pods", order).status
    made = [one for one in run.tenant.ask(pod, "GET", "/v1/pods").get("pods") if one["name"] == name]
    tests.add("out_of_scope_compute_denied", answer == 403 and not made, f"ordering a pod: {answer}")
    answer = reader.ask("network", "POST", "/v2.0/security-groups", {"security_group": {"name": name}}).status
    made = [one for one in groups(run.tenant).rows() if one["name"] == name]
    tests.add("out_of_scope_network_denied", answer == 403 and not made, f"making a security group: {answer}")
    image = {"name": name, "disk_format": "raw", "container_format": "bare"}
    answer = reader.ask("image", "POST", "/v2/images", image).status
    made = run.tenant.ask("image", "GET", f"/v2/images?name={name}").get("images")
    tests.add("out_of_scope_storage_denied", answer == 403 and not made, f"making an image: {answer}")


@step("preflight", "security")
def preflight(run: Run) -> Json:
    """The project of the tenant's token; empty if Keystone doesn't accept it."""
    return {"account_id": run.tenant.project_id} if who_is(run.tenant) else {}


@step("teardown", "security")
def security_teardown(run: Run) -> Json:
    """Passes if no user of these steps is left."""
    left = [one["name"] for one in users(run.operator).rows() if one["name"].startswith(PREFIX)]
    return {"success": not left, **({"error": f"users are left: {', '.join(left)}"} if left else {})}


skip("the site has no object storage that weft knows of", "s3_object_lifecycle")
skip("Keystone can require further factors; the lab's doesn't", "mfa_enforcement")
skip("no identity provider with OpenID Connect in the lab", "oidc_user_auth_test")
skip(
    "no key manager in the lab",
    "kms_encryption_options_test",
    "centralized_kms_test",
    "customer_managed_key_test",
)

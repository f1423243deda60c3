#!/usr/bin/env bash
# Signing in with an application credential that was deleted is HTTP 404, not 401: to a client it looks like a wrong address.
#
# Version:   keystone 30.0.0, in this process, on SQLite
# Expected:  401, as with a wrong secret or a user who doesn't exist: "not accepted, sign in otherwise".
# Behaviour: 404 "Could not find Application Credential". keystoneauth raises NotFound instead of Unauthorized, so programs
#            that handle a refused sign-in don't, and take the service's URL for wrong. (An unknown project is 401.)
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install keystone==30.0.0 >pip.log 2>&1 || { cat pip.log; exit 1; }
cat >keystone.conf <<END
[DEFAULT]
use_stderr = false
log_file = $tmp/keystone.log
[database]
connection = sqlite:///$tmp/keystone.db
[fernet_tokens]
key_repository = $tmp/tokens
[fernet_receipts]
key_repository = $tmp/tokens
[credential]
key_repository = $tmp/credentials
END
manage() { venv/bin/keystone-manage --config-file "$tmp/keystone.conf" "$@" >manage.log 2>&1 || { cat manage.log; exit 1; }; }
manage db_sync
manage fernet_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
manage credential_setup --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
manage bootstrap --bootstrap-password lab
OS_KEYSTONE_CONFIG_DIR=$tmp venv/bin/python -W ignore - <<'END'
import json

from keystone.server.wsgi import initialize_public_application
from webob import Request

app = initialize_public_application()


def call(method, path, body=None, token=None):
    request = Request.blank(path, method=method, headers={"X-Auth-Token": token} if token else {})
    if body is not None:
        request.body, request.content_type = json.dumps(body).encode(), "application/json"
    return request.get_response(app)


def sign_in(method, values, **scope):
    identity = {"methods": [method], method: values}
    return call("POST", "/v3/auth/tokens", {"auth": {"identity": identity, **scope}})


def password(name, project):
    user = {"name": name, "domain": {"id": "default"}, "password": "lab"}
    return sign_in("password", {"user": user}, scope={"project": {"name": project, "domain": {"id": "default"}}})


admin = password("admin", "admin")
token, mine = admin.headers["X-Subject-Token"], f"/v3/users/{admin.json['token']['user']['id']}/application_credentials"
made = call("POST", mine, {"application_credential": {"name": "robot"}}, token).json["application_credential"]
robot = {"id": made["id"], "secret": made["secret"]}
found = {
    "valid": sign_in("application_credential", robot).status_int,
    "wrong secret": sign_in("application_credential", {**robot, "secret": "other"}).status_int,
    "unknown user": password("unknown", "admin").status_int,
    "unknown project": password("admin", "unknown").status_int,
}
assert call("DELETE", f"{mine}/{made['id']}", token=token).status_int == 204
found["deleted credential"] = sign_in("application_credential", robot).status_int
print(", ".join(f"{what}: {status}" for what, status in found.items()))
wanted = {"valid": 201, "wrong secret": 401, "unknown user": 401, "unknown project": 401, "deleted credential": 404}
assert found == wanted, "the behaviour has changed"
END

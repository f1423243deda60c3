#!/usr/bin/env bash
# DELETE /allocations/{consumer} frees a provider's inventory without changing the provider's generation.
#
# Version:   openstack-placement 16.0.0, in this process, on SQLite
# Expected:  the generation of a resource provider changes with each change of its inventory, traits or allocations, so that
#            what was read of it stands as long as the generation does. Writing allocations changes it, also writing none
#            (PUT with an empty "allocations"): deleting them changes it too.
# Behaviour: after the DELETE the usage is 0 and the generation is what it was. A cache of usages by generation, or a PUT with
#            the generation of before the deletion, doesn't notice it.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install "openstack-placement==16.0.0" "oslo.config==10.7.0" "oslo.db==18.1.1" "oslo.policy==6.0.1" \
    "sqlalchemy==2.1.9" "webob==1.8.11" >pip.log 2>&1 || { cat pip.log; exit 1; }
cat >placement.conf <<END
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///$tmp/placement.db
sync_on_startup = true
END
OS_PLACEMENT_CONFIG_DIR=$tmp venv/bin/python - <<'END'
import json
import logging

from placement.wsgi import init_application
from webob import Request

app = init_application()
logging.disable(logging.CRITICAL)
HOST, CONSUMER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def call(method, path, body=None):
    headers = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
    request = Request.blank(path, method=method, headers=headers)
    if body is not None:
        request.body, request.content_type = json.dumps(body).encode(), "application/json"
    answer = request.get_response(app)
    assert answer.status_int < 300, (method, path, answer.status, answer.text)
    return answer.json if answer.body else None


def look():
    found = call("GET", f"/resource_providers/{HOST}/usages")
    return found["resource_provider_generation"], found["usages"].get("VCPU", 0)


call("POST", "/resource_providers", {"name": "host1", "uuid": HOST})
inventory = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
call("PUT", f"/resource_providers/{HOST}/inventories", inventory)
four = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
four["allocations"] = {HOST: {"resources": {"VCPU": 4}}}
steps = [("inventory", look())]
call("PUT", f"/allocations/{CONSUMER}", four)
steps.append(("PUT of 4", look()))
call("DELETE", f"/allocations/{CONSUMER}")
steps.append(("DELETE", look()))
call("PUT", f"/allocations/{CONSUMER}", four)
steps.append(("PUT of 4", look()))
held = call("GET", f"/allocations/{CONSUMER}")["consumer_generation"]
call("PUT", f"/allocations/{CONSUMER}", {**four, "allocations": {}, "consumer_generation": held})
steps.append(("PUT of none", look()))
print("after: (generation, VCPUs used):", *(f"{what}: {seen};" for what, seen in steps))
(_, first), (_, put), (_, deleted), (_, again), (_, emptied) = steps
assert put == (first[0] + 1, 4) and deleted == (put[0], 0), "the behaviour has changed"
assert again == (deleted[0] + 1, 4) and emptied == (again[0] + 1, 0), "the behaviour has changed"
END

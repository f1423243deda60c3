#!/usr/bin/env bash
# GET /v3/auth/system fails with HTTP 500 for every federated user who is in a group: the resource calls a method that no
# manager or driver has. Clients that ask what a user may choose get no answer.
#
# Version:   keystone 30.0.0
# Expected:  the groups' grants on the system, or none; HTTP 200.
# Behaviour: AttributeError: 'Assignment' object has no attribute 'list_system_grants_for_groups'; HTTP 500. The manager
#            has list_system_grants_for_group, of one group. Seen with WebSSO (mod_auth_openidc) and a mapping to a group.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/env"
"$tmp/env/bin/pip" install -q keystone==30.0.0
"$tmp/env/bin/python" -W ignore - <<'PY'
import inspect
from keystone.api import auth
from keystone.assignment.backends import base, sql
from keystone.assignment.core import Manager

name = "list_system_grants_for_groups"
called = name in inspect.getsource(auth)
there = {one.__module__: hasattr(one, name) for one in (Manager, base.AssignmentDriverBase, sql.Assignment)}
print("keystone.api.auth calls it:", called)
for module, has in there.items():
    print(f"{module} has it:", has)
if not called or any(there.values()):
    raise SystemExit("the behaviour has changed")
PY

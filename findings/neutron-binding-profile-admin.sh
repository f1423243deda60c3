#!/usr/bin/env bash
# By Neutron's default policy an administrator may read a port's binding:profile, but not set it: only the role service may.
#
# Version:   neutron 29.0.0, oslo.policy 6.0.1
# Expected:  admin may set whatever a service user may; so Terraform's `binding { profile }` or a script with admin rights can
#            cable a bare-metal port (local_link_information), as it could with the older default rule:admin_only.
# Behaviour: create_port:binding:profile and update_port:binding:profile are refused to admin and allowed to the role service;
#            binding:host_id in the same body is allowed to both.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check neutron==29.0.0 oslo.policy==6.0.1
"$tmp/v/bin/python" - 2>/dev/null <<'PY'
from neutron.conf import policies
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

conf = cfg.ConfigOpts()
conf([], project="neutron")
enforcer = policy.Enforcer(conf)
enforcer.register_defaults(policies.list_rules())
port = {"project_id": "p1"}
found = {}
for role in ("admin", "service"):
    who = RequestContext(user_id="u1", project_id="p1", roles=[role])
    for rule in ("get_port:binding:profile", "create_port:binding:profile", "update_port:binding:profile", "create_port:binding:host_id"):
        found[role, rule] = enforcer.enforce(rule, port, who)
        print(f"{role:8}{rule:32}{'allowed' if found[role, rule] else 'refused'}")
wanted = {("admin", rule): "get" in rule or "host_id" in rule for _, rule in found} | {("service", rule): True for _, rule in found}
assert found == wanted, "the behaviour has changed"
PY

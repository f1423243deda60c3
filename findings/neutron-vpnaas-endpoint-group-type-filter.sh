#!/usr/bin/env bash
# Neutron's list of VPN endpoint groups accepts ?type=subnet, and shows groups of every type.
#
# Version:   neutron-vpnaas 29.0.0, neutron 29.0.0, neutron-lib 5.0.1
# Expected:  the API definition marks `type` as a filter (is_filter), so a listing with type=subnet has groups of subnets alone. Neutron refuses
#            filters that it doesn't know on resources that define theirs, so an accepted one is taken for applied.
# Behaviour: the column is named `endpoint_type`; a filter whose name is no attribute of the model is dropped without a word. A program that deletes
#            what such a listing shows deletes groups of CIDRs, networks and routers, too: each row has to be compared with what was asked for.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" -q --disable-pip-version-check install neutron==29.0.0 neutron-vpnaas==29.0.0 neutron-lib==5.0.1 "setuptools<81" >/dev/null 2>"$tmp/pip.log" ||
    { cat "$tmp/pip.log" >&2; exit 1; }
cat >"$tmp/listing.py" <<'END'
from oslo_config import cfg
from oslo_db import options

from neutron.conf import common  # noqa: F401 - registers options

options.set_defaults(cfg.CONF, connection="sqlite://")
cfg.CONF([], project="neutron")

import neutron.db.migration.models.head  # noqa: E402, F401 - all of its tables
from neutron_lib import context  # noqa: E402
from neutron_lib.api.definitions import vpn_endpoint_groups as definition  # noqa: E402
from neutron_lib.db import api, model_base  # noqa: E402
from neutron_vpnaas.db.vpn import vpn_db, vpn_models  # noqa: E402

admin = context.get_admin_context()
model_base.BASEV2.metadata.create_all(api.get_writer_session().get_bind())
for kind, endpoint in (("subnet", "a-subnet"), ("cidr", "192.0.2.0/24")):
    with api.CONTEXT_WRITER.using(admin):
        admin.session.add(vpn_models.VPNEndpointGroup(id=kind, project_id="p", name=kind, description="", endpoint_type=kind))
        admin.session.flush()
        admin.session.add(vpn_models.VPNEndpoint(endpoint_group_id=kind, endpoint=endpoint))


class Plugin(vpn_db.VPNPluginDb):
    def __init__(self) -> None:
        pass  # without the reference database and its callbacks


print("is_filter:", definition.RESOURCE_ATTRIBUTE_MAP["endpoint_groups"]["type"]["is_filter"])
for filters in ({"id": ["subnet"]}, {"type": ["subnet"]}):
    print(filters, "->", sorted(group["type"] for group in Plugin().get_endpoint_groups(admin, filters=filters)))
END
cd "$tmp"
seen=$("$tmp/venv/bin/python" -W ignore listing.py 2>"$tmp/log") || { tail -5 "$tmp/log" >&2; exit 1; }
echo "$seen"
[[ $seen == "is_filter: True
{'id': ['subnet']} -> ['subnet']
{'type': ['subnet']} -> ['cidr', 'subnet']" ]] || { echo "the behaviour has changed" >&2; exit 1; }

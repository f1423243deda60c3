#!/usr/bin/env bash
# Nova's osapi_compute_unique_server_name_scope compares host names, not the names of servers.
#
# Version:   nova 34.0.0
# Expected:  with the scope "project" a second server of a name is refused, and only that.
# Behaviour: the new name is compared with the host names of existing servers, which were made from their first names and stay when a
#            server is renamed. So a name is refused that no server has any more, a second server of one name is accepted, and, since
#            host names are sanitized names, "train-1" is refused beside "train_1".
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv v
v/bin/pip install -q --disable-pip-version-check nova==34.0.0
v/bin/python -W ignore - <<'PY'
from nova import config, context, exception
from nova.db.main import api
from nova.db import migration
from nova.utils import sanitize_hostname

config.parse_args(["nova"], default_config_files=[], configure_db=False, init_rpc=False)
from nova.conf import CONF

CONF.set_override("connection", "sqlite:///nova.sqlite", group="database")
CONF.set_override("osapi_compute_unique_server_name_scope", "project")
api.configure(CONF)
migration.db_sync(database="main")
asker = context.RequestContext("user", "project")


def create(name):
    """As nova-api's create does: the display name, and the host name made from it."""
    values = {"display_name": name, "hostname": sanitize_hostname(name), "project_id": "project"}
    try:
        return api.instance_create(asker, values)["uuid"]
    except exception.InstanceExists:
        return None


first = create("train-0")
assert create("train-0") is None, "a second server of the same name and host name is refused"
api.instance_update(asker, first, {"display_name": "old"})  # openstack server set --name: the host name stays
free_name = create("train-0")
second = create("old")
create("train_1")
other_name = create("train-1")
print("a name that no server has any more:", "refused" if free_name is None else "accepted")
print("the name that a server has:", "refused" if second is None else "accepted")
print("train-1 beside train_1:", "refused" if other_name is None else "accepted")
assert free_name is None and second is not None and other_name is None, "the behaviour has changed"
PY

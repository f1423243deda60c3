#!/usr/bin/env bash
# Manila cuts its listing of share networks at osapi_max_limit and gives no sign of it: no next link, also to a client that sends limit.
#
# Version:   manila 23.0.1 (its own API code over SQLite; osapi_max_limit = 3 instead of 1000, to need only five rows)
# Expected:  as in Nova, Neutron and Cinder: a listing that was cut carries a next link to the rest.
# Behaviour: of five share networks three are listed, without a link, with and without limit. A client that follows links takes
#            them for all; only a second request with offset shows the others.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check manila==23.0.1
printf '[DEFAULT]\nosapi_max_limit = 3\ntransport_url = fake:/\n[database]\nconnection = sqlite:///%s/manila.db\n' "$tmp" >"$tmp/manila.conf"
"$tmp/v/bin/python" - "$tmp/manila.conf" 2>/dev/null <<'PY'
import sys

from manila.common import config

config.CONF([], project="manila", default_config_files=[sys.argv[1]])  # before the modules that read it when they are imported

from manila import context, policy, rpc
from manila.api.openstack import api_version_request
from manila.api.openstack.wsgi import Request
from manila.api.v2.share_networks import ShareNetworkController
from manila.db.sqlalchemy import api, models

rpc.init(config.CONF)
policy.init()
models.BASE.metadata.create_all(api.get_engine())
for n in range(5):
    api.share_network_create(context.get_admin_context(), {"id": f"network-{n}", "user_id": "u1", "project_id": "p1"})
controller = ShareNetworkController()


def listed(query):
    request = Request.blank(f"/v2/share-networks?{query}")
    request.environ["manila.context"] = context.RequestContext(user_id="u1", project_id="p1", is_admin=False, roles=["member", "reader"])
    request.api_version_request = api_version_request.APIVersionRequest("2.60")
    answer = controller.index(request)
    return [row["id"][-1] for row in answer["share_networks"]], sorted(set(answer) - {"share_networks"})


found = {query: listed(query) for query in ("", "limit=3", "offset=3")}
for query, (rows, more) in found.items():
    print(f"GET /v2/share-networks?{query:9} share networks {', '.join(rows)}; beside them in the answer: {more or 'nothing'}")
assert found == {"": (["0", "1", "2"], []), "limit=3": (["0", "1", "2"], []), "offset=3": (["3", "4"], [])}, "the behaviour has changed"
PY

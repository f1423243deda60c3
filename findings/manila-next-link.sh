#!/usr/bin/env bash
# Manila cuts a listing at osapi_max_limit and gives a next link only to clients that sent limit; the link's marker is of no use.
#
# Version:   manila 23.0.1
# Expected:  as in Nova, Neutron and Cinder: a listing that was cut has a next link, which continues behind its last row.
# Behaviour: of 1,500 shares a request without limit gets 1,000 and no link, so a client that follows links takes them for all.
#            With limit=1000 there is a link, and the page behind it is the first one again: Manila reads offset, never marker.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check manila==23.0.1
"$tmp/v/bin/python" - 2>/dev/null <<'PY'
from urllib.parse import parse_qsl, urlsplit

from manila.common import config  # first: it registers the options that the API reads
from manila.api import common
from manila.api.openstack.wsgi import Request

config.CONF([], project="manila")


class Shares(common.ViewBuilder):
    _collection_name = "shares"


shares = [{"id": f"share-{n:04}"} for n in range(1500)]


def page(query):
    request = Request.blank(f"/v2/shares?{query}")
    request.environ["manila.context"] = type("Context", (), {"project_id": "p1"})()
    rows = common.limited(shares, request)
    links = Shares()._get_collection_links(request, rows)
    return rows, [link["href"] for link in links if link["rel"] == "next"]


plain, no_link = page("")
first, (link,) = page("limit=1000")
again, _ = page(urlsplit(link).query)
words = dict(parse_qsl(urlsplit(link).query))
print(f"without limit: {len(plain)} of {len(shares)} shares, next links: {no_link}")
print(f"with limit=1000: {len(first)} shares, next link with {words}; the page behind it begins with {again[0]['id']}")
assert len(plain) == 1000 and not no_link and set(words) == {"limit", "marker"} and again == first, "the behaviour has changed"
PY

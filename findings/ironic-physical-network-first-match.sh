#!/usr/bin/env bash
# Ironic's inspection hook physical-network takes the first CIDR of its map that fits, not the longest prefix.
#
# Version:   ironic 39.0.0
# Expected:  of "10.0.0.0/8:management" and "10.3.0.0/16:rdma" the address 10.3.0.11 gets rdma, as in a routing table.
# Behaviour: the order of [inspector]physical_network_cidr_map decides: with the wide network first the port is labelled management.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check ironic==39.0.0
"$tmp/v/bin/python" - 2>/dev/null <<'PY'
from ironic.conf import CONF
from ironic.drivers.modules.inspector.hooks.physical_network import PhysicalNetworkHook

wide, narrow = "10.0.0.0/8:management", "10.3.0.0/16:rdma"
found = {}
for order in ((wide, narrow), (narrow, wide)):
    CONF.set_override("physical_network_cidr_map", list(order), group="inspector")
    found[order] = PhysicalNetworkHook().get_physical_network({"ipv4_address": "10.3.0.11", "ipv6_address": "::"})
    print(f"{', '.join(order)}: 10.3.0.11 is on {found[order]}")
assert list(found.values()) == ["management", "rdma"], "the behaviour has changed"
PY

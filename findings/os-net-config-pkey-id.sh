#!/usr/bin/env bash
# os-net-config's schema accepts an InfiniBand child interface whose pkey_id carries the membership bit, and its objects refuse it.
#
# Version:   os-net-config 18.1.0
# Expected:  pkey_id takes the P_Key of a full member as every InfiniBand tool writes it (0x8011), or the schema refuses it.
# Behaviour: the schema finds nothing wrong; building the object raises "Invalid pkey value 0x8011". The bit is left out of the
#            file (0x11) and added by os-net-config: the interface is called ib0.8011 all the same.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check os-net-config==18.1.0
"$tmp/v/bin/python" - 2>/dev/null <<'PY'
from os_net_config import objects, validator


def seen(pkey):
    interface = {"type": "ib_child_interface", "parent": "ib0", "pkey_id": pkey, "use_dhcp": False}
    faults = validator.validate_config([interface])
    try:
        made = objects.object_from_json(interface).name
    except objects.InvalidConfigException as e:
        made = str(e)
    return faults, made


found = {hex(pkey): seen(pkey) for pkey in (0x8011, 0x11)}
for pkey, (faults, made) in found.items():
    print(f"pkey_id {pkey}: schema finds {faults}, object: {made}")
assert found == {"0x8011": ([], "Invalid pkey value 0x8011"), "0x11": ([], "ib0.8011")}, "the behaviour has changed"
PY

#!/usr/bin/env bash
# os-net-config applies a file that its own schema refuses, and exits with 0.
#
# Version:   os-net-config 18.1.0
# Expected:  a misspelt key (mtuu) is refused by the schema, so nothing is written and the exit code isn't 0.
# Behaviour: a warning is logged, the interface is configured without the key, exit code 0. --exit-on-validation-errors refuses.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
"$tmp/v/bin/pip" install -q --disable-pip-version-check os-net-config==18.1.0
printf 'network_config:\n- {type: interface, name: eth7, use_dhcp: false, mtuu: 9000}\n' >"$tmp/config.yaml"
run() {
    local code=0
    "$tmp/v/bin/os-net-config" -c "$tmp/config.yaml" -p ifcfg --root-dir "$tmp/root" --noop "$@" >"$tmp/out" 2>&1 || code=$?
    echo "$code, refused by the schema: $(grep -cm 1 "'mtuu' was unexpected" "$tmp/out"), interface written: $(grep -c '^DEVICE=eth7' "$tmp/out")"
}
plain=$(run)
strict=$(run --exit-on-validation-errors)
echo "as it is:                    exit code $plain"
echo "--exit-on-validation-errors: exit code $strict"
[[ $plain == "0, refused by the schema: 1, interface written: 1" && $strict == 1,*"interface written: 0" ]] || { echo "the behaviour has changed" >&2; exit 1; }

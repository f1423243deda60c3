#!/usr/bin/env bash
# Open vSwitch's Python library leaves a value that the schema forbids out of the transaction, and reports success.
#
# Version:   python3-openvswitch's code on PyPI: ovs 3.1.2; ovsdb-server 3.1.0-2+deb12u1 (Debian 12)
# Expected:  setting a port's tag to 5000 (the schema allows 0 to 4095) fails, as with ovs-vsctl, which exits 1 with "constraint violation".
# Behaviour: the assignment logs a warning only, commit_block() says "unchanged", and the port keeps its old tag.
set -euo pipefail
tmp=$(mktemp -d)
started=()
end() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$tmp"
}
trap end EXIT
cd "$tmp"
apt-get -q download openvswitch-common=3.1.0-2+deb12u1 openvswitch-switch=3.1.0-2+deb12u1 libunbound8 libxdp1 libbpf1 libevent-2.1-7 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" root; done
python3 -m venv v
v/bin/pip install -q --disable-pip-version-check ovs==3.1.2
export LD_LIBRARY_PATH=$tmp/root/usr/lib/x86_64-linux-gnu OVS_RUNDIR=$tmp OVS_LOGDIR=$tmp
schema=root/usr/share/openvswitch/vswitch.ovsschema
root/usr/bin/ovsdb-tool create conf.db "$schema"
root/usr/sbin/ovsdb-server conf.db --remote=punix:db.sock --unixctl="$tmp/ctl" >server.log 2>&1 &
started+=($!)
disown
for _ in $(seq 50); do [ -S db.sock ] && break; sleep 0.1; done
vsctl() { root/usr/bin/ovs-vsctl --db=unix:db.sock --no-wait "$@"; }
vsctl init -- add-br br0 -- add-port br0 p1 tag=11
code=0
vsctl set port p1 tag=5000 2>said || code=$?
echo "ovs-vsctl set port p1 tag=5000: exit code $code, $(grep -o 'constraint violation' said | head -1)"
python=$(v/bin/python - "$schema" 2>/dev/null <<'PY'
import sys

from ovs.db import idl
from ovs.poller import Poller

helper = idl.SchemaHelper(sys.argv[1])
helper.register_columns("Port", ["name", "tag"])
database = idl.Idl("unix:db.sock", helper)
for _ in range(50):
    if database.run() and database.tables["Port"].rows:
        break
    poller = Poller()
    poller.timer_wait(100)
    database.wait(poller)
    poller.block()
port = next(row for row in database.tables["Port"].rows.values() if row.name == "p1")
transaction = idl.Transaction(database)
port.tag = 5000
print(transaction.commit_block())
PY
)
after=$(vsctl get port p1 tag)
echo "Python library, port.tag = 5000: commit_block() says $python; the tag is $after"
[[ $code == 1 && $python == unchanged && $after == 11 ]] || { echo "the behaviour has changed" >&2; exit 1; }

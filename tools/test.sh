#!/bin/bash
# Every test but those of the night, in four parts; says what it is doing. All parts run, also after one has failed.
# `test.sh nightly`: those too.
# The lab starts and its tests run while the other parts do: they wait for services, the others compute.
# The lab is taken down at the end, whatever happens.
set -uo pipefail
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE= # tests start many processes, which would compile everything that they import
status=0
which=" and not nightly"
[ "${1:-}" = nightly ] && which=""
lab=$(mktemp -d /tmp/weft-test-XXXXXX)
chmod 755 "$lab"
end() {
    [ -n "${cloud:-}" ] && kill -INT -- "-$cloud" 2>/dev/null && wait "$cloud" 2>/dev/null
    .venv/bin/weft lab down --state "$lab/lab" >/dev/null
    rm -rf "$lab"
}
trap end EXIT
part() {
    echo "== $1"
    shift
    local began=$SECONDS code=0
    .venv/bin/python -m pytest -q --durations=5 "$@" || code=1
    echo "== $((SECONDS - began)) s"
    echo
    return $code
}
on_the_lab() {
    local ports
    ports=$(.venv/bin/python -c 'from weftlab.layout import free_ports; print(free_ports())')
    if .venv/bin/weft lab up --fabric both --tenant-networks --state "$lab/lab" --ports "$ports" >"$lab/up.log" 2>&1; then
        WEFT_TEST_LAB="$lab/lab" part "4 of 4: the lab: a real OpenStack, from order to receipt" -m "cloud$which"
    else
        echo "== 4 of 4 FAILED: the lab did not start"
        tail -n 40 "$lab/up.log"
        return 1
    fi
}
tools/packages.sh opensm ibsim-utils infiniband-diags iproute2 openvswitch-switch ethtool iputils-ping systemd || exit 1
echo "== beside the other parts: the lab's OpenStack is started (its packages are installed the first time) and tested"
echo
set -m # a process group of its own, which hears SIGINT
on_the_lab >"$lab/cloud.log" 2>&1 &
cloud=$!
set +m
part "1 of 4: pure functions and fakes" -n auto --dist worksteal -m "not database and not fabric and not cloud$which" || status=1
part "2 of 4: with the embedded PostgreSQL" -n auto --dist worksteal -m "database and not fabric and not cloud$which" || status=1
# Each fabric's tests are in one process (tests/helpers/byrig.py), and mostly wait.
part "3 of 4: fabrics: a real OpenSM over ibsim, switches by Open vSwitch" -n 3 --dist loadgroup -m "fabric and not cloud$which" || status=1
wait "$cloud" || status=1
cloud=
cat "$lab/cloud.log"
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED ($SECONDS s)"
exit $status

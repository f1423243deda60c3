#!/bin/bash
# Every test but those of landings and of the night, in three parts; says what it is doing. All parts run, also after one
# has failed. `test.sh landing`: those alone. `test.sh nightly`: all. WEFT_TESTS_SLOWEST: how many of the
# slowest tests of each part are listed.
# The lab starts, and its tests and those of fabrics run, while the first part does: they wait, the others compute.
# The lab is taken down at the end, whatever happens.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ -n "${WEFT_ALONE:-}" ] || exec .venv/bin/python -m weftlab.alone "tools/$(basename "$0")" "$@" # nothing outlives it
export PYTHONDONTWRITEBYTECODE= # tests start many processes, which would compile everything that they import
status=0
processes=$(($(nproc) + 2))
kind=${1:-}
which=" and not nightly"
adapters="--hcas 1" # a port costs Neutron and Nova half a second of processor; nodes on Ethernet have two all the same
case $kind in
nightly) which="" adapters="" ;;
landing) on_labs="lab and landing$which" ;;
*) on_labs="lab and not landing$which" ;;
esac
# Collecting takes a process ten seconds: where no test has a mark there is nothing to collect.
with_mark() { grep -rlE "mark\.$1\b" tests --include="*.py"; }
lab=$(mktemp -d /tmp/weft-test-XXXXXX)
chmod 755 "$lab"
beside=
end() {
    [ -n "$beside" ] && kill -INT -- "-$beside" 2>/dev/null && wait "$beside" 2>/dev/null
    .venv/bin/weft lab down --state "$lab/lab" >/dev/null
    rm -rf "$lab"
}
trap end EXIT
part() {
    echo "== $1"
    shift
    local code=0 TIMEFORMAT="== %0R s, processor %0U + %0S s
"
    time .venv/bin/python -m pytest -q --durations=${WEFT_TESTS_SLOWEST:-5} "$@" || code=1
    return $code
}
on_the_lab() { # TITLE TESTS…
    local title=$1 ports
    ports=$(.venv/bin/python -c "from weftlab.layout import free_ports; print(free_ports(23000, 31000))")
    shift
    # shellcheck disable=SC2086 # words
    if .venv/bin/weft lab up --fabric both --tenant-networks $adapters --state "$lab/lab" --ports "$ports" >"$lab/up" 2>&1
    then
        WEFT_TEST_LAB="$lab/lab" part "$title" -m "${on_labs:-lab}" "$@"
    else
        echo "== $title: FAILED: the lab did not start"
        tail -n 40 "$lab/up"
        return 1
    fi
}
tools/packages.sh opensm ibsim-utils infiniband-diags iproute2 ucx-utils openvswitch-switch ethtool iputils-ping systemd dnsmasq-base \
    chromium fonts-dejavu-core slurmctld slurm-client openmpi-bin prometheus prometheus-alertmanager rsyslog || exit 1
echo "== beside the other parts: a lab's OpenStack is started (its packages are installed the first time) and tested"
echo
fabrics() { # Each fabric's tests are in one process, and mostly wait (tests/helpers/byrig.py).
    [ "$kind" = landing ] && return
    # shellcheck disable=SC2046 # words
    part "3 of 3: fabrics: a real OpenSM over ibsim, switches by Open vSwitch" \
        -n "$processes" --dist loadgroup -m "fabric and not cloud and not landing$which" \
        $(with_mark fabric | xargs -n 1 dirname | sort -u | grep -v "^tests/e2e")
}
set -m # a process group of its own, which hears SIGINT
{
    # shellcheck disable=SC2046 # words
    on_the_lab "2 of 3: a lab: whole pods from order to receipt, contracts, services that end or lie" $(with_mark cloud)
    code=$?
    .venv/bin/weft lab down --state "$lab/lab" >/dev/null # its services cost a twentieth of a processor at rest
    fabrics && [ $code -eq 0 ]
} >"$lab/log" 2>&1 &
beside=$!
set +m
# Each process would rewrite every test's assertions, three times what collecting costs: once, and they are kept.
.venv/bin/python -m pytest -q --collect-only >/dev/null
# The lab's tests wait for one thing after another and take longest: its services go first.
renice -n 5 $$ >/dev/null
# Half of the time of a test of a driver is waiting: two processes more than there are processors, and those tests in one
# part with those of PostgreSQL, which compute. Each process collects, but once, not once for each of two parts.
[ "$kind" = landing ] || part "1 of 3: pure functions and fakes; with the embedded PostgreSQL" \
    -n "$processes" --dist worksteal -m "not fabric and not cloud and not landing$which" || status=1
# shellcheck disable=SC2046 # words
[ -z "$kind" ] || part "single services of OpenStack; exports read by their tools; two versions beside each other; the console in a browser" \
    -n "$processes" --dist loadgroup -m "landing and not lab$which" $(with_mark cloud) $(with_mark landing) || status=1
wait "$beside" || status=1
beside=
cat "$lab/log"
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED ($SECONDS s)"
exit $status

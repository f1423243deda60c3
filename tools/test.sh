#!/bin/bash
# Runs all tests but those marked landing or nightly, in three parts, and prints what it does. All parts run, even after
# one has failed. `test.sh landing`: only those of landings. `test.sh nightly`: all. WEFT_TESTS_SLOWEST: how many of the
# slowest tests of each part are listed.
# The lab's tests and those of fabrics run beside the first part, since they mostly wait while it computes. The lab is
# taken down at the end, whatever happens.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
[ -n "${WEFT_ALONE:-}" ] || exec .venv/bin/python -m weftlab.alone "tools/$(basename "$0")" "$@" # nothing outlives it
export PYTHONDONTWRITEBYTECODE= # tests start many processes, which would compile everything that they import
status=0
processes=$(($(nproc) + 2))
kind=${1:-}
which=" and not nightly"
adapters="--hcas 1" # a port costs Neutron and Nova half a second of processor time; nodes on Ethernet have two anyway
case $kind in
nightly) which="" adapters="" ;;
landing) on_labs="lab and landing$which" ;;
*) on_labs="lab and not landing$which" ;;
esac
# Collecting takes a process ten seconds, so only files with tests of this mark are collected.
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
numbered() { [ -n "$kind" ] || echo "$1 of 3: "; } # other kinds have other parts
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
fabrics() { # each fabric's tests are in one process, and mostly wait (tests/helpers/byrig.py)
    [ "$kind" = landing ] && return
    # shellcheck disable=SC2046 # words
    part "$(numbered 3)fabrics: a real OpenSM over ibsim, switches by Open vSwitch" \
        -n "$processes" --dist loadgroup -m "fabric and not cloud and not landing$which" \
        $(with_mark fabric | xargs -n 1 dirname | sort -u | grep -v "^tests/e2e")
}
set -m # a process group of its own, which gets SIGINT
{
    # shellcheck disable=SC2046 # words
    on_the_lab "$(numbered 2)a lab: whole pods from order to receipt, contracts, services that end or lie" $(with_mark cloud)
    code=$?
    .venv/bin/weft lab down --state "$lab/lab" >/dev/null # its idle services use a twentieth of a processor
    fabrics && [ $code -eq 0 ]
} >"$lab/log" 2>&1 &
beside=$!
set +m
# Rewriting the assertions of all tests takes three times as long as collecting: done once here, all processes use them.
.venv/bin/python -m pytest -q --collect-only >/dev/null
# The lab's tests wait for one thing after another and take longest, so its services get priority.
renice -n 5 $$ >/dev/null
# Tests of drivers wait for half of their time: so there are two processes more than processors, and these tests are in
# one part with those of PostgreSQL, which compute. In one part each process also collects only once.
[ "$kind" = landing ] || part "$(numbered 1)pure functions and fakes; with the embedded PostgreSQL" \
    -n "$processes" --dist worksteal -m "not fabric and not cloud and not landing$which" || status=1
# shellcheck disable=SC2046 # words
[ -z "$kind" ] || part "single services of OpenStack; exports read by their tools; two versions beside each other; the console in a browser" \
    -n "$processes" --dist loadgroup -m "landing and not lab$which" $(with_mark cloud) $(with_mark landing) || status=1
wait "$beside" || status=1
beside=
cat "$lab/log"
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED ($SECONDS s)"
exit $status

#!/bin/bash
# Every test but those of the night, in five parts; says what it is doing. All parts run, also after one has failed.
# `test.sh nightly`: those too. WEFT_TESTS_SLOWEST: how many of the slowest tests of each part are listed.
# The labs start and their tests run while the other parts do: they wait for services, the others compute.
# The labs are taken down at the end, whatever happens.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PYTHONDONTWRITEBYTECODE= # tests start many processes, which would compile everything that they import
status=0
which=" and not nightly"
[ "${1:-}" = nightly ] && which=""
# Whole pods on one lab and everything else on another take about as long as each other.
apart=(tests/e2e/test_lies.py tests/e2e/test_tenant_infiniband_live.py)
# Collecting takes a process ten seconds: where no test has a mark there is nothing to collect.
folders_with() { grep -rlE "mark\.$1\b" tests --include="*.py" | xargs -n 1 dirname | sort -u | grep -v "^tests/e2e"; }
labs=$(mktemp -d /tmp/weft-test-XXXXXX)
chmod 755 "$labs"
started=()
end() {
    for group in "${started[@]}"; do
        kill -INT -- "-$group" 2>/dev/null && wait "$group" 2>/dev/null
    done
    for lab in first second; do
        .venv/bin/weft lab down --state "$labs/$lab" >/dev/null
    done
    rm -rf "$labs"
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
on_a_lab() { # NAME "FIRST PORT, LAST PORT" "WHAT IT IS STARTED WITH" TITLE TESTS…
    local name=$1 with=$3 title=$4 ports
    ports=$(.venv/bin/python -c "from weftlab.layout import free_ports; print(free_ports($2))")
    shift 4
    # shellcheck disable=SC2086 # words
    if .venv/bin/weft lab up $with --state "$labs/$name" --ports "$ports" >"$labs/$name.up" 2>&1; then
        WEFT_TEST_LAB="$labs/$name" part "$title" -m "cloud$which" "$@"
    else
        echo "== $title: FAILED: its lab did not start"
        tail -n 40 "$labs/$name.up"
        return 1
    fi
}
tools/packages.sh opensm ibsim-utils infiniband-diags iproute2 openvswitch-switch ethtool iputils-ping systemd dnsmasq-base || exit 1
echo "== beside the other parts: two labs' OpenStacks are started (their packages are installed the first time) and tested"
echo
set -m # a process group of its own for each, which hears SIGINT
on_a_lab first "23000, 27000" "--fabric both --tenant-networks" "4 of 5: a lab: whole pods, from order to receipt" \
    tests/e2e "${apart[@]/#/--ignore=}" >"$labs/first.log" 2>&1 &
started+=($!)
on_a_lab second "27000, 31000" "--ipus 0 --tenant-networks" "5 of 5: another lab: contracts on a real OpenStack, services that end or lie" \
    $(folders_with cloud) "${apart[@]}" >"$labs/second.log" 2>&1 &
started+=($!)
set +m
part "1 of 5: pure functions and fakes" -n auto --dist worksteal -m "not database and not fabric and not cloud$which" || status=1
part "2 of 5: with the embedded PostgreSQL" -n auto --dist worksteal -m "database and not fabric and not cloud$which" || status=1
# Each fabric's tests are in one process (tests/helpers/byrig.py), and mostly wait.
part "3 of 5: fabrics: a real OpenSM over ibsim, switches by Open vSwitch" -n 3 --dist loadgroup -m "fabric and not cloud$which" \
    $(folders_with fabric) || status=1
for group in "${started[@]}"; do wait "$group" || status=1; done
started=()
cat "$labs/first.log" "$labs/second.log"
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED ($SECONDS s)"
exit $status

#!/bin/bash
# Every test, in three parts; says what it is doing. All parts run, also after one has failed.
# The lab of the third part starts while the first part runs, and is taken down at the end, whatever happens.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
lab=$(mktemp -d /tmp/weft-test-XXXXXX)
chmod 755 "$lab"
end() {
    [ -n "${starting:-}" ] && kill -INT "$starting" 2>/dev/null && wait "$starting" 2>/dev/null
    .venv/bin/weft lab down --state "$lab/lab" >/dev/null
    rm -rf "$lab"
}
trap end EXIT
part() {
    echo
    echo "== $1"
    shift
    local began=$SECONDS
    .venv/bin/python -m pytest -q --durations=5 "$@" || status=1
    echo "== $((SECONDS - began)) s"
}
tools/packages.sh opensm ibsim-utils infiniband-diags || exit 1
echo "== starting the lab's OpenStack beside the first part (installs its packages the first time)"
ports=$(.venv/bin/python -c 'from weftlab.layout import free_ports; print(free_ports())')
.venv/bin/weft lab up --state "$lab/lab" --ports "$ports" >"$lab/up.log" 2>&1 &
starting=$!
part "1 of 3: pure functions, fakes, embedded PostgreSQL" -m "not fabric and not cloud"
part "2 of 3: a real OpenSM over ibsim" -m "fabric and not cloud"
if wait "$starting"; then
    starting=
    WEFT_TEST_LAB="$lab/lab" part "3 of 3: the lab: a real OpenStack, from order to receipt" -m cloud
else
    starting=
    echo "== 3 of 3 FAILED: the lab did not start"
    tail -n 40 "$lab/up.log"
    status=1
fi
echo
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED ($SECONDS s)"
exit $status

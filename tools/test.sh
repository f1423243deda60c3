#!/bin/bash
# Every test, in three parts; says what it is doing. All parts run, also after one has failed.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
part() {
    echo
    echo "== $1"
    shift
    local began=$SECONDS
    .venv/bin/python -m pytest -q --durations=5 "$@" || status=1
    echo "== $((SECONDS - began)) s"
}
tools/packages.sh opensm ibsim-utils infiniband-diags || exit 1
part "1 of 3: pure functions, fakes, embedded PostgreSQL" -m "not fabric and not cloud"
part "2 of 3: a real OpenSM over ibsim" -m "fabric and not cloud"
part "3 of 3: the lab: a real OpenStack, from order to receipt" -m cloud
echo
[ $status -eq 0 ] && echo "all tests passed in $SECONDS s" || echo "some tests FAILED (${SECONDS} s)"
exit $status

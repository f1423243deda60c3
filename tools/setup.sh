#!/bin/bash
# Make .venv from requirements.lock. Says what it installs before it does.
set -euo pipefail
cd "$(dirname "$0")/.."
# Two at once would write the same files. Who had to wait finds it made already.
mkdir -p .venv
exec 9>.venv/lock
flock 9
if [ .venv/ready -nt requirements.lock ] && [ .venv/ready -nt pyproject.toml ]; then exit 0; fi
python=$(command -v python3.11 || command -v python3 || true)
if [ -z "$python" ] || ! "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    tools/packages.sh python3 python3-venv
    python=/usr/bin/python3
fi
echo "weft: making .venv with $(grep -cE '^[a-z0-9].*==' requirements.lock) Python packages from requirements.lock"
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null
.venv/bin/python -m pip install -q --disable-pip-version-check "$(grep -E '^uv==' requirements.lock)"
.venv/bin/uv pip sync -q --python .venv/bin/python requirements.lock
.venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
touch .venv/ready

#!/usr/bin/env bash
# The wheel of tripleo-heat-templates installs no template at all; only the source distribution has them.
#
# Version:   tripleo-heat-templates 18.0.0
# Expected:  pip install brings the Heat templates and roles that the package is named for.
# Behaviour: pip succeeds, and the wheel holds its own metadata only. `pip download --no-binary` brings hundreds of templates.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/v"
get() { "$tmp/v/bin/pip" download -q --disable-pip-version-check --no-deps --no-build-isolation -d "$tmp" "$@" tripleo-heat-templates==18.0.0; }
"$tmp/v/bin/pip" install -q --disable-pip-version-check setuptools==80.9.0 pbr==7.0.1
get --only-binary :all:
get --no-binary :all:
"$tmp/v/bin/python" - "$tmp" <<'PY'
import pathlib, sys, tarfile, zipfile

folder = pathlib.Path(sys.argv[1])
wheel = zipfile.ZipFile(next(folder.glob("*.whl"))).namelist()
source = tarfile.open(next(folder.glob("*.tar.gz"))).getnames()
templates = [name for name in source if name.endswith((".yaml", ".j2"))]
print(f"wheel: {len(wheel)} files, {sum('.dist-info/' not in name for name in wheel)} besides metadata; source: {len(templates)} templates")
assert all(".dist-info/" in name for name in wheel) and len(templates) > 500, "the behaviour has changed"
PY

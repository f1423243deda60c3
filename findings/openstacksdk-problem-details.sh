#!/usr/bin/env bash
# openstacksdk shows no word of an RFC 9457 problem document: the same body is read as application/json, and dropped as
# application/problem+json, which is JSON too. A service with standard errors looks as if it gave no reason.
#
# Version:   openstacksdk 4.4.0 and 4.22.0
# Expected:  the exception of a refused request has the body's message in any JSON media type (+json, RFC 6839).
# Behaviour: its details are the status line's "Conflict" for application/problem+json, the message for application/json.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/try.py" <<'PY'
import json
import requests
from openstack import exceptions

def details(media_type):
    answer = requests.Response()
    answer.status_code, answer.reason, answer.url = 409, "Conflict", "http://cloud.example/v1/things/one"
    answer.headers["content-type"] = media_type
    answer._content = json.dumps({"message": "thing one is in use", "title": "in use", "status": 409}).encode()
    try:
        exceptions.raise_from_response(answer)
    except exceptions.ConflictException as error:
        return error.details

print(f"json: {details('application/json')}; problem+json: {details('application/problem+json')}")
PY
for version in 4.4.0 4.22.0; do
  python3 -m venv "$tmp/$version"
  "$tmp/$version/bin/pip" install -q --disable-pip-version-check "openstacksdk==$version"
  got=$("$tmp/$version/bin/python" -W ignore "$tmp/try.py")
  echo "openstacksdk $version: $got"
  [[ $got == "json: thing one is in use; problem+json: Conflict" ]] || { echo "the behaviour has changed" >&2; exit 1; }
done

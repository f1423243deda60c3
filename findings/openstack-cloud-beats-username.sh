#!/usr/bin/env bash
# With a named cloud, openstack's --os-username and --os-password are ignored, but --os-project-name is not.
#
# Version:   python-openstackclient 10.4.0, osc-lib 4.7.0, openstacksdk 4.22.0
# Expected:  what the command line says goes before clouds.yaml: either all of it (user bob in project other), or, if a cloud's
#            identity can't be mixed, an error.
# Behaviour: the client signs in as clouds.yaml's user with its password, in the command line's project: half of each identity, without
#            a warning. The same by environment: OS_CLOUD with OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME (an openrc file sourced
#            beside OS_CLOUD). "configuration show" prints both users, the ignored one outside auth.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv v
v/bin/pip install -q --disable-pip-version-check python-openstackclient==10.4.0 osc-lib==4.7.0 openstacksdk==4.22.0
cat >clouds.yaml <<'YAML'
clouds:
  site:
    auth:
      auth_url: http://127.0.0.1:5000/v3
      username: alice
      password: of-alice
      project_name: hers
      user_domain_name: Default
      project_domain_name: Default
YAML
unset "${!OS_@}"
shown() { # what it would sign in with
    "$@" configuration show --unmask -f json -c auth.username -c auth.password -c auth.project_name |
        python3 -c 'import json, sys; shown = json.load(sys.stdin); print(*(shown[f"auth.{key}"] for key in ("username", "password", "project_name")))'
}
by_options=$(shown v/bin/openstack --os-cloud site --os-username bob --os-password of-bob --os-project-name other)
by_environment=$(OS_CLOUD=site OS_USERNAME=bob OS_PASSWORD=of-bob OS_PROJECT_NAME=other shown v/bin/openstack)
echo "by options: $by_options; by environment: $by_environment"
[ "$by_options" = "alice of-alice other" ] && [ "$by_environment" = "alice of-alice other" ] || {
    echo "the behaviour has changed" >&2
    exit 1
}

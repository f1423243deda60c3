"""weft itself beside a cloud of Kolla Ansible's: an Ansible role, its playbook, and the site file that it brings.

Uses only modules of ansible-core. weft runs in no container, but in its own Python environment, as a systemd unit.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from weft.planning.export.openstack import notifies_weft
from weft.planning.export.text import head, yaml_file
from weft.planning.export.view import CloudView
from weft.planning.export.weftkeystone import CATALOG, KEYSTONE
from weft.planning.site.check import canonical

FOLDER = "weft"
GROUP = "weft"
PORT = 8787
PASSWORD = "weft_keystone_password"
FABRICS = (
    " The role installs nothing on fabrics: certificates and credentials of their managers that the site file names go "
    "to weft's host, and hosts of OpenSM get agents with certificates by `weft fabric-agent certs` "
    "(docs/fabric-opensm.md)."
)
"""Variable of passwords.yml."""

_TASKS = """\
---
- name: Find out what the credentials are for
  ansible.builtin.assert:
    that: weft_keystone_password | default('') | length > 0
    fail_msg: "weft_keystone_password is missing: put it into passwords.yml"
    quiet: true

- name: Find out what is to be installed
  ansible.builtin.assert:
    that: weft_package | length > 0
    fail_msg: "weft_package is missing: what pip installs, such as weft-pods[vipu]==VERSION, or a list of wheels"
    quiet: true

- name: Make weft's user in Keystone, its roles, and its entry in the catalog
  ansible.builtin.import_tasks: keystone.yml
  run_once: true
  delegate_to: localhost
  become: false
  when: weft_keystone | bool

- name: Make weft's user on the host
  ansible.builtin.user:
    name: "{{ weft_user }}"
    system: true
    create_home: false
    home: "{{ weft_state }}"
    shell: /usr/sbin/nologin
  when: weft_service | bool

- name: Make weft's folders
  ansible.builtin.file:
    path: "{{ item.path }}"
    state: directory
    owner: "{{ weft_user }}"
    mode: "{{ item.mode }}"
  loop:
    - {path: "{{ weft_config }}", mode: "0750"}
    - {path: "{{ weft_state }}", mode: "0700"}

- name: Install weft
  ansible.builtin.pip:
    name: "{{ weft_package }}"
    extra_args: "{{ weft_pip_arguments | default(omit, true) }}"
    virtualenv: "{{ weft_program }}"
    virtualenv_command: python3 -m venv
  notify: Restart weft

- name: Bring the site file
  ansible.builtin.copy:
    src: site.yaml
    dest: "{{ weft_config }}/site.yaml"
    owner: "{{ weft_user }}"
    mode: "0640"
    validate: "{{ weft_program }}/bin/weft site check %s"

- name: Bring weft's credentials
  ansible.builtin.template:
    src: "{{ item }}.j2"
    dest: "{{ weft_config }}/{{ item }}"
    owner: "{{ weft_user }}"
    mode: "0600"
  loop: "{{ ['clouds.yaml'] + (['neutron-token'] if weft_is_notified | bool else []) }}"
  no_log: true
  notify: Restart weft

- name: Bring the rules of who may do what
  ansible.builtin.copy:
    src: "{{ weft_policy }}"
    dest: "{{ weft_config }}/policy.yaml"
    owner: "{{ weft_user }}"
    mode: "0640"
  when: weft_policy | length > 0
  notify: Restart weft

- name: Write down what only weft may read
  ansible.builtin.template:
    src: weft.env.j2
    dest: "{{ weft_config }}/weft.env"
    owner: "{{ weft_user }}"
    mode: "0600"
  no_log: true
  notify: Restart weft

- name: Write weft's unit
  ansible.builtin.template:
    src: weft.service.j2
    dest: "{{ weft_units }}/weft.service"
    mode: "0644"
  notify: Restart weft

- name: Start weft
  ansible.builtin.systemd_service:
    name: weft
    state: started
    enabled: true
    daemon_reload: true
  when: weft_service | bool

- name: Restart it now if something has changed
  ansible.builtin.meta: flush_handlers

- name: Wait until weft is ready
  ansible.builtin.uri:
    url: "{{ weft_url }}/readyz"
    ca_path: "{{ openstack_cacert | default(omit, true) }}"
  register: weft_ready
  until: weft_ready is succeeded
  retries: 60
  delay: 2
  when: weft_service | bool
"""

_HANDLERS = """\
---
- name: Restart weft
  ansible.builtin.systemd_service:
    name: weft
    state: restarted
    daemon_reload: true
  when: weft_service | bool
"""

_UNIT = """\
{% macro word(value) %}{{ value | replace('%', '%%') | replace('$', '$$') }}{% endmacro %}
[Unit]
Description=weft, accelerator pods between OpenStack and its fabrics
After=network-online.target
Wants=network-online.target

[Service]
User={{ weft_user | replace('%', '%%') }}
Environment=OS_CLIENT_CONFIG_FILE={{ weft_config | replace('%', '%%') }}/clouds.yaml XDG_RUNTIME_DIR=/run/weft
EnvironmentFile={{ weft_config | replace('%', '%%') }}/weft.env
RuntimeDirectory=weft
RuntimeDirectoryPreserve=yes
ExecStart={{ word(weft_program) }}/bin/weft serve --listen {{ word(weft_listen) }} --state {{ word(weft_state) }} \\
  --cloud-profile {{ word(weft_profile) }} --site {{ word(weft_config) }}/site.yaml --public-url {{ word(weft_url) }}
  {%- if weft_is_notified %} --neutron-token {{ word(weft_config) }}/neutron-token{% endif %}
  {%- if weft_policy %} --policy {{ word(weft_config) }}/policy.yaml{% endif %}
  {%- if weft_certificate %} --tls-certificate {{ word(weft_certificate) }} --tls-key {{ word(weft_key) }}{% endif %}

Restart=always
RestartSec=5
TimeoutStopSec=60
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ReadWritePaths={{ weft_state | replace('%', '%%') }}

[Install]
WantedBy=multi-user.target
"""

_ENVIRONMENT = """\
{% if weft_database %}WEFT_DATABASE="{{ weft_database | replace('\\\\', '\\\\\\\\') | replace('"', '\\\\"') }}"
{% endif %}
"""
"""systemd expands neither % nor $ in such a file, and reads escapes by backslash within double quotes."""

_CLOUDS = """\
clouds:
  {{ weft_profile }}:
    auth_type: v3password
    auth:
      auth_url: "{{ weft_auth_url }}"
      username: weft
      password: {{ weft_keystone_password | to_json }}
      project_name: "{{ weft_project }}"
      user_domain_id: default
      project_domain_id: default
    region_name: "{{ weft_region }}"
    interface: internal
{% if openstack_cacert | default('', true) %}
    cacert: "{{ openstack_cacert }}"
{% endif %}
"""

_IN_THE_CATALOG = (
    "{{ [] if weft_url is match('https?://(127[.]|localhost|[[]::1)') else ['public', 'internal'] }}"
)
"""The catalog must not have a loopback address: clients would send their tokens to a process on their own machine."""

_TOKEN = "{{ weft_sdn_token }}\n"


def weft_files(view: CloudView) -> dict[str, str]:
    """Path -> text: playbook, role and site file."""
    site, role = view.site.name, f"{FOLDER}/roles/weft"
    play = [{"name": "weft beside the cloud", "hosts": GROUP, "gather_facts": False, "roles": ["weft"]}]
    return {
        f"{FOLDER}/weft.yml": yaml_file(site, play),
        f"{role}/defaults/main.yml": yaml_file(site, _defaults(view)),
        f"{role}/tasks/main.yml": head(site) + _TASKS,
        f"{role}/tasks/keystone.yml": head(site) + KEYSTONE,
        f"{role}/tasks/catalog.yml": head(site) + CATALOG,
        f"{role}/handlers/main.yml": head(site) + _HANDLERS,
        f"{role}/templates/weft.service.j2": head(site) + _UNIT,
        f"{role}/templates/weft.env.j2": head(site) + _ENVIRONMENT,
        f"{role}/templates/clouds.yaml.j2": head(site) + _CLOUDS,
        **({f"{role}/templates/neutron-token.j2": _TOKEN} if notifies_weft(view) else {}),
        # JSON is YAML.
        f"{role}/files/site.yaml": canonical(view.site).model_dump_json(indent=1) + "\n",
    }


def _defaults(view: CloudView) -> dict[str, Any]:
    """Variables that an operator may override, with `-e` or as variables of the group."""
    one = view.deployment
    profile = view.cloud.profile or view.name
    scheme = "http" if one.tls != "everywhere" else "https"
    secure = urlsplit(one.weft_url or "").scheme == "https"
    return {
        "weft_package": "",
        "weft_pip_arguments": "",
        "weft_program": "/opt/weft",
        "weft_config": "/etc/weft",
        "weft_state": "/var/lib/weft",
        "weft_units": "/etc/systemd/system",
        "weft_user": "weft",
        "weft_service": True,
        "weft_keystone": True,
        "weft_admin": {"OS_CLIENT_CONFIG_FILE": "/etc/kolla/clouds.yaml", "OS_CLOUD": "kolla-admin"},
        "weft_project": "service",
        "weft_domains": sorted(one.ldap_domains),
        "weft_region": "{{ openstack_region_name | default('RegionOne') }}",
        "weft_interfaces": _IN_THE_CATALOG,
        "weft_profile": profile,
        "weft_auth_url": f"{scheme}://{view.internal_name}:5000/v3",
        "weft_url": one.weft_url or f"http://127.0.0.1:{PORT}",
        "weft_certificate": "{{ weft_config }}/tls.pem" if secure else "",
        "weft_key": "{{ weft_config }}/tls.key" if secure else "",
        "weft_listen": f"{'0.0.0.0' if secure else '127.0.0.1'}:{PORT}",
        "weft_database": "",
        "weft_policy": "",
        "weft_is_notified": notifies_weft(view),
    }

"""The exported role's tasks in Keystone: weft's user with its password and roles, and its entry in the catalog."""

from __future__ import annotations

KEYSTONE = """\
---
# As docs/operating-roles.md says; each task may be run again. No secret is on a command line: others' ps shows those.
- name: Make the role weft
  ansible.builtin.command:
    argv: [openstack, role, create, --or-show, weft]
  environment: "{{ weft_admin }}"
  changed_when: false

- name: Make the user weft
  ansible.builtin.command:
    argv: [openstack, user, create, --or-show, --domain, default, --project, "{{ weft_project }}",
           -f, value, -c, id, weft]
  environment: "{{ weft_admin }}"
  register: weft_keystone_user
  changed_when: false

- name: Sign in as weft
  ansible.builtin.uri:
    url: "{{ weft_auth_url }}/auth/tokens"
    method: POST
    body_format: json
    body:
      auth:
        identity:
          methods: [password]
          password: {user: {id: "{{ weft_keystone_user.stdout | trim }}", password: "{{ weft_keystone_password }}"}}
    status_code: [201, 401]
    ca_path: "{{ openstack_cacert | default(omit, true) }}"
  register: weft_password
  no_log: true

- name: Get a token to set what weft signs in with
  ansible.builtin.command:
    argv: [openstack, token, issue, -f, value, -c, id]
  environment: "{{ weft_admin }}"
  register: weft_admin_token
  when: weft_password.status == 401
  changed_when: false
  no_log: true

- name: Set what weft signs in with
  ansible.builtin.uri:
    url: "{{ weft_auth_url }}/users/{{ weft_keystone_user.stdout | trim }}"
    method: PATCH
    headers: {X-Auth-Token: "{{ weft_admin_token.stdout | trim }}"}
    body_format: json
    body: {user: {password: "{{ weft_keystone_password }}"}}
    ca_path: "{{ openstack_cacert | default(omit, true) }}"
  when: weft_password.status == 401
  changed_when: true
  no_log: true

- name: Give weft its roles
  ansible.builtin.command:
    argv: "{{ ['openstack', 'role', 'add', '--user', 'weft'] + item }}"
  loop:
    - [--project, "{{ weft_project }}", service]
    - [--project, "{{ weft_project }}", weft]
    - [--domain, default, --inherited, member]
    - [--domain, default, --inherited, weft]
  environment: "{{ weft_admin }}"
  changed_when: false

- name: Give weft its roles in the customers' domains
  ansible.builtin.command:
    argv: [openstack, role, add, --user, weft, --domain, "{{ item.0 }}", --inherited, "{{ item.1 }}"]
  loop: "{{ weft_domains | product(['member', 'weft']) | list }}"
  environment: "{{ weft_admin }}"
  changed_when: false

- name: Name weft in the catalog
  ansible.builtin.import_tasks: catalog.yml
  when: weft_interfaces | length > 0
"""

CATALOG = """\
---
# What is there is read first, and a reading that fails changes nothing.
- name: Read the catalog's services
  ansible.builtin.command:
    argv: [openstack, service, list, -f, json]
  environment: "{{ weft_admin }}"
  register: weft_services
  changed_when: false

- name: Find weft's service
  ansible.builtin.set_fact:
    weft_service_ids: "{{ weft_services.stdout | from_json | selectattr('Type', 'eq', 'accelerator-pod')
      | map(attribute='ID') | list }}"

- name: Find out that it is there once at most
  ansible.builtin.assert:
    that: weft_service_ids | length < 2
    fail_msg: "several services of type accelerator-pod are in the catalog: delete all but one"
    quiet: true

- name: Make weft's service
  ansible.builtin.command:
    argv: [openstack, service, create, --name, weft, -f, value, -c, id, accelerator-pod]
  environment: "{{ weft_admin }}"
  register: weft_service_made
  when: weft_service_ids | length == 0

- name: Read its endpoints
  ansible.builtin.command:
    argv: [openstack, endpoint, list, --service, "{{ (weft_service_ids + [weft_service_made.stdout | default('')])
      | first }}", --region, "{{ weft_region }}", -f, json]
  environment: "{{ weft_admin }}"
  register: weft_endpoints
  changed_when: false

- name: Find out that each interface has one at most
  ansible.builtin.assert:
    that: weft_endpoints.stdout | from_json | selectattr('Interface', 'eq', item) | list | length < 2
    fail_msg: "several {{ item }} endpoints of weft are in region {{ weft_region }}: delete all but one"
    quiet: true
  loop: "{{ weft_interfaces }}"

- name: Make the endpoints that are missing
  ansible.builtin.command:
    argv: [openstack, endpoint, create, --region, "{{ weft_region }}",
           "{{ (weft_service_ids + [weft_service_made.stdout | default('')]) | first }}", "{{ item }}",
           "{{ weft_url }}"]
  environment: "{{ weft_admin }}"
  loop: "{{ weft_interfaces | difference(weft_endpoints.stdout | from_json | map(attribute='Interface') | list) }}"

- name: Correct the endpoints that have another address
  ansible.builtin.command:
    argv: [openstack, endpoint, set, --url, "{{ weft_url }}", "{{ item.ID }}"]
  environment: "{{ weft_admin }}"
  loop: "{{ weft_endpoints.stdout | from_json | selectattr('Interface', 'in', weft_interfaces)
    | rejectattr('URL', 'eq', weft_url) | list }}"
  loop_control: {label: "{{ item.Interface }}"}
"""

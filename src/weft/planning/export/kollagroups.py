"""Groups of Kolla Ansible's inventory (release 2026.1), and the groups that each consists of.

Its playbooks also require groups of services that aren't deployed, so all groups must exist.
"""

from __future__ import annotations

HOSTS = ("control", "network", "compute", "storage", "monitoring")
"""Groups that hosts are in; they are the functions of a role, too."""

_MEMBERS = """
control network compute storage monitoring: baremetal common
control network: tls-backend
compute: collectd hacluster-remote ceilometer-compute ceilometer-ipmi cyborg-agent prometheus-libvirt-exporter
  masakari-instancemonitor ovn-controller-compute
monitoring: grafana prometheus prometheus-alertmanager prometheus-openstack-exporter
  prometheus-blackbox-exporter
control: etcd hacluster mariadb rabbitmq keystone glance nova cinder cloudkitty memcached horizon barbican
  heat ironic magnum mistral manila ceilometer aodh cyborg gnocchi tacker trove watcher octavia designate
  placement skyline redis valkey blazar opensearch neutron-periodic-worker neutron-rpc-server neutron-server
  neutron-ovn-maintenance-worker masakari-api masakari-engine masakari-hostmonitor ovn-database
network: loadbalancer neutron manila-share designate-mdns ovn-controller-network
network compute manila-share: openvswitch
deployment: bifrost
loadbalancer: letsencrypt
common: cron fluentd kolla_logs kolla_toolbox
opensearch: opensearch-dashboards prometheus-elasticsearch-exporter
glance: glance-api
nova: nova-api nova-conductor nova-metadata nova-super-conductor nova-novncproxy nova-scheduler
  nova-spicehtml5proxy nova-compute-ironic nova-serialproxy
neutron: ironic-neutron-agent neutron-bgp-dragent neutron-dhcp-agent neutron-infoblox-ipam-agent
  neutron-l3-agent neutron-metadata-agent neutron-metering-agent neutron-ovn-vpn-agent
compute network: neutron-ovn-agent neutron-ovn-metadata-agent prometheus-openstack-network-exporter
cinder: cinder-api cinder-backup cinder-scheduler cinder-volume
storage: cinder-backup-lvm cinder-volume-lvm tgtd
cinder storage: cinder-backup-multiple cinder-volume-multiple
cloudkitty: cloudkitty-api cloudkitty-processor
compute storage ironic: iscsid
manila: manila-api manila-scheduler manila-data
barbican: barbican-api barbican-keystone-listener barbican-worker
heat: heat-api heat-api-cfn heat-engine
ironic: ironic-api ironic-conductor ironic-dnsmasq ironic-tftp ironic-http
magnum: magnum-api magnum-conductor
mistral: mistral-api mistral-executor mistral-engine mistral-event-engine
ceilometer: ceilometer-central ceilometer-notification
aodh: aodh-api aodh-evaluator aodh-listener aodh-notifier
cyborg: cyborg-api cyborg-conductor
gnocchi: gnocchi-api gnocchi-statsd gnocchi-metricd
trove: trove-api trove-conductor trove-taskmanager
compute storage: multipathd
watcher: watcher-api watcher-engine watcher-applier
octavia: octavia-api octavia-driver-agent octavia-health-manager octavia-housekeeping octavia-worker
designate: designate-api designate-central designate-producer designate-worker designate-sink
  designate-backend-bind9
placement: placement-api
skyline: skyline-apiserver skyline-console
tacker: tacker-server tacker-conductor
blazar: blazar-api blazar-manager
monitoring control compute network storage: prometheus-node-exporter prometheus-cadvisor
mariadb: prometheus-mysqld-exporter
memcached: prometheus-memcached-exporter
valkey: prometheus-valkey-exporter
ovn-controller-compute ovn-controller-network: ovn-controller
ovn-database: ovn-northd ovn-nb-db ovn-sb-db ovn-sb-db-relay
letsencrypt: letsencrypt-webserver letsencrypt-lego
"""
"""Each paragraph: groups, and after the colon the groups that consist of their hosts."""


def _parsed(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in text.replace("\n  ", " ").split("\n"):
        members, _, groups = line.partition(":")
        found |= {group: tuple(members.split()) for group in groups.split()}
    return found


CHILDREN = _parsed(_MEMBERS)
"""Group -> groups that it consists of."""

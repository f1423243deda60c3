"""The configuration files of the OpenStack services: one function per service, values in, text out.

Only what differs from the defaults is written; each comment says why it does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from weft.model.site import BOOTABLE, Hca, Node, Site
from weft.planning.export import policies
from weft.planning.fabric.functions import routing_id
from weftlab import ipu
from weftlab.layout import Layout

SECRET = "weft-lab"
REGION = "RegionOne"
PRODUCTS = {"h100": "2330", "a100": "20b2"}
"""GPU -> product id of its SXM board, as pci.ids has it."""
POLICIES = Path(policies.__file__).parent
DATABASES = ("keystone", "placement", "glance", "neutron", "nova_api", "nova", "nova_cell0")

Sections = dict[str, dict[str, object]]


def render(sections: Mapping[str, Mapping[str, object]]) -> str:
    """oslo.config's INI text; a list becomes the option repeated, a bool lower case."""
    lines: list[str] = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        for name, value in options.items():
            values: list[object] = list(value) if isinstance(value, list | tuple) else [value]
            lines.extend(f"{name} = {str(v).lower() if isinstance(v, bool) else v}" for v in values)
        lines.append("")
    return "\n".join(lines)


def database_url(layout: Layout, name: str) -> str:
    """SQLAlchemy's URL of a service's database, over MariaDB's socket."""
    return f"mysql+pymysql://root@localhost/{name}?unix_socket={layout.database_socket}"


def transport_url(layout: Layout) -> str:
    """oslo.messaging's URL of the lab's RabbitMQ."""
    return f"rabbit://guest:guest@127.0.0.1:{layout.port('rabbitmq')}/"


def common(layout: Layout, name: str, database: str | None = None) -> Sections:
    """Sections that all services have: logs, messages, database, locks."""
    data = layout.data / name
    return {
        "DEFAULT": {
            "log_dir": layout.log(name).parent,
            # Under WSGI the program's name is uwsgi's: without this all APIs write to one file.
            "log_file": f"{name}.log",
            "use_stderr": False,
            "state_path": data,
            "transport_url": transport_url(layout),
            "rpc_response_timeout": 120,
        },
        "oslo_concurrency": {"lock_path": data / "lock"},
        "oslo_messaging_notifications": {"driver": "noop"},
        "oslo_messaging_rabbit": {"rabbit_quorum_queue": False, "heartbeat_in_pthread": False},
        "database": {
            "connection": database_url(layout, database or name),
            "max_pool_size": 5,
            "max_overflow": 20,
        },
    }


def login(layout: Layout, user: str) -> dict[str, object]:
    """Options of keystoneauth by which a service's user signs in."""
    return {
        "auth_url": layout.url("keystone"),
        "auth_type": "password",
        "project_domain_id": "default",
        "user_domain_id": "default",
        "project_name": "service",
        "username": user,
        "password": SECRET,
        "region_name": REGION,
    }


def checks_tokens(layout: Layout, user: str, service_type: str) -> Sections:
    """Section by which a service checks its callers' tokens."""
    own = login(layout, user)
    del own["region_name"]
    return {
        "keystone_authtoken": {
            **own,
            "www_authenticate_uri": layout.url("keystone"),
            "service_token_roles_required": True,
            "service_token_roles": "service",
            "service_type": service_type,
        },
        "service_user": {**own, "send_service_user_token": True},
    }


def keystone(layout: Layout, env: Path) -> Sections:
    """keystone.conf: Fernet tokens, and what the lab's roles need."""
    data = layout.data / "keystone"
    sections = common(layout, "keystone")
    return {
        "DEFAULT": sections["DEFAULT"],
        "database": sections["database"],
        "fernet_tokens": {"key_repository": data / "fernet"},
        "fernet_receipts": {"key_repository": data / "fernet"},
        "credential": {"key_repository": data / "credential"},
        "token": {"expiration": 86400},
        # bcrypt's usual 12 rounds cost a quarter of a second of processor time for every sign-in.
        "identity": {"password_hash_rounds": 4},
        # One process, so that a cache inside it can't disagree with another's.
        "cache": {"enabled": True, "backend": "oslo_cache.dict"},
    }


def placement(layout: Layout, env: Path) -> Sections:
    """placement.conf."""
    sections = common(layout, "placement")
    return {
        "DEFAULT": {k: v for k, v in sections["DEFAULT"].items() if not k.startswith(("transport", "rpc"))},
        "placement_database": sections["database"],
        **checks_tokens(layout, "placement", "placement"),
    }


def glance(layout: Layout, env: Path) -> Sections:
    """glance-api.conf: images as files."""
    data = layout.data / "glance"
    sections = common(layout, "glance")
    sections["DEFAULT"].update({"enabled_backends": "fs:file"})
    return {
        **sections,
        "glance_store": {"default_backend": "fs"},
        "fs": {"filesystem_store_datadir": data / "images"},
        "os_glance_staging_store": {"filesystem_store_datadir": data / "staging"},
        "os_glance_tasks_store": {"filesystem_store_datadir": data / "tasks"},
        "paste_deploy": {"flavor": "keystone", "config_file": env / "etc/glance/glance-api-paste.ini"},
        **checks_tokens(layout, "glance", "image"),
    }


def neutron(layout: Layout, env: Path) -> Sections:
    """neutron.conf: ML2, routers, trunks, quotas, DNS names."""
    sections = common(layout, "neutron")
    sections["DEFAULT"].update(
        {
            "core_plugin": "ml2",
            "service_plugins": "router,trunk",
            "dns_domain": "lab.example.",
            "global_physnet_mtu": 9216,
            "api_paste_config": env / "etc/neutron/api-paste.ini",
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            # The stand-in agents report each minute: 40 hosts' reports are no load then.
            "agent_down_time": 180,
            # Nova's spawn without a hypervisor waits for no event, but real sites' Novas do.
            "notify_nova_on_port_status_changes": True,
            "notify_nova_on_port_data_changes": True,
        }
    )
    return {
        **sections,
        "quotas": {
            "quota_network": 20,
            "quota_subnet": 20,
            "quota_port": 300,
            "quota_router": 10,
            "quota_floatingip": 50,
            "quota_security_group": 20,
            "quota_security_group_rule": 200,
        },
        "ml2": {
            "type_drivers": "flat,vlan,vxlan",
            "tenant_network_types": "vxlan,vlan",
            "mechanism_drivers": "sriovnicswitch,openvswitch",
            # Names of ports in DNS are kept only with this, and with a domain that isn't Neutron's default.
            "extension_drivers": "port_security,dns_domain_ports",
            "physical_network_mtus": "sitenet:9216",
        },
        # Projects' own networks are VXLANs, and VLANs 2000 to 2999 when those are used up. The ranges that weft gives
        # out are in no pool of Neutron's: otherwise Neutron could give one of them to another port.
        "ml2_type_vxlan": {"vni_ranges": "1001:2000"},
        "ml2_type_vlan": {"network_vlan_ranges": "physnet1:2000:2999,ibnet,rocenet,datanet,sitenet"},
        "ml2_type_flat": {"flat_networks": "physext"},
        "securitygroup": {"firewall_driver": "noop", "enable_security_group": True},
        "oslo_policy": {"policy_file": POLICIES / "neutron.yaml"},
        "nova": login(layout, "nova"),
        "placement": login(layout, "placement"),
        **checks_tokens(layout, "neutron", "network"),
    }


def moves_path(layout: Layout) -> Path:
    """Nova's rules for servers of pods, with the id of weft's user in this lab."""
    return layout.etc / "nova" / "policy.d" / "moves.yaml"


def nova(layout: Layout, env: Path) -> Sections:
    """nova.conf: cells, scheduler, quotas, and the services that Nova asks."""
    sections = common(layout, "nova")
    sections["DEFAULT"].update(
        {
            "my_ip": "127.0.0.1",
            "reserved_host_memory_mb": 0,
            "initial_cpu_allocation_ratio": 1.0,
            "initial_ram_allocation_ratio": 1.0,
            "initial_disk_allocation_ratio": 1.0,
            "report_interval": 20,
            "service_down_time": 75,
        }
    )
    return {
        **sections,
        "api_database": {
            "connection": database_url(layout, "nova_api"),
            "max_pool_size": 5,
            "max_overflow": 20,
        },
        "api": {"auth_strategy": "keystone"},
        "wsgi": {"api_paste_config": env / "etc/nova/api-paste.ini"},
        # Real limits: two orders of 16 eight-GPU nodes fit.
        "quota": {"instances": 40, "cores": 4000, "ram": 41943040, "server_groups": 20},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": -1, "max_attempts": 10},
        "filter_scheduler": {
            "enabled_filters": "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,"
            "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,PciPassthroughFilter,"
            "AggregateInstanceExtraSpecsFilter,AggregateTypeAffinityFilter,NUMATopologyFilter",
            "track_instance_changes": False,
            # For servers without a requested host: without these a burst races for the same host's devices.
            "host_subset_size": 20,
            "shuffle_best_same_weighed_hosts": True,
        },
        "glance": {"endpoint_override": layout.url("glance")},
        "key_manager": {"backend": "nova.keymgr.conf_key_mgr.ConfKeyManager", "fixed_key": "0" * 64},
        "pci": {
            "alias": [
                json.dumps({"vendor_id": "10de", "product_id": p, "device_type": "type-PCI", "name": name})
                for name, p in PRODUCTS.items()
            ],
        },
        "oslo_policy": {"policy_file": POLICIES / "nova.yaml", "policy_dirs": moves_path(layout).parent},
        "placement": login(layout, "placement"),
        "neutron": {**login(layout, "neutron"), "service_metadata_proxy": True},
        **checks_tokens(layout, "nova", "compute"),
    }


def nova_compute(layout: Layout, env: Path) -> Sections:
    """Configuration that all hosts' nova-computes share; they must have no database."""
    sections = nova(layout, env)
    del sections["database"], sections["api_database"]
    sections["DEFAULT"].update(
        {
            "compute_driver": "weftlab_driver.SiteDriver",
            # Periodic work of 16 hosts on 2 cores: only what keeps the cloud true, and seldom.
            "heal_instance_info_cache_interval": -1,
            "volume_usage_poll_interval": 0,
            "shelved_poll_interval": -1,
            "update_resources_interval": 300,
            "sync_power_state_interval": 600,
        }
    )
    sections["image_cache"] = {"manager_interval": -1}
    return sections


def nova_host(layout: Layout, site: Site, node: Node) -> Sections:
    """One host: its name, folders, and which of its PCI devices may be given to servers."""
    host = node.nova_host
    data = layout.data / "nova" / host
    gpus = {
        "vendor_id": "10de",
        "product_id": PRODUCTS[node.accelerators[0].type if node.accelerators else "h100"],
    }
    hcas = [
        {
            "vendor_id": "15b3",
            "product_id": "1021",
            "address": h.pci,
            "physical_network": site.fabrics[h.fabric].physical_network,
        }
        for h in node.hcas
    ]
    networks = {site.fabrics[h.fabric].physical_network for h in node.hcas if h.vfs}
    hcas += [{"vendor_id": "15b3", "product_id": "101e", "physical_network": n} for n in sorted(networks)]
    return {
        "DEFAULT": {
            "host": host,
            "log_file": f"nova-compute@{host}.log",
            "state_path": data,
            "instances_path": data / "instances",
        },
        "oslo_concurrency": {"lock_path": data / "lock"},
        "pci": {"device_spec": [json.dumps(spec) for spec in _specs(node, gpus, hcas)]},
    }


def compute_nodes(site: Site) -> tuple[Node, ...]:
    """The nodes that have a nova-compute of their own."""
    return tuple(n for n in site.nodes if n.role in BOOTABLE and n.maintenance is None and n.machine is None)


def _specs(
    node: Node, gpus: Mapping[str, str], hcas: Sequence[Mapping[str, str]]
) -> tuple[Mapping[str, str], ...]:
    specs = {"compute": (gpus, *hcas), "poplar": (ipu.device_spec(),)}
    return specs.get(node.role, ())


def devices(node: Node) -> list[dict[str, object]]:
    """The host's PCI devices as Nova's virt drivers report them (`pci_passthrough_devices`), see
    nova/virt/libvirt/host.py; `mac` is for our driver's stand-in for sysfs."""
    if node.role == "poplar":
        return ipu.devices()

    def device(vendor: str, product: str, kind: str, address: str, numa: int) -> dict[str, object]:
        return {
            "address": address,
            "vendor_id": vendor,
            "product_id": product,
            "dev_type": kind,
            "numa_node": numa,
            "parent_addr": None,
            "status": "available",
            "label": f"label_{vendor}_{product}",
        }

    gpus = [device("10de", PRODUCTS[a.type], "type-PCI", a.pci, a.numa) for a in node.accelerators]
    return [
        *gpus,
        *({**device("15b3", "1021", "type-PF", h.pci, h.numa), "mac": h.mac} for h in node.hcas),
        *(
            {**device("15b3", "101e", "type-VF", function_address(h, i), h.numa), "parent_addr": h.pci}
            for h in node.hcas
            for i in range(h.vfs)
        ),
    ]


def function_address(hca: Hca, number: int) -> str:
    """PCI address of a virtual function; those of an adapter are on one bus."""
    assert hca.vf_pci is not None
    at = routing_id(hca.vf_pci) + number
    return f"{at >> 16:04x}:{at >> 8 & 0xFF:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"


def compute_id(host: str) -> str:
    """The stable identity of a host in Nova (its compute node and its resource provider)."""
    return str(uuid5(NAMESPACE_DNS, host))

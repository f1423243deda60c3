"""Configuration of Ironic, of Nova's compute for machines, and of the BMC emulator."""

from __future__ import annotations

from pathlib import Path

from weft.model.site import Site
from weftlab import config
from weftlab.config import Sections
from weftlab.layout import Layout
from weftlab.metal.machines import HOST, mac, machines
from weftlab.switches.labsite import lab_ovs
from weftlab.switches.openvswitch import SWITCHES

USER = "ironic"
CLEANING_NETWORK = "machines-cleaning"


INTERFACES = {
    "bios": "redfish",
    "boot": "fake",
    "console": "no-console",
    "deploy": "lab",
    "firmware": "redfish",
    "inspect": "lab",
    "management": "redfish",
    "network": "neutron",
    "power": "redfish",
    "raid": "no-raid",
    "rescue": "fake",
    "storage": "noop",
    "vendor": "no-vendor",
}
"""Kind of hardware interface -> the one that every machine has."""
BOOTING = {"boot": "lab-virtual-media", "console": "lab", "deploy": "lab-ramdisk"}
"""Interfaces of machines that boot."""


def ironic(layout: Layout, boots: bool = False) -> Sections:
    """API and conductor in one process, without RPC. Args: boots: the machines do."""
    data = layout.data / "ironic"
    interfaces = {**INTERFACES, **(BOOTING if boots else {})}
    nothing = f"{layout.url('bmc')}/images/none"
    return {
        "DEFAULT": {
            "log_dir": layout.log("ironic").parent,
            "log_file": "ironic.log",
            "use_stderr": False,
            "auth_strategy": "keystone",
            "rpc_transport": "none",
            # Users of project `service` with role `service` (Nova, weft) act on all nodes; they can't enroll any.
            "rbac_service_role_elevated_access": True,
            "host": "ironic1",
            "my_ip": "127.0.0.1",
            "tempdir": data,
            "state_path": data,
            "enabled_hardware_types": "lab",
            **{f"enabled_{kind}_interfaces": name for kind, name in interfaces.items()},
            "isolinux_bin": "/usr/lib/ISOLINUX/isolinux.bin",
        },
        "database": {"connection": config.database_url(layout, "ironic")},
        "oslo_concurrency": {"lock_path": data / "lock"},
        "oslo_messaging_notifications": {"driver": "noop"},
        "api": {
            "host_ip": "127.0.0.1",
            "port": layout.port("ironic"),
            "public_endpoint": layout.url("ironic"),
        },
        "conductor": {
            "automated_clean": True,
            "automatic_lessee_source": "none",  # a lessee's members may write the node's mark
            "sync_power_state_interval": 30,
            "clean_callback_timeout": 0,
            "record_step_flows_in_history": True,
            # Virtual media wants to know an agent, which nothing boots.
            "deploy_kernel": nothing,
            "deploy_ramdisk": nothing,
        },
        "deploy": {"http_root": data / "http", "http_url": f"{layout.url('bmc')}/images"},
        "pxe": {"tftp_root": data / "tftp"},
        "dhcp": {"dhcp_provider": "none"},
        **_others(layout),
    }


def _others(layout: Layout) -> Sections:
    """How Ironic signs in to the other services, and its networks in Neutron."""
    own = config.login(layout, USER) | {"auth_type": "password"}
    networks = ("cleaning", "provisioning", "inspection", "rescuing")
    return {
        "keystone_authtoken": {
            **own,
            "www_authenticate_uri": layout.url("keystone"),
            "service_token_roles_required": True,
            "service_token_roles": "service",
            "service_type": "baremetal",
        },
        "neutron": {**own, **{f"{name}_network": CLEANING_NETWORK for name in networks}},
        **{name: dict(own) for name in ("service_catalog", "glance", "nova", "swift")},
    }


def compute(layout: Layout) -> Sections:
    """Sections of the machines' nova-compute that differ from the others'."""
    data = layout.data / "nova" / HOST
    return {
        "DEFAULT": {
            "host": HOST,
            "log_file": f"nova-compute@{HOST}.log",
            "state_path": data,
            "instances_path": data / "instances",
            "compute_driver": "ironic.IronicDriver",
            # Machines become hypervisors, and change, without a notice to Nova.
            "update_resources_interval": 5,
            "periodic_fuzzy_delay": 0,
            "force_config_drive": True,
        },
        "oslo_concurrency": {"lock_path": data / "lock"},
        "ironic": {**config.login(layout, "nova"), "api_retry_interval": 1, "api_max_retries": 120},
    }


def emulator(layout: Layout, site: Site, boots: bool = False) -> str:
    """sushy-tools reads a Python file. Args: boots: the machines do."""
    systems = [
        {
            "uuid": node.machine,
            "name": node.name,
            "power_state": "Off",
            "nics": [{"mac": mac(index), "ip": f"10.77.0.{10 + index}"}],
        }
        for index, node in enumerate(machines(site))
    ]
    values: dict[str, object] = {
        "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
        "SUSHY_EMULATOR_LISTEN_PORT": layout.port("bmc"),
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_STATE_DIR": str(layout.data / "bmc"),
        "SUSHY_EMULATOR_AUTH_FILE": str(passwords_path(layout)),
        "SUSHY_EMULATOR_FAKE_SYSTEMS": systems,
    }
    if boots:
        values["WEFTLAB_BOOT"] = {
            "space": str(lab_ovs(layout).folder / f"{SWITCHES}.space"),
            "disks": str(layout.data / "machines"),
            "serial": str(layout.data / "bmc"),
            "consoles": str(layout.log("bmc").parent),
            "images": str(layout.data / "ironic" / "http"),
        }
    return "".join(f"{name} = {value!r}\n" for name, value in values.items())


def passwords_path(layout: Layout) -> Path:
    """The BMCs' account as an htpasswd file, which the emulator writes."""
    return layout.etc / "bmc" / "passwords"


def secret_path(layout: Layout) -> Path:
    """File with name and password for enrolling the machines; each lab has its own."""
    return layout.etc / "bmc" / "secret"

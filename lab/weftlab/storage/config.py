"""Configuration of Cinder and Manila, and of the filer."""

from __future__ import annotations

from pathlib import Path

from weft.model.site import NfsExport, Site, Storage
from weftlab import config
from weftlab.config import Sections
from weftlab.layout import Layout

NETWORK, CIDR, FILER, VLAN = "storage", "10.79.0.0/24", "10.79.0.2", 2901
"""The site's storage network: name, subnet, the filer's address, and a VLAN of those that weft doesn't give out."""
SHARE_TYPE = "nas"
OFFER = Storage(
    network=NETWORK,
    shares=True,
    share_type=SHARE_TYPE,
    volumes=True,
    exports={"home": NfsExport(location=f"{FILER}:/home")},
)
NFS_PORT = 2049
"""TCP port of the filer, in its own network namespace."""


def has_storage(site: Site) -> bool:
    """Whether a cloud of the site offers shares."""
    return any(cloud.storage.shares for cloud in site.clouds.values())


def folder(layout: Layout) -> Path:
    """The filer's folder."""
    return layout.data / "nas"


def cinder(layout: Layout, env: Path) -> Sections:
    """cinder.conf: volumes that are only recorded."""
    sections = _service(layout, env, "cinder", "block-storage")
    sections["DEFAULT"] |= {
        "enabled_backends": "fake",
        "default_volume_type": "__DEFAULT__",
        "resource_query_filters_file": env / "etc/cinder/resource_filters.json",
        "glance_api_servers": layout.url("glance"),
        "periodic_fuzzy_delay": 1,
    }
    return {
        **sections,
        # No device-mapper and no iSCSI target in the lab: the API's whole path is real, the blocks are not.
        "fake": {
            "volume_driver": "cinder.tests.fake_driver.FakeLoggingVolumeDriver",
            "volume_backend_name": "fake",
        },
        "key_manager": {"backend": "cinder.keymgr.conf_key_mgr.ConfKeyManager"},
        "nova": config.login(layout, "nova"),
    }


def manila(layout: Layout, env: Path) -> Sections:
    """manila.conf: NFS shares of the lab's filer."""
    sections = _service(layout, env, "manila", "shared-file-system")
    sections["DEFAULT"] |= {
        "enabled_share_backends": "nas",
        "enabled_share_protocols": "NFS",
        "default_share_type": SHARE_TYPE,
        "periodic_interval": 5,
        "scheduler_default_filters": "AvailabilityZoneFilter,CapacityFilter,CapabilitiesFilter",
    }
    here = folder(layout)
    return {
        **sections,
        "nas": {
            "share_driver": "weftlab_manila.GaneshaDriver",
            "share_backend_name": "nas",
            "driver_handles_share_servers": False,
            "weftlab_nas_folder": here,
            "weftlab_nas_address": FILER,
        },
        "oslo_policy": {"policy_file": config.POLICIES / "manila.yaml"},
    }


def with_cinder(sections: Sections, layout: Layout) -> Sections:
    """Nova's configuration with Cinder."""
    login = config.login(layout, "nova")
    return {**sections, "cinder": {**login, "os_region_name": login["region_name"], "catalog_info": _CATALOG}}


_CATALOG = "block-storage::publicURL"


def _service(layout: Layout, env: Path, name: str, service_type: str) -> Sections:
    sections = config.common(layout, name)
    sections["DEFAULT"] |= {
        "auth_strategy": "keystone",
        "host": f"{name}1",
        "my_ip": "127.0.0.1",
        "api_paste_config": env / f"etc/{name}/api-paste.ini",
        "rootwrap_config": env / f"etc/{name}/rootwrap.conf",
    }
    return {**sections, **config.checks_tokens(layout, name, service_type)}

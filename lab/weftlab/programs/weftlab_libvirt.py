# pyright: basic, reportMissingImports=false
"""Nova's own libvirt driver, on hosts that have the devices of the site, where guests are as small as this machine.

Everything is Nova's: claims, config drive, disks, the domain's description, plugging, power. What is different: the
host reports the devices and the amounts of the site (`weftlab.config.devices`), and what this machine doesn't have is
removed from Nova's domain before libvirt gets it (`guestdomain.py`).
"""

import json
import os
from pathlib import Path

from guestdomain import fitted
from nova.pci import utils as pci_utils
from nova.virt.libvirt import driver as libvirt


class GuestDriver(libvirt.LibvirtDriver):
    """One host of the site. Several have one libvirtd."""

    vcpus = 128
    memory_mb = 2048 * 1024

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        found = json.loads(Path(os.environ["WEFT_LAB_DEVICES"]).read_text())
        macs = {d["address"]: d["mac"] for d in found if "mac" in d}
        self._devices = json.dumps([{k: v for k, v in d.items() if k != "mac"} for d in found])
        # Nova reads a physical function's MAC address from the host's sysfs; these hosts have none of their own.
        pci_utils.get_mac_by_pci_address = lambda address, pf_interface=False: macs[address]
        self._host.get_hostname = lambda: libvirt.CONF.host
        self._host.get_memory_mb_total = lambda: self.memory_mb

    def _get_vcpu_available(self):
        return set(range(self.vcpus))

    def _get_pci_passthrough_devices(self):
        return self._devices

    def _get_host_numa_topology(self):
        """None, since this machine's topology is not the host's."""

    def _get_neutron_events(self, network_info):
        """Adapters that are passed through are up before the guest is described."""
        return super()._get_neutron_events([vif for vif in network_info if vif["type"] == "ovs"])

    def _get_guest_xml(self, context, instance, network_info, disk_info, image_meta, *args, **more):
        xml = super()._get_guest_xml(context, instance, network_info, disk_info, image_meta, *args, **more)
        return fitted(xml, image_meta.min_ram if "min_ram" in image_meta else 0)

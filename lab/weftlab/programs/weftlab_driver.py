# pyright: basic, reportMissingImports=false
"""A virt driver without hypervisor whose hosts have the PCI devices of the site, and nothing else that is pretended.

Everything above it is Nova's own: resource tracker, PCI claims, Neutron port bindings. Runs in OpenStack's
environment; the host's devices are a JSON list in the file named by $WEFT_LAB_DEVICES (`weftlab.config.devices`).
"""

import json
import os
from pathlib import Path

from nova.compute import power_state
from nova.pci import utils as pci_utils
from nova.virt import fake

_UNREPORTED = (
    "mac"  # the port's address is read from sysfs on a real host, not reported as part of the device
)


class SiteDriver(fake.FakeDriverWithoutFakeNodes):
    """One host of the site."""

    vcpus = 128
    memory_mb = 2048 * 1024
    local_gb = 30_000

    def __init__(self, virtapi, read_only=False):
        super().__init__(virtapi, read_only)
        found = json.loads(Path(os.environ["WEFT_LAB_DEVICES"]).read_text())
        macs = {d["address"]: d["mac"] for d in found if _UNREPORTED in d}
        self._devices = json.dumps([{k: v for k, v in d.items() if k != _UNREPORTED} for d in found])
        # Nova reads a physical function's MAC address from the host's sysfs; these hosts have none of their own.
        pci_utils.get_mac_by_pci_address = lambda address, pf_interface=False: macs[address]

    # A file by the server's id says to `weftlab.guests` that it was started here, and whether its power is on.

    def _tell(self, instance, state):
        folder = os.environ.get("WEFT_LAB_GUESTS")
        if not folder:
            return
        path = Path(folder) / instance.uuid
        if state is None:
            path.unlink(missing_ok=True)
        else:
            unfinished = path.with_suffix(".new")
            unfinished.write_text(state)
            unfinished.replace(path)

    def spawn(self, context, instance, *args, **more):
        super().spawn(context, instance, *args, **more)
        self._tell(instance, "on" if more.get("power_on", True) else "off")

    def power_on(self, context, instance, *args, **more):
        super().power_on(context, instance, *args, **more)
        self._tell(instance, "on")

    def power_off(self, instance, *args, **more):
        super().power_off(instance, *args, **more)
        self._tell(instance, "off")

    def destroy(self, context, instance, *args, **more):
        super().destroy(context, instance, *args, **more)
        self._tell(instance, None)

    def get_info(self, instance, use_cache=True):
        """After a restart of the compute, what the database calls active is running, as with a real hypervisor."""
        if instance.uuid not in self.instances and instance.vm_state == "active":
            self.instances[instance.uuid] = fake.FakeInstance(
                instance.name, power_state.RUNNING, instance.uuid
            )
        return super().get_info(instance, use_cache)

    def get_available_resource(self, nodename):
        return {**super().get_available_resource(nodename), "pci_passthrough_devices": self._devices}

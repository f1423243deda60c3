# pyright: basic, reportMissingImports=false
"""Ironic's plug-in of the lab: real Redfish power, and a deploy interface for machines that boot no agent.

Networks, power and the order of everything are as with Ironic's agent. A machine's disk is a folder below
$WEFTLAB_MACHINES: deploying writes the image's reference and the config drive's ISO into it, cleaning empties it and
checks that it is empty. A file `broken` in it makes cleaning fail, as a disk does that can't be erased.

Machines that boot are deployed by Ironic's own ramdisk interface, from virtual media, and have a file in that folder
as their disk. They are cleaned in the same way, from outside: an agent inside takes gigabytes and minutes.
"""

import base64
import contextlib
import functools
import gzip
import hashlib
import json
import os
import socket
import socketserver
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ironic.common import exception, states
from ironic.conductor import configdrive_utils, task_manager
from ironic.conductor import utils as conductor_utils
from ironic.drivers import base, redfish
from ironic.drivers.modules import agent, deploy_utils, fake, inspect_utils, noop, ramdisk
from ironic.drivers.modules.redfish import boot as redfish_boot
from ironic.drivers.modules.redfish import utils as redfish_utils

RAMDISK = "lab-ramdisk"
# At each request to a BMC Ironic derives the key of its session again: PBKDF2 with 600,000 rounds, 0.3 to 0.7 s of
# processor, four times a machine when it compares power states. The lab's two processors have no such time to give.
redfish_utils.hashlib = SimpleNamespace(pbkdf2_hmac=functools.lru_cache(hashlib.pbkdf2_hmac))
# Ironic asks for its own interface's name to know that a machine boots a ramdisk, and no disk.
deploy_utils.is_ramdisk_deploy = lambda node: node.get_interface("deploy") in ("ramdisk", RAMDISK)


class VirtualMedia(redfish_boot.RedfishVirtualMediaBoot):
    """Ironic 39 switches a machine off once the rescue system on its virtual media has the password, and calls it
    rescued, but login fails. Here it stays on, as one that has booted over the network does."""

    def clean_up_ramdisk(self, task):
        if task.node.provision_state != states.RESCUING:
            super().clean_up_ramdisk(task)


def disk(node):
    """Folder that stands for a machine's disk."""
    folder = Path(os.environ["WEFTLAB_MACHINES"]) / node.uuid
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Cleaned:
    """Cleaning without an agent: the disk is a folder."""

    def get_clean_steps(self, task):
        """The steps below, as for deploy interfaces without an agent."""
        return base.DeployInterface.get_clean_steps(self, task)

    def execute_clean_step(self, task, step):
        """Run a step at once."""
        return base.DeployInterface.execute_clean_step(self, task, step)

    def prepare_cleaning(self, task):
        """Put the machine on the cleaning network and switch it on."""
        with conductor_utils.power_state_for_network_configuration(task):
            task.driver.network.add_cleaning_network(task)
        conductor_utils.node_power_action(task, states.POWER_ON)

    def tear_down_cleaning(self, task):
        """Switch the machine off and take it off the cleaning network."""
        conductor_utils.node_power_action(task, states.POWER_OFF)
        with conductor_utils.power_state_for_network_configuration(task):
            task.driver.network.remove_cleaning_network(task)

    @base.clean_step(priority=10)
    def erase_devices(self, task):
        """Overwrite every file of the machine's disk; fails if the disk was made broken."""
        folder = disk(task.node)
        if (folder / "broken").exists():
            raise exception.NodeCleaningFailure(node=task.node.uuid, reason="the disk can't be written")
        for file in folder.iterdir():
            file.write_bytes(bytes(file.stat().st_size))
            file.unlink()

    @base.clean_step(priority=5)
    def verify_erased(self, task):
        """Fails if the machine's disk has a file."""
        if left := [f.name for f in disk(task.node).iterdir()]:
            raise exception.NodeCleaningFailure(node=task.node.uuid, reason=f"left: {', '.join(left)}")


class LabDeploy(Cleaned, fake.FakeDeploy):
    """Deploys as the agent's interface does, but without an agent."""

    @task_manager.require_exclusive_lock
    def prepare(self, task):
        if task.node.provision_state == states.DEPLOYING:
            task.driver.network.validate(task)
            conductor_utils.node_power_action(task, states.POWER_OFF)
            with conductor_utils.power_state_for_network_configuration(task):
                task.driver.network.unconfigure_tenant_networks(task)
                task.driver.network.add_provisioning_network(task)

    @base.deploy_step(priority=100)
    @task_manager.require_exclusive_lock
    def deploy(self, task):
        info = task.node.instance_info
        deploy_utils.parse_instance_info(task.node)  # refuses a partition image without a size
        (disk(task.node) / "image").write_text(str(info.get("image_source")))
        drive = configdrive_utils.get_configdrive_image(task.node)
        iso = gzip.decompress(base64.b64decode(drive)) if drive else b""
        (disk(task.node) / "config-drive").write_bytes(iso)
        conductor_utils.node_power_action(task, states.POWER_OFF)
        with conductor_utils.power_state_for_network_configuration(task):
            task.driver.network.remove_provisioning_network(task)
            task.driver.network.configure_tenant_networks(task)
        conductor_utils.node_power_action(task, states.POWER_ON)

    @task_manager.require_exclusive_lock
    def tear_down(self, task):
        conductor_utils.node_power_action(task, states.POWER_OFF)
        with conductor_utils.power_state_for_network_configuration(task):
            task.driver.network.unconfigure_tenant_networks(task)
            # if it failed before the tenant's networks were configured
            task.driver.network.remove_provisioning_network(task)
        return states.DELETED


class LabRamdisk(Cleaned, ramdisk.RamdiskDeploy):
    """Ironic's own ramdisk interface: an image boots from virtual media, with the config drive in another device."""

    @base.deploy_step(priority=100)
    @task_manager.require_exclusive_lock
    def deploy(self, task):
        task.node.set_instance_info("ramdisk_kernel_arguments", "console=ttyS0 panic=1")
        return super().deploy(task)


class Relay(socketserver.ThreadingTCPServer):
    """A machine's serial port on a TCP port of this host, also while it is off and on again.

    Args:
        path: of QEMU's socket, which takes one client at a time.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, path):
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._path, self._clients = path, set()

    def finish_request(self, request: Any, client_address):
        """Pass bytes between a client and the serial line until one of both ends."""
        self._clients.add(request)
        gone, serials = threading.Event(), []
        threading.Thread(target=self._typed, args=(request, gone, serials), daemon=True).start()
        while not gone.wait(0.2):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as serial:
                serial.connect(self._path)
                serials[:] = [serial]
                while data := serial.recv(4096):
                    request.sendall(data)

    @staticmethod
    def _typed(request, gone, serials):
        """Pass on what a client types, until it disconnects."""
        with contextlib.suppress(OSError):
            while data := request.recv(4096):
                for serial in serials:
                    with contextlib.suppress(OSError):
                        serial.sendall(data)
        gone.set()
        for serial in serials:
            with contextlib.suppress(OSError):
                serial.shutdown(socket.SHUT_RDWR)

    def end(self):
        """Close the server and all clients."""
        self.shutdown()
        self.server_close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


class LabConsole(base.ConsoleInterface):
    """Serial consoles of machines that boot, as Ironic's own by socat have them: a URL without a login."""

    def __init__(self):
        self._relays = {}

    def get_properties(self):
        return {}

    def validate(self, task):
        pass

    def start_console(self, task):
        self.stop_console(task)
        path = Path(os.environ["WEFTLAB_MACHINES"]).parent / "bmc" / f"{task.node.name}.sock"
        relay = self._relays[task.node.uuid] = Relay(str(path))
        threading.Thread(target=relay.serve_forever, daemon=True).start()

    def stop_console(self, task):
        if relay := self._relays.pop(task.node.uuid, None):
            relay.end()

    def get_console(self, task):
        host, port = self._relays[task.node.uuid].server_address
        return {"type": "socat", "url": f"tcp://{host}:{port}"}


class LabInspect(base.InspectInterface):
    """Reads what the agent would find from a file beside the machines' disks."""

    def get_properties(self):
        return {}

    def validate(self, task):
        pass

    def inspect_hardware(self, task):
        folder = Path(os.environ["WEFTLAB_MACHINES"]).parent / "inspections"
        seen = json.loads((folder / f"{task.node.uuid}.json").read_text())
        disk = seen["inventory"]["disks"][0]["size"] >> 30
        task.node.properties = {"cpu_arch": "x86_64", "local_gb": disk, **task.node.properties}
        task.node.save()
        inspect_utils.store_inspection_data(task.node, seen["inventory"], seen["plugin_data"], task.context)
        return states.MANAGEABLE


class LabHardware(redfish.RedfishHardware):
    """A machine with a Redfish BMC."""

    @property
    def supported_deploy_interfaces(self):
        return [LabDeploy, LabRamdisk]

    @property
    def supported_console_interfaces(self):
        return [LabConsole, noop.NoConsole]

    @property
    def supported_inspect_interfaces(self):
        return [LabInspect]

    @property
    def supported_rescue_interfaces(self):
        return [fake.FakeRescue, agent.AgentRescue]

    @property
    def supported_boot_interfaces(self):
        return [fake.FakeBoot, VirtualMedia]

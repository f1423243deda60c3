# pyright: basic, reportMissingImports=false
"""The part of the Open vSwitch agent that puts plugged ports into their VLANs, for hosts whose servers run.

Like the real agent it follows the database of Open vSwitch (`ovsdb-client monitor`, no polling): of an interface that
libvirt has plugged it asks Neutron, sets the VLAN's tag, and says that the device is up; of one that is gone, that it
is down. $WEFT_LAB_OVSDB names the database.
"""

import json
import os
import subprocess
import time

from dhcp import Servers
from neutron_lib import context

SECONDS = 20
TRIES = 20
PAUSE = 0.5
VXLANS = 1999
"""VXLANs 1001 to 2000 are VLANs 3000 to 3999."""
NOWHERE = 4095
"""Neutron's own dead VLAN."""


def vsctl(*words):
    command = ["ovs-vsctl", f"--db={os.environ['WEFT_LAB_OVSDB']}", f"--timeout={SECONDS}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def changes(lines):
    """Of the monitor's lines: name, action (initial, insert, new, delete) and Neutron port of plugged interfaces."""
    for line in lines:
        table = json.loads(line)
        columns = table["headings"]
        for row in table["data"]:
            found = dict(zip(columns, row, strict=True))
            ids = dict(found["external_ids"][1]) if found["external_ids"] else {}
            if found["action"] != "old" and "iface-id" in ids:
                yield found["name"], found["action"], ids["iface-id"]


def follow(bridges, plugin):
    """Until this process ends. Args: bridges: integration bridge -> host."""
    known, dhcp = {}, Servers(vsctl)
    while True:
        command = ["ovsdb-client", "--format=json", "monitor", os.environ["WEFT_LAB_OVSDB"], "Interface"]
        with subprocess.Popen([*command, "name,external_ids"], stdout=subprocess.PIPE, text=True) as monitor:
            for name, action, port in changes(monitor.stdout):
                try:
                    if action == "delete" and name in known:
                        dhcp.drop(known[name][0])
                        down(plugin, *known.pop(name))
                    elif action != "delete" and known.get(name, ("",))[0] != port:
                        host = bridges.get(vsctl("iface-to-br", name))
                        if host and up(plugin, dhcp, name, port, host):
                            known[name] = (port, host)
                except Exception as error:
                    print("plug", name, port, repr(error)[:300], flush=True)
        time.sleep(1)


def vlan_of(told):
    """A network's VLAN on the hosts' bridges; of a VXLAN one that is no network's (`weftlab.config.neutron`)."""
    number = told.get("segmentation_id")
    return {"vlan": number, "vxlan": number and number + VXLANS}.get(told.get("network_type"))


def up(plugin, dhcp, name, port, host):
    """Tag, serve, then report. False if Neutron has no such port bound to the host: then nothing is let through."""
    admin = context.get_admin_context_without_session()
    told = {}
    for _ in range(TRIES):
        try:
            told = plugin.get_device_details(admin, port, f"agents-{host}", host)
            vlan = vlan_of(told)
            if vlan is not None:
                vsctl("set", "port", name, f"tag={vlan}")
                dhcp.add(told, vlan)
                plugin.update_device_up(admin, port, f"agents-{host}", host)
                print("plugged", name, port, host, "VLAN", vlan, flush=True)
                return True
        except Exception as error:  # Neutron may be busy: Nova waits for this port
            print("plug", name, port, repr(error)[:300], flush=True)
        time.sleep(PAUSE)
    vsctl("set", "port", name, f"tag={NOWHERE}")
    print("not plugged", name, port, host, told, flush=True)
    return False


def down(plugin, port, host):
    admin = context.get_admin_context_without_session()
    plugin.update_device_down(admin, port, f"agents-{host}", host)
    print("unplugged", port, host, flush=True)

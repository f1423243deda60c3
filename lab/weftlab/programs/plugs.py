# pyright: basic, reportMissingImports=false
"""The part of the Open vSwitch agent that puts plugged ports into their VLANs, for hosts whose servers run.

Like the real agent it follows the database of Open vSwitch (`ovsdb-client monitor`, no polling). An interface that
libvirt has plugged is in every VLAN at first, so it is shut at once; then this asks Neutron, sets the VLAN's tag, and
reports the device up. An interface that is gone is reported down. $WEFT_LAB_OVSDB names the database.
"""

import contextlib
import json
import os
import subprocess
import threading
import time

from dhcp import Servers

SECONDS = 20
TRIES = 20
PAUSE, LATER = 0.5, 5.0
"""Seconds between the first tries of ports that can't be plugged yet, and between later ones."""
VXLANS = 1999
"""VXLANs 1001 to 2000 are VLANs 3000 to 3999."""
NOWHERE = 4095
"""Neutron's dead VLAN. Open vSwitch forwards it like any other, so ports in it are shut, too."""


def vsctl(*words):
    """Run `ovs-vsctl` on the lab's database; returns what it prints. Raises `CalledProcessError`."""
    command = ["ovs-vsctl", f"--db={os.environ['WEFT_LAB_OVSDB']}", f"--timeout={SECONDS}", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def shut(name):
    """Shut an interface that is in no network's VLAN: no frame passes from or to it. Whether it was shut.

    Not by taking the interface down: libvirt puts it up when the guest starts.
    """
    if vsctl("get", "port", name, "tag") not in ("[]", str(NOWHERE)):
        return False
    vsctl("set", "port", name, f"tag={NOWHERE}")
    _mod_port(name, "no-receive", "no-forward")
    return True


def admit(name, vlan):
    """Put a bridge's port into a VLAN and let frames pass."""
    vsctl("set", "port", name, f"tag={vlan}")
    _mod_port(name, "receive", "forward")


def _mod_port(name, *changes):
    bridge = vsctl("iface-to-br", name)
    for change in changes:
        command = ["ovs-ofctl", f"--timeout={SECONDS}", "mod-port", bridge, name, change]
        subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def tables():
    """Tables of the monitor: first one with all interfaces of the database, then one for each change."""
    command = ["ovsdb-client", "--format=json", "monitor", os.environ["WEFT_LAB_OVSDB"], "Interface"]
    with subprocess.Popen([*command, "name,external_ids"], stdout=subprocess.PIPE, text=True) as monitor:
        try:
            yield map(json.loads, monitor.stdout or ())
        finally:
            monitor.terminate()


def changes(table):
    """Rows of the monitor's table: name, action (initial, insert, new, delete) and Neutron port of plugged interfaces.

    Where an interface was replaced within one transaction, the end of the old one comes first.
    """
    found = [dict(zip(table["headings"], row, strict=True)) for row in table["data"]]
    for row in sorted(found, key=lambda r: r["action"] != "delete"):
        ids = dict(row["external_ids"][1]) if row["external_ids"] else {}
        if row["action"] != "old" and "iface-id" in ids:
            yield row["name"], row["action"], ids["iface-id"]


def follow(bridges, plugin, admin):
    """Follow the database for good. Args: bridges: integration bridge -> host; admin: makes a context for Neutron."""
    plugs = Plugs(bridges, plugin, admin, Servers(vsctl))
    threading.Thread(target=plugs.work, daemon=True).start()
    while True:
        with tables() as updates:
            for table in updates:
                plugs.seen(table)
        time.sleep(1)


def vlan_of(details):
    """A network's VLAN on the hosts' bridges; for a VXLAN network one outside of all networks
    (`weftlab.config.neutron`)."""
    number = details.get("segmentation_id")
    return {"vlan": number, "vxlan": number and number + VXLANS}.get(details.get("network_type"))


class Plugs:
    """What is plugged. One thread calls `seen`, which never waits for Neutron; another one `work`, which does."""

    def __init__(self, bridges, plugin, admin, dhcp):
        self._bridges, self._plugin, self._admin, self._dhcp = bridges, plugin, admin, dhcp
        self._changed = threading.Condition()
        self._there = {}  # name -> Neutron port, number of the plugging
        self._known = {}  # name -> the same, and the host if it is one of ours
        self._count = 0

    def seen(self, table):
        """Shut newly plugged ports before anything else, without waiting for Neutron."""
        rows = list(changes(table))
        if any(row[1] == "initial" for row in table["data"]):
            names = {name for name, *_ in rows}
            with self._changed:  # what ended while no thread listened
                self._there = {n: v for n, v in self._there.items() if n in names}
        for name, action, port in rows:
            is_new = action == "insert" or self._there.get(name, ("",))[0] != port
            try:
                if action != "delete" and vsctl("iface-to-br", name) in self._bridges:
                    is_new = shut(name) or is_new
            except Exception as error:  # `up` tries it again
                print("shut", name, port, repr(error)[:300], flush=True)
            with self._changed:
                self._count += 1
                if action == "delete":
                    self._there.pop(name, None)
                elif is_new:
                    self._there[name] = (port, self._count)
        with self._changed:
            self._changed.notify()

    def work(self):
        """Settle ports as they come and go, forever; those that fail are tried again."""
        count, tries = 0, 0
        while True:
            before, count = count, self._count
            left = self.settle()
            tries = tries + 1 if count == before else 0
            with self._changed:
                if count == self._count:
                    self._changed.wait((PAUSE if tries < TRIES else LATER) if left else None)

    def settle(self):
        """Try once for each port that isn't as it should be; returns those that are left."""
        with self._changed:
            there = dict(self._there)
        for name in [n for n, (was, _) in self._known.items() if there.get(n) != was]:
            (port, _), host = self._known.pop(name)
            if host:
                self._tried(name, port, lambda port=port: self._dhcp.drop(port))
                self._tried(name, port, lambda port=port, host=host: self.down(port, host))
        for name in there.keys() - self._known.keys():
            port = there[name][0]
            self._tried(name, port, lambda name=name: self.up(name, there[name]))
        return there.keys() - self._known.keys()

    def _tried(self, name, port, change):
        try:
            change()
        except Exception as error:  # Neutron may be busy: Nova waits for this port
            print("plug", name, port, repr(error)[:300], flush=True)

    def up(self, name, what):
        """Tag a port, serve it, then report it up. Raises LookupError if Neutron has no such port bound to the host."""
        port, host = what[0], self._bridges.get(vsctl("iface-to-br", name))
        if host:
            shut(name)
            details = self._plugin.get_device_details(self._admin(), port, f"agents-{host}", host)
            vlan = vlan_of(details)
            if vlan is None:
                raise LookupError(f"not bound to {host}: {details}")
            admit(name, vlan)
            self._dhcp.add(details, vlan)
            self._plugin.update_device_up(self._admin(), port, f"agents-{host}", host)
            print("plugged", name, port, host, "VLAN", vlan, flush=True)
        self._known[name] = (what, host)

    def down(self, port, host):
        """Report a port down to Neutron."""
        self._plugin.update_device_down(self._admin(), port, f"agents-{host}", host)
        print("unplugged", port, host, flush=True)

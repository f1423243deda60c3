#!/usr/bin/env bash
# cloud-init finds the IPoIB interface that OpenStack's network_data.json means, and its netplan renderer leaves it out silently.
#
# Version:   cloud-init 22.4.2-1+deb12u4 (Debian 12)
# Expected:  both renderers write the same interfaces: an Ethernet and an InfiniBand one, each with its address.
# Behaviour: the parsed configuration has both (type infiniband for ib0); systemd-networkd's files have both; the netplan file has
#            the Ethernet one only, without a warning. A server with netplan (Ubuntu's default) comes up without its IPoIB address.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
apt-get -q download cloud-init=22.4.2-1+deb12u4 >/dev/null 2>&1
dpkg -x cloud-init_*.deb root
python3 -m venv v
v/bin/pip install -q --disable-pip-version-check pyyaml==6.0.2 jinja2==3.1.6 jsonpatch==1.33 requests==2.32.5 configobj==5.0.9 jsonschema==4.25.1
PYTHONPATH=root/usr/lib/python3/dist-packages v/bin/python - <<'PY'
import pathlib

import yaml
from cloudinit import net
from cloudinit.net import netplan, networkd
from cloudinit.net.network_state import parse_net_config_data
from cloudinit.sources.helpers.openstack import convert_net_json

ETHERNET, IPOIB = "52:54:00:00:00:01", "80:00:00:28:fe:80:00:00:00:00:00:00:00:11:22:03:00:33:44:56"
sysfs = pathlib.Path("sys")
for name, address, kind in (("eno1", ETHERNET, 1), ("ib0", IPOIB, 32)):
    (sysfs / name / "device").mkdir(parents=True)
    files = {"address": address, "type": kind, "addr_assign_type": 0, "operstate": "down", "ifindex": 2, "dev_id": "0x0"}
    for file, text in files.items():
        (sysfs / name / file).write_text(f"{text}\n")
net.get_sys_class_path = lambda: f"{sysfs}/"

links = [("l0", ETHERNET, "10.0.0.5"), ("l1", "00:11:22:33:44:56", "10.1.0.5")]  # 48 bits of an IPoIB address, as Neutron keeps it
document = {
    "links": [{"id": link, "type": "phy", "ethernet_mac_address": mac} for link, mac, _ in links],
    "networks": [
        {"id": f"n{link}", "link": link, "type": "ipv4", "ip_address": address, "netmask": "255.255.255.0", "routes": []}
        for link, _, address in links
    ],
    "services": [],
}
config = convert_net_json(document)
state = parse_net_config_data(config)
read = [(row["type"], row["name"]) for row in config["config"]]
by_networkd = sorted(networkd.Renderer()._render_content(state))
written = yaml.safe_load(netplan.Renderer({"netplan_path": "x", "postcmds": False})._render_content(state))["network"]
by_netplan = sorted(name for kind in written.values() if isinstance(kind, dict) for name in kind)
print(f"read: {read}; networkd: {by_networkd}; netplan: {by_netplan}")
assert (read, by_networkd, by_netplan) == ([("physical", "eno1"), ("infiniband", "ib0")], ["eno1", "ib0"], ["eno1"]), "the behaviour has changed"
PY

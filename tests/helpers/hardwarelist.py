"""A small hardware list with every kind of hardware and every attribute, which a test may change."""

from __future__ import annotations

from pathlib import Path

from weft.app.hardwarelists import read_list
from weft.app.siteimport import Imported, import_site, write_import
from weft.model.errors import InputError, InputErrors

SITE = """\
name: two-racks
clouds:
  main:
    external_network: public
    management: {physical_network: physnet-m, segments: {first: 1000, last: 1099}, addresses: 10.64.0.0/16}
    rdma_addresses: 10.128.0.0/16
    flavors:
      vipu-controller: {}
fabrics:
  ib0:
    physical_network: ib0
    segments: {first: 101, last: 226}
    manager: {driver: opensm}
ipu_pods:
  pod1:
    topology: mesh
    data: {physical_network: physnet-d, segments: {first: 1100, last: 1199}, addresses: 10.5.1.0/24}
    gateway:
      network: ipu-gw
      physical_network: physnet-1g
      vlan: 13
      addresses: 10.2.0.0/24
      controllers: 10.2.0.128/26
      managed_from: 10.2.0.192/28
      keys_in_clear: true
    bmc: {physical_network: physnet-1g, vlan: 13, addresses: 10.1.0.0/24}
    controller: {image: openvipu, flavor: vipu-controller}
networks:
  ipu-gw:
    physical_network: physnet-1g
    vlan: 13
    subnets:
      bmc: {role: bmc, addresses: 10.1.0.0/24, pool: {first: 10.1.0.200, last: 10.1.0.254}}
      gw: {role: gateway, addresses: 10.2.0.0/24, pool: {first: 10.2.0.224, last: 10.2.0.254}}
  infra:
    physical_network: physnet-1g
    vlan: 99
    subnets:
      infra:
        role: infrastructure
        addresses: 10.3.0.0/24
        gateway: 10.3.0.1
        pool: {first: 10.3.0.200, last: 10.3.0.254}
  storage:
    physical_network: physnet-d
    vlan: 12
    mtu: 9000
    shared_with: [0123456789abcdef0123456789abcdef]
    subnets:
      storage: {role: storage, addresses: 10.12.0.0/24, pool: {first: 10.12.0.100, last: 10.12.0.254}}
"""

COLUMNS = [
    "name", "kind", "rack", "ipu_pod", "position", "ports", "port_gbps", "mtu", "fabric", "level",
    "guid", "bmc_mac", "bmc_address", "bmc_vlan", "bmc_switch", "bmc_port", "gw_mac", "gw_address",
    "gw_switch", "gw_port", "rnic_mac", "rnic_address", "rnic_vlan", "rnic_switch", "rnic_port",
    "eth0_mac", "eth0_address", "eth0_dns_name", "eth0_network", "eth0_vlan", "eth0_switch", "eth0_port",
    "eth0_rate_gbps", "mlx5_0_mac", "mlx5_0_fabric", "mlx5_0_guid", "mlx5_0_port_guid", "mlx5_0_pci",
]  # fmt: skip

GOOD: dict[str, dict[str, str]] = {
    "mgmt1": {
        "kind": "switch", "rack": "r1", "ports": "Ethernet[1-8]", "port_gbps": "1", "mtu": "1500",
        "eth0_mac": "28:99:3a:00:00:01", "eth0_address": "10.3.0.2",
    },
    "tor1": {
        "kind": "switch", "rack": "r1", "ports": "Ethernet[1-32]/1", "port_gbps": "100", "mtu": "9214",
        "eth0_mac": "28:99:3a:00:00:02", "eth0_address": "10.3.0.3", "eth0_switch": "mgmt1", "eth0_port": "Ethernet7",
    },
    "pdu1": {
        "kind": "pdu", "rack": "r1", "eth0_mac": "00:c0:b7:00:00:01", "eth0_address": "10.3.0.4",
        "eth0_dns_name": "power1", "eth0_vlan": "99", "eth0_switch": "mgmt1", "eth0_port": "8",
    },
    "nas1": {
        "kind": "storage", "eth0_mac": "00:a0:98:00:00:01", "eth0_network": "storage", "eth0_switch": "tor1",
        "eth0_port": "Ethernet31/1", "eth0_rate_gbps": "100",
    },
    "ipum1": {
        "kind": "ipu-machine", "rack": "r1", "position": "1",
        "bmc_mac": "70:69:79:00:00:02", "bmc_address": "10.1.0.1", "bmc_vlan": "13", "bmc_switch": "mgmt1",
        "bmc_port": "1",
        "gw_mac": "70:69:79:00:00:03", "gw_address": "10.2.0.1", "gw_switch": "mgmt1", "gw_port": "2",
        "rnic_mac": "0c:42:a1:00:00:01", "rnic_address": "10.5.1.1", "rnic_vlan": "1101", "rnic_switch": "tor1",
        "rnic_port": "Ethernet9/1",
    },
    "ipum2": {
        "kind": "ipu-machine", "rack": "r1", "position": "2",
        "bmc_mac": "70:69:79:00:00:04", "bmc_address": "10.1.0.2", "bmc_switch": "mgmt1", "bmc_port": "3",
        "gw_mac": "70:69:79:00:00:05", "gw_address": "10.2.0.2", "gw_switch": "mgmt1", "gw_port": "4",
        "rnic_mac": "0c:42:a1:00:00:02", "rnic_address": "10.5.1.2", "rnic_switch": "tor1", "rnic_port": "10",
    },
    "poplar1": {
        "kind": "poplar", "rack": "r1", "bmc_mac": "2c:ea:7f:00:00:01", "bmc_address": "10.3.0.10",
        "bmc_switch": "mgmt1", "bmc_port": "5",
    },
    "gpu1": {
        "kind": "compute", "rack": "r2", "bmc_mac": "2c:ea:7f:00:00:02", "bmc_address": "10.3.0.11",
        "mlx5_0_mac": "b8:59:9f:00:00:10", "mlx5_0_fabric": "ib0", "mlx5_0_guid": "0xb8599f0300000010",
        "mlx5_0_port_guid": "0xb8599f0300000010", "mlx5_0_pci": "0000:c5:00.0",
    },
}  # fmt: skip
"""Name -> cells; each is a row, from line 2 on."""


class HardwareList:
    """`hardware.csv` and `site.yaml` in a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = {name: {"name": name, **cells} for name, cells in GOOD.items()}
        self.columns = list(COLUMNS)
        self.site_text = SITE

    def spoil(self, row: str, **cells: str) -> None:
        """Changes cells of a row; new columns are added."""
        self.rows[row] |= cells
        self.columns += [c for c in cells if c not in self.columns]

    def write(self) -> None:
        lines = [",".join(self.columns)]
        lines += [",".join(row.get(c, "") for c in self.columns) for row in self.rows.values()]
        (self.folder / "hardware.csv").write_text("\n".join(lines) + "\n")
        (self.folder / "site.yaml").write_text(self.site_text)

    def imported(self, output: Path | None = None) -> Imported:
        """The import of the list. Raises `InputErrors`."""
        errors: list[InputError] = []
        records = read_list(str(self.folder / "hardware.csv"), {}, errors)
        site = str(self.folder / "site.yaml")
        found = import_site(site, records, errors)
        if output is not None:
            write_import(found, site, str(output))
        return found

    def errors(self, output: Path | None = None) -> list[str]:
        """Errors of the import, one sentence each, without the directory's name."""
        try:
            self.imported(output)
        except InputErrors as error:
            return [str(e).replace(f"{self.folder}/", "") for e in error.errors]
        return []

"""Writes a site as the files that ibsim, opensm and the agents read; hosts have the same names as in the cloud."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from weft.fabricagent.tls import make_certificates
from weft.model.ids import format_guid
from weft.model.site import FabricAgent, Hca, Node, Site
from weftlab.layout import LabError, Layout

MAX_DESCRIPTION = 31
"""ibsim cuts what SIM_HOST names after that many characters (umad2sim `sim_client.c`)."""


@dataclass(frozen=True, slots=True)
class FabricFolder:
    """Where one simulated fabric keeps its things, and what its clients need in their environment."""

    layout: Layout
    fabric: str

    @property
    def folder(self) -> Path:
        """Everything of one fabric."""
        return self.layout.data / f"fabric-{self.fabric}"

    @property
    def net(self) -> Path:
        """The network as ibsim reads it."""
        return self.folder / "net"

    @property
    def commands(self) -> Path:
        """The fifo that ibsim takes commands from."""
        return self.folder / "commands"

    @property
    def tls(self) -> Path:
        """Certificates of all agents of the lab."""
        return self.layout.state / "tls"

    @property
    def socket(self) -> str:
        """Name of the simulation: abstract sockets are one space for the machine, so labs must differ."""
        return "weft-" + hashlib.sha256(f"{self.layout.state}/{self.fabric}".encode()).hexdigest()[:12]

    def of(self, agent: str) -> Path:
        """Files of one agent and its subnet manager."""
        return self.folder / agent

    def client(self, description: str) -> dict[str, str]:
        """Environment that makes a program's umad calls go to the simulator, as the node of that description."""
        return {"IBSIM_SOCKNAME": self.socket, "SIM_HOST": description, "LD_PRELOAD": str(library())}


def library() -> Path:
    """ibsim's stand-in for libibumad; its bare name while ibsim's package is still to be installed."""
    return next(iter(sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))), Path("libumad2sim.so"))


def description(node: Node, hca: Hca) -> str:
    """The adapter's node description, as a Linux host sets it. Raises `LabError` if the simulator would cut it."""
    text = f"{node.name} {hca.name}"
    if len(text) > MAX_DESCRIPTION:
        raise LabError(f"{text!r} is too long for the simulator: at most {MAX_DESCRIPTION} characters")
    return text


def manager_port(site: Site, fabric: str, agent: FabricAgent) -> tuple[Node, Hca]:
    """The node and HCA that an agent's subnet manager runs on. Raises `LabError` if there is none."""
    node = site.node_by_name.get(agent.node or agent.name)
    if node is None or not node.hcas_on(fabric):
        raise LabError(f"agent {agent.name} needs a node with an HCA on {fabric}: set `node` in the site")
    return node, node.hcas_on(fabric)[0]


def net_text(site: Site, fabric: str) -> str:
    """ibsim's net file; a cable is written at both of its ends. Raises `LabError` for what ibsim can't show."""
    names = {s.name: s.name for s in site.switches if s.fabric == fabric}
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            if hca.port_guid != hca.guid + 1:
                raise LabError(f"{node.name}/{hca.name}: in ibsim the port's GUID is the node's plus one")
            names[f"{node.name}/{hca.name}"] = description(node, hca)
    ports: dict[str, list[tuple[int, str, int]]] = {end: [] for end in names}
    for link in site.links:
        if link.a in names and link.b in names:
            ports[link.a].append((link.a_port, link.b, link.b_port))
            ports[link.b].append((link.b_port, link.a, link.a_port))
    return "\n".join(_records(site, fabric, names, ports))


def _records(
    site: Site, fabric: str, names: dict[str, str], ports: dict[str, list[tuple[int, str, int]]]
) -> Iterator[str]:
    def cables(end: str) -> Iterator[str]:
        for port, other, other_port in sorted(ports[end]):
            yield f'[{port}]\t"{names[other]}"[{other_port}]'
        yield ""

    for switch in site.switches:
        if switch.fabric == fabric:
            yield f"switchguid={switch.guid or 0:#x}"
            yield f'Switch {switch.ports} "{switch.name}"'
            yield from cables(switch.name)
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            yield f"caguid={hca.guid:#x}"
            yield f'Ca 1 "{description(node, hca)}"'
            yield from cables(f"{node.name}/{hca.name}")


def partitions_text(managers: Sequence[int]) -> str:
    """The operator's part of partitions.conf: hosts reach the subnet managers and no other port."""
    members = ",\n".join(f"{format_guid(g)}=full" for g in managers)
    return (
        "# Every host is a limited member of the default partition: it reaches the subnet managers, no other host.\n"
        f"Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full,\n{members};\n"
    )


def opensm_text(folder: Path) -> str:
    """opensm.conf of a manager with files in `folder`."""
    settings = {
        "partition_config_file": folder / "partitions.conf",
        "log_file": folder / "opensm.log",
        "accum_log_file": "FALSE",
        "force_log_flush": "TRUE",
        "log_flags": "0x03",
        "dump_files_dir": folder / "dump",
        "sminfo_polling_timeout": 1000,
        "polling_retry_number": 2,
        "sweep_interval": 10,
        "max_wire_smps": 16,
        "max_wire_smps2": 16,
        "console": "off",
    }
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def agent_document(site: Site, place: FabricFolder, agent: FabricAgent) -> dict[str, object]:
    """Settings of a fabric agent, which it reads as YAML."""
    url = urlsplit(agent.url)
    folder = place.of(agent.name)
    return {
        "name": agent.name,
        "site": site.name,
        "listen": {"host": url.hostname, "port": url.port},
        "tls": {
            "ca": str(place.tls / "ca.pem"),
            "certificate": str(place.tls / f"agent-{agent.name}.pem"),
            "key": str(place.tls / f"agent-{agent.name}.key"),
        },
        "opensm": {
            "partitions_file": str(folder / "partitions.conf"),
            "log_file": str(folder / "opensm.log"),
            "options_file": str(folder / "opensm.conf"),
            "pid_file": str(folder / "opensm.pid"),
        },
    }


def write_files(site: Site, place: FabricFolder) -> None:
    """Everything that the fabric's programs read; partition files that are there already stay as they are."""
    agents = site.fabrics[place.fabric].manager.agents
    managers = [manager_port(site, place.fabric, a)[1].port_guid for a in agents]
    place.folder.mkdir(parents=True, exist_ok=True)
    place.net.write_text(net_text(site, place.fabric))
    make_certificates(place.tls, {a.name: [urlsplit(a.url).hostname or ""] for a in agents})
    for agent in agents:
        folder = place.of(agent.name)
        for sub in ("dump", "cache", "tmp"):
            (folder / sub).mkdir(parents=True, exist_ok=True)
        options, text = folder / "opensm.conf", opensm_text(folder)
        if not options.exists() or options.read_text() != text:  # a manager that runs has read it before
            options.write_text(text)
        (folder / "agent.yaml").write_text(
            yaml.safe_dump(agent_document(site, place, agent), sort_keys=False)
        )
        partitions = folder / "partitions.conf"
        if not partitions.exists():
            partitions.write_text(partitions_text(managers))

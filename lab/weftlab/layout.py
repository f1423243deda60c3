"""Where a lab is: its settings, its folders and its ports. Everything else is derived from these values."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

DEFAULT_PORTS = 21000
PORTS_EACH = 60
MAX_SOCKET_PATH = 107  # bytes of sockaddr_un.sun_path without the final zero, unix(7)

PORT_OFFSETS = {
    "keystone": 0,
    "placement": 1,
    "glance": 2,
    "neutron": 3,
    "nova": 4,
    "front": 5,
    "ironic": 6,
    "bmc": 7,
    "weft": 9,
    "cinder": 8,
    "manila": 13,
    "ldap": 14,
    "rabbitmq": 10,
    "rabbitmq-dist": 11,
    "epmd": 12,
    "agent-sm1": 20,
    "agent-sm2": 21,
    "probe": 25,
    "ufm-1": 22,
    "ufm-2": 23,
    "ufm-control": 24,
    "liar": 30,
    "liar-keystone": 31,
    "liar-placement": 32,
    "liar-glance": 33,
    "liar-neutron": 34,
    "liar-nova": 35,
    "prometheus": 58,
    **{f"switch-{n}": 39 + n for n in range(1, 19)},
}


class LabError(Exception):
    """The lab can't do what was requested; `str()` is one sentence for the user."""


def default_state() -> Path:
    """$WEFT_LAB_STATE, else the user's state folder; root's is not under /root, since the embedded PostgreSQL runs
    as another user then and would open that folder to all users."""
    if given := os.environ.get("WEFT_LAB_STATE"):
        return Path(given)
    return Path("/var/lib/weft-lab") if os.geteuid() == 0 else Path.home() / ".local/state/weft/lab"


def default_cache() -> Path:
    """`~/.cache/weft`."""
    return Path.home() / ".cache/weft"


@dataclass(frozen=True, slots=True)
class Settings:
    """What `weft lab up` was asked for; kept in the state folder, so that `down` and `status` need no flags.

    Attributes:
        nodes, leaves, spines, hcas: shape of the fabric.
        computes: how many of the nodes have a nova-compute.
        ipus: IPUs of the IPU-POD beside them; 0: none.
        ports: first of `PORTS_EACH` TCP ports on loopback.
        left_out: services that aren't started.
        fabric_only: no OpenStack at all.
        fabric_manager: what weft speaks to: `opensm`, the fabric's own, or `ufm`, a stand-in in front of them.
        liar: weft talks to OpenStack through the liar.
        fabric: `infiniband`, `ethernet` (switches by Open vSwitch), or `both`, with four nodes more.
        switches: what those speak: `eos`, `nvue`, `sonic`, `ovs`, or `mixed`, each something else.
        tenant_networks: Neutron has `mlnx_sdn_assist`, which notifies weft of tenants' own networks.
        metal: bare-metal machines in Ironic.
        machines_by: who deploys them: `nova`, by its ironic driver, or `ironic` alone.
        guests: servers of GPU nodes run, as small guests.
        storage: Cinder, and Manila with a filer.
        ldap: a customer's directory, and a Keystone that can read it.
        neutron_processes: of its API; clouds have one a processor.
        probes: an agent sends frames from the adapters of the Ethernet fabric when weft asks.
    """

    nodes: int
    leaves: int
    spines: int
    hcas: int
    computes: int
    ipus: int = 16
    ports: int = DEFAULT_PORTS
    left_out: tuple[str, ...] = ()
    fabric_only: bool = False
    fabric_manager: str = "opensm"
    liar: bool = False
    fabric: str = "infiniband"
    switches: str = "mixed"
    tenant_networks: bool = False
    metal: int = 0
    machines_by: str = "nova"
    guests: bool = False
    storage: bool = False
    ldap: bool = False
    neutron_processes: int = 1
    probes: bool = True


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one lab. `state` is its own; `cache` is shared by all labs of the user."""

    state: Path
    cache: Path
    ports: int

    def port(self, name: str) -> int:
        """TCP port of a service on 127.0.0.1."""
        return self.ports + PORT_OFFSETS[name]

    def url(self, name: str) -> str:
        """`http://127.0.0.1:PORT` of a service."""
        return f"http://127.0.0.1:{self.port(name)}"

    @property
    def etc(self) -> Path:
        """Configuration of all services."""
        return self.state / "etc"

    @property
    def data(self) -> Path:
        """Data of all services."""
        return self.state / "data"

    @property
    def run(self) -> Path:
        return self.state / "run"

    @property
    def work(self) -> Path:
        """Working folders of processes."""
        return self.state / "work"

    @property
    def site(self) -> Path:
        """weft's site file with its tables."""
        return self.state / "site"

    @property
    def site_path(self) -> Path:
        """weft's site file."""
        return self.site / "site.yaml"

    @property
    def clouds_yaml(self) -> Path:
        """Profiles of all users of the lab."""
        return self.state / "clouds.yaml"

    @property
    def liar_clouds_yaml(self) -> Path:
        """Weft's own user with the liar's address of Keystone, which leads to the liar's of everything else."""
        return self.etc / "liar" / "clouds.yaml"

    @property
    def settings_path(self) -> Path:
        """The settings with which the lab was started."""
        return self.state / "lab.json"

    @property
    def database_socket(self) -> Path:
        """MariaDB's socket."""
        return self.state / "mysql.sock"

    def log(self, name: str) -> Path:
        """A service's log."""
        return self.state / "log" / f"{name}.log"

    def check(self) -> None:
        """Raise `LabError` if the paths or the ports can't be used."""
        if len(os.fsencode(self.database_socket)) > MAX_SOCKET_PATH:
            raise LabError(
                f"the state folder {self.state} is too deep: {self.database_socket} is the path of a unix "
                f"socket and may have {MAX_SOCKET_PATH} bytes; give a shorter --state"
            )
        if not 1024 <= self.ports <= 65535 - PORTS_EACH:
            raise LabError(f"--ports {self.ports} is not allowed: 1024 to {65535 - PORTS_EACH}")

    def taken_ports(self) -> dict[str, int]:
        """Names and numbers of this lab's ports that are in use."""
        return {name: self.port(name) for name in PORT_OFFSETS if not _is_free(self.port(name))}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a connection that was closed a moment ago doesn't hold the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(first: int = 23000, last: int = 31000) -> int:
    """A base whose ports are all free now; below the range of outgoing connections (32768 and up).

    Raises `LabError` if there is none. Starts at a place that depends on the process, so that two don't meet.
    """
    bases = list(range(first, last, PORTS_EACH))
    start = os.getpid() % len(bases)
    for base in (*bases[start:], *bases[:start]):
        if not Layout(Path("/"), Path("/"), base).taken_ports():
            return base
    raise LabError(f"no {PORTS_EACH} free ports in {first} to {last}")


def save(layout: Layout, settings: Settings) -> None:
    """Write the settings of a started lab, for later commands."""
    layout.state.mkdir(parents=True, exist_ok=True)
    layout.settings_path.write_text(json.dumps(asdict(settings), indent=1) + "\n")


def load(state: Path) -> Settings | None:
    """Settings of the lab in that folder, or None if there is none."""
    try:
        values: dict[str, Any] = json.loads((state / "lab.json").read_text())
        values["left_out"] = tuple(values["left_out"])
        return Settings(**values)
    except (OSError, ValueError, TypeError, KeyError):
        return None

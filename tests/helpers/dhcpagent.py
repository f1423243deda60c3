"""The real neutron-dhcp-agent beside a lab: its dnsmasq in a namespace a network, which is what sites resolve names by.

Of ours is only how its interfaces are plugged: each is one end of a veth pair, since nothing needs to reach it but who
asks in its namespace. Agent, namespaces, dnsmasq and their files are gone when it ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from weftlab.environment import environment_path
from weftlab.lab import Lab

HOST = "names"
PLUG = """
from neutron.agent.linux import interface, ip_lib


class Plug(interface.LinuxInterfaceDriver):
    def plug_new(self, network_id, port_id, device_name, mac_address, bridge=None, namespace=None, prefix=None,
                 mtu=None, link_up=True):
        ours, theirs = ip_lib.IPWrapper().add_veth("x" + device_name[3:], device_name, namespace2=namespace)
        theirs.link.set_address(mac_address)
        ours.link.set_up()
        theirs.link.set_up()

    def unplug(self, device_name, bridge=None, namespace=None, prefix=None):
        ip_lib.IPDevice(device_name, namespace=namespace).link.delete()
"""
ASK = """
import sys
import dns.exception
import dns.resolver
asked = dns.resolver.Resolver(configure=False)
asked.nameservers, asked.lifetime = [sys.argv[1]], 2
for name in sys.argv[2:]:
    try:
        print(name, *sorted(r.address for r in asked.resolve(name, "A")))
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        print(name)
    except dns.exception.DNSException:
        print(name, "?")
"""


class Names:
    """Asks the agent's dnsmasq of a network, from within its namespace."""

    def __init__(self, cloud: Any) -> None:
        self._cloud = cloud

    def serve(self, network: str) -> bool:
        """Schedule a network that was there before the agent; whether the agent is alive to serve it."""
        agent = next((a for a in self._cloud.network.agents(host=HOST) if a.is_alive), None)
        if agent is not None:
            self._cloud.network.add_dhcp_agent_to_network(agent, network)
        return agent is not None

    def serves(self, network: str) -> bool:
        """Whether the agent has said that its port there is up."""
        return bool(self._server(network)) and _space(network).exists()

    def resolved(self, network: str, names: list[str]) -> dict[str, list[str]]:
        """Name -> addresses; empty: the resolver knows none; `?`: it doesn't answer, or refuses to."""
        space, server = _space(network), self._server(network)
        argv = ["nsenter", f"--net={space}", sys.executable, "-c", ASK, server, *names]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return {words[0]: words[1:] for line in done.stdout.splitlines() if (words := line.split())}

    def _server(self, network: str) -> str:
        ports = self._cloud.network.ports(network_id=network, device_owner="network:dhcp")
        return next((p.fixed_ips[0]["ip_address"] for p in ports if p.fixed_ips), "")


@contextlib.contextmanager
def dhcp_agent(lab: Lab, cloud: Any) -> Generator[Names]:
    """Args: cloud: connection of an administrator."""
    before = set(_spaces())
    with tempfile.TemporaryDirectory(prefix="weft-dhcp-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # dnsmasq reads its files again as nobody
        process = _begun(lab, folder)
        try:
            yield Names(cloud)
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Namespaces are the machine's: another lab may have begun some meanwhile.
            mine = {_space(network.id) for network in cloud.network.networks()}
            _remove(mine & set(_spaces()) - before)
            _forget(cloud)


def _begun(lab: Lab, folder: Path) -> subprocess.Popen[bytes]:
    env = environment_path(lab.layout.cache)
    (folder / "weft_plug.py").write_text(PLUG)
    options = {
        "DEFAULT": {
            "interface_driver": "weft_plug.Plug",
            "host": HOST,
            "state_path": folder,
            "dns_domain": "lab.example",
            "enable_isolated_metadata": False,
            "use_stderr": False,
        },
        "AGENT": {"root_helper": "env", "report_interval": 5},
        "oslo_concurrency": {"lock_path": folder / "locks"},
    }
    lines = [f"[{s}]\n" + "\n".join(f"{k} = {v}" for k, v in rows.items()) for s, rows in options.items()]
    (folder / "agent.ini").write_text("\n".join(lines) + "\n")
    argv = [str(env / "bin" / "neutron-dhcp-agent")]
    argv += ["--config-file", str(lab.layout.etc / "neutron" / "neutron.conf")]
    argv += ["--config-file", str(folder / "agent.ini"), "--log-file", str(lab.layout.log("neutron-dhcp"))]
    paths = {"PATH": f"{env / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin", "PYTHONPATH": str(folder)}
    with (folder / "out").open("wb") as out:
        return subprocess.Popen(
            argv, env={**os.environ, **paths}, cwd=folder, stdout=out, stderr=out, start_new_session=True
        )


def _space(network: str) -> Path:
    return Path("/run/netns") / f"qdhcp-{network}"


def _spaces() -> list[Path]:
    return sorted(Path("/run/netns").glob("qdhcp-*"))


def _remove(spaces: set[Path]) -> None:
    for space in spaces:
        pids = subprocess.run(
            ["ip", "netns", "pids", space.name], capture_output=True, text=True, check=False
        )
        for pid in pids.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(20):
            if subprocess.run(["ip", "netns", "delete", space.name], check=False).returncode == 0:
                break
            time.sleep(0.1)


def _forget(cloud: Any) -> None:
    for agent in cloud.network.agents(host=HOST):
        cloud.network.delete_agent(agent)
    for port in list(cloud.network.ports(device_owner="network:dhcp")):
        if port.device_id.startswith("dhcp") or port.device_id == "reserved_dhcp_port":
            cloud.network.delete_port(port)

"""Switches' management interfaces in front of a lab's bridges, each behind HTTPS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from weft.fabricagent.tls import make_certificates
from weftlab.switches.bridge import Bridge, Vlans
from weftlab.switches.eapi import Eapi
from weftlab.switches.front import PASSWORD, USER, Front, Server
from weftlab.switches.nvue import Nvue
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import FabricPlan
from weftlab.switches.probejob import PROBE
from weftlab.switches.restconf import Restconf

KINDS: Mapping[str, type[Front]] = {"eos": Eapi, "nvue": Nvue, "sonic": Restconf}


class Fronts:
    """Interfaces of all switches of a plan that don't speak Open vSwitch's own protocol.

    Attributes:
        by_name: switch -> its interface; `urls`: switch -> where it is managed, Open vSwitch's too.
        ca, credentials: files for weft.
    """

    def __init__(
        self,
        folder: Path,
        plan: FabricPlan,
        ovs: Ovs | None,
        ports: Mapping[str, int] | None = None,
        keep: bool = False,
    ) -> None:
        """Args:
        ovs: None: nothing forwards.
        ports: TCP port of each switch's interface; None: any that is free.
        keep: saved configurations are in `folder`, and are what switches start with.
        """
        folder.mkdir(parents=True, exist_ok=True)
        make_certificates(folder, {"switches": ["127.0.0.1"], PROBE: ["127.0.0.1"]})
        self.ca, self.credentials = folder / "ca.pem", folder / "switches.json"
        self.credentials.touch(mode=0o600)
        self.credentials.write_text(json.dumps({"default": {"user": USER, "password": PASSWORD}}))
        self.by_name: dict[str, Front] = {}
        self.bridges: dict[str, Bridge] = {}
        self.urls: dict[str, str] = {}
        self._servers: list[Server] = []
        self._ovs = ovs
        for switch in plan.switches:
            cabled = frozenset(e.number for e in plan.ends() if e.switch == switch.name)
            links = frozenset(e.number for c in plan.cables for e in (c.a, c.b) if e.switch == switch.name)
            if ovs is not None:
                self.bridges[switch.name] = Bridge(ovs, switch, cabled)
            if switch.speaks == "ovs":
                self.urls[switch.name] = f"unix:{ovs.socket if ovs else folder / 'db.sock'}"
                continue
            startup = folder / f"{switch.name}.startup" if keep else None
            front = KINDS[switch.speaks](switch, self.bridges.get(switch.name), links, startup)
            front.heard = plan.heard(switch.name)
            port = (ports or {}).get(switch.name, 0)
            server = Server(front, folder / "agent-switches.pem", folder / "agent-switches.key", port)
            self._servers.append(server)
            self.by_name[switch.name] = front
            self.urls[switch.name] = server.url

    def reset(self) -> None:
        """Every switch as it was first, without faults."""
        for name, bridge in self.bridges.items():
            bridge.forget()
            if name not in self.by_name:
                bridge.apply(dict.fromkeys(bridge.plan.by_name().values(), Vlans()))
                assert self._ovs is not None
                self._ovs.vsctl("clear", "bridge", name, "external_ids")
        for front in self.by_name.values():
            front.reset()

    def close(self) -> None:
        for server in self._servers:
            server.close()

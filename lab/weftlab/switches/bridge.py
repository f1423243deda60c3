"""One bridge's VLANs: what a switch's configuration comes to, put into Open vSwitch and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from weftlab.layout import LabError
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import SwitchPlan

NOWHERE = 4095
"""A tag that no frame may carry (IEEE 802.1Q-2022, table 9-2): a port that is in no VLAN has it. With no tag it would
be a trunk of all of them; and an empty list of trunks is all of them too."""


@dataclass(frozen=True, slots=True)
class Vlans:
    """VLANs that a port forwards: frames without a tag are in `untagged`, the others keep their tags."""

    untagged: int | None = None
    tagged: frozenset[int] = frozenset()


def settings(vlans: Vlans) -> list[str]:
    """Columns of the port's row, for `ovs-vsctl set port`; every column each time, so that nothing old is left."""
    tagged = sorted(vlans.tagged - {vlans.untagged})
    if not tagged:
        tag = NOWHERE if vlans.untagged is None else vlans.untagged
        # Ports that are in no VLAN have the same tag, and must not reach each other.
        return ["vlan_mode=access", f"tag={tag}", "trunks=[]", f"protected={str(tag == NOWHERE).lower()}"]
    if vlans.untagged is None:
        return ["vlan_mode=trunk", "tag=[]", f"trunks={json.dumps(tagged)}", "protected=false"]
    trunks = sorted({*tagged, vlans.untagged})
    return [
        "vlan_mode=native-untagged",
        f"tag={vlans.untagged}",
        f"trunks={json.dumps(trunks)}",
        "protected=false",
    ]


class Bridge:
    """The bridge of one switch; ports are the switch's numbers."""

    def __init__(self, ovs: Ovs, plan: SwitchPlan, cabled: frozenset[int]) -> None:
        self.plan, self._ovs, self._cabled = plan, ovs, cabled
        self._applied: dict[int, Vlans] = {}

    def apply(self, ports: Mapping[int, Vlans]) -> None:
        """Set several ports in one transaction; the others stay. Raises `LabError`: then none was changed.

        Ports without a cable have no interface here: what is configured on them is the switch's own affair.
        """
        commands: list[str] = []
        for number, vlans in ports.items():
            if number in self._cabled and self._applied.get(number) != vlans:
                commands += ["--", "set", "port", self.plan.interface(number), *settings(vlans)]
        if commands:
            self._ovs.vsctl(*commands[1:])
            self._applied.update(ports)

    def forget(self) -> None:
        """Forget what was set, as ports may have been changed elsewhere: the next `apply` sets all that it is given."""
        self._applied.clear()

    def statistics(self) -> dict[int, dict[str, int]]:
        """What Open vSwitch has counted on every cabled port, by its own names. Raises `LabError`."""
        rows = json.loads(self._ovs.vsctl("--format=json", "--columns=name,statistics", "list", "interface"))
        by_name = {name: dict(statistics[1]) for name, statistics in rows["data"]}
        return {n: by_name[self.plan.interface(n)] for n in self._cabled}

    def read(self) -> dict[int, Vlans]:
        """What Open vSwitch has on every cabled port. Raises `LabError` for a row that means something else."""
        rows = json.loads(
            self._ovs.vsctl("--format=json", "--columns=name,vlan_mode,tag,trunks", "list", "port")
        )
        by_name = {row[0]: row[1:] for row in rows["data"]}
        return {n: _vlans(by_name[self.plan.interface(n)]) for n in self._cabled}


def _vlans(row: list[object]) -> Vlans:
    mode, tag, trunks = row
    tags = [tag] if isinstance(tag, int) else []
    many = frozenset([trunks] if isinstance(trunks, int) else trunks[1])  # type: ignore[index]
    if mode == "access" and tags:
        return Vlans(None if tags[0] == NOWHERE else tags[0])
    if mode == "trunk" and many:
        return Vlans(None, many)
    if mode == "native-untagged" and tags and many:
        return Vlans(tags[0], many - {tags[0]})
    raise LabError(
        f"a port with vlan_mode {mode}, tag {tag} and trunks {trunks}: that is a trunk of VLANs not named"
    )

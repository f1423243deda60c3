"""The network of an interface in a list: by its name, its address or its VLAN. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.model.hardware import HardwareRecord
from weft.model.site import SiteNetwork
from weft.planning.hardware.where import address_of

Wrong = Callable[[HardwareRecord, str, str | None, str], None]
"""Record, column, value, and what is allowed."""


class Finder:
    """Finds the network of one interface.

    Args:
        wrong: called with each problem.
    """

    def __init__(
        self, networks: Mapping[str, SiteNetwork], record: HardwareRecord, interface: str, wrong: Wrong
    ) -> None:
        self._networks, self._record, self._interface, self._wrong = networks, record, interface, wrong

    def _report(self, attribute: str, value: str | None, allowed: str) -> None:
        self._wrong(self._record, f"{self._interface}_{attribute}", value, allowed)

    def find(self, name: str, texts: Mapping[str, str]) -> tuple[str | None, str | None]:
        """The interface's network, and its subnet if the list names one."""
        found, _, subnet = texts.get("network", "").partition("/")
        networks = self._networks
        if not found:
            found = self._by_address(name, texts) or ""
            if not found:
                return None, None
        elif found not in networks:
            listed = ", ".join(sorted(networks)) or "there are none"
            self._report("network", found, f"networks of the site file: {listed}")
            return None, None
        elif subnet and subnet not in networks[found].subnets:
            listed = ", ".join(sorted(networks[found].subnets))
            self._report("network", texts["network"], f"subnets of {found}: {listed}")
            return None, None
        vlan, its = texts.get("vlan"), networks[found].vlan
        if vlan is not None and vlan != str(its):
            allowed = f"{its or 'none'}, the VLAN of network {found}"
            self._report("vlan", vlan, allowed)
        return found, subnet or None

    def _by_address(self, name: str, texts: Mapping[str, str]) -> str | None:
        networks = self._networks
        address, vlan = address_of(texts.get("address")), texts.get("vlan")
        if address is not None:
            found = [
                n for n, one in networks.items() if any(address in s.addresses for s in one.subnets.values())
            ]
            blocks = sorted({str(s.addresses) for one in networks.values() for s in one.subnets.values()})
            allowed = f"an address in a network of the site file: {', '.join(blocks) or 'it has none'}"
            column, value = "address", texts["address"]
        elif "address" in texts:
            self._report("address", texts["address"], "an IPv4 address such as 10.1.0.5")
            return None
        elif vlan is not None:
            found = [n for n, one in networks.items() if str(one.vlan) == vlan]
            known = sorted({str(one.vlan) for one in networks.values() if one.vlan})
            allowed = f"a VLAN of one network of the site file: {', '.join(known) or 'it has none'}"
            column, value = "vlan", vlan
        else:
            allowed = (
                f"network of {name}'s interface {self._interface}; or its address or VLAN, which identify it"
            )
            self._report("network", None, allowed)
            return None
        # Several: clouds of one site may use the same addresses.
        if len(found) == 1:
            return found[0]
        if found:
            allowed = f"{self._interface}_network must say which: {', '.join(sorted(found))}"
        self._report(column, value, allowed)
        return None

"""Random lists of a site: networks, hardware with its names, routers, groups by role, flavors, images, aggregates."""

from __future__ import annotations

import random
from typing import Any

from tests.engine.sitehouse import DEVICES, INTERFACES, SiteHouse
from tests.helpers.sitenetworks import GATEWAYS, STORAGE
from weft.app.sitefile import checked
from weft.model.base import Document
from weft.model.site import Device, Flavor, FlavorInNova, ImageProperties, Interface, Site, SiteNetwork

MANAGEMENT: dict[str, Any] = {
    "cloud": "lab",
    "physical_network": "physnet-m",
    "vlan": 21,
    "shared_with": ["team-a"],
    "subnets": {
        "hosts": {
            "role": "management",
            "addresses": "10.213.0.0/24",
            "gateway": "10.213.0.1",
            "pool": {"first": "10.213.0.100", "last": "10.213.0.254"},
        }
    },
}
PUBLIC: dict[str, Any] = {
    "cloud": "lab",
    "physical_network": "physext",
    "vlan": None,
    "subnets": {
        "p": {
            "role": "external",
            "addresses": "203.0.113.0/24",
            "gateway": "203.0.113.1",
            "dhcp": False,
            "pool": {"first": "203.0.113.100", "last": "203.0.113.254"},
        }
    },
}
NETWORKS = {"gateways": GATEWAYS, "storage": STORAGE, "management": MANAGEMENT, "public": PUBLIC}
VLANS = {"gateways": (13, 14), "storage": (12, 15), "management": (21, 22), "public": (None, 4)}
BLOCKS = ("10.201.0", "10.202.0", "10.212.0", "10.213.0", "203.0.113")
NUMA = "numa4"


class Lists:
    """A site's own lists, edited at random, also into ones that no site may have."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.networks: dict[str, Any] = {"gateways": GATEWAYS, "storage": STORAGE}
        self.interfaces: list[dict[str, Any]] = list(INTERFACES)
        self.flavor: dict[str, Any] | None = None
        self.image: dict[str, str] | None = None
        self.kept_free = "otherwise"

    def edited(self) -> tuple[str, Lists]:
        """The names of one to three random edits, and a copy with these."""
        other = Lists(self.dice)
        other.networks = {name: _copied(net) for name, net in self.networks.items()}
        other.interfaces = [dict(i) for i in self.interfaces]
        other.flavor, other.image, other.kept_free = self.flavor, self.image, self.kept_free
        edits = [other.network, other.vlan, other.shared, other.subnet, other.routed, other.interface]
        chosen = self.dice.choices(
            [*edits, other.names, other.nova, other.aggregate], k=self.dice.randint(1, 3)
        )
        return ", ".join(f"{edit.__name__} {edit() or ''}".strip() for edit in chosen), other

    def site(self, before: Site) -> Site:
        """The site with these lists. Raises `InputError` if no site may have them."""
        cloud = before.clouds["lab"]
        flavors = {n: f for n, f in cloud.flavors.items() if n != NUMA}
        if self.flavor is not None:
            nova = FlavorInNova(extra_specs=self.flavor["specs"])
            flavors[NUMA] = Flavor(cores=self.flavor["cores"], memory_mib=4096, numa_nodes=2, nova=nova)
        images = {} if self.image is None else {"gpu": ImageProperties(properties=self.image)}
        in_cloud = {"flavors": flavors, "images": images, "hosts_kept_free": self.kept_free}
        used = {i["device"] for i in self.interfaces}
        devices = [*DEVICES, *({"name": n, "kind": "other"} for n in ("m2", "m3"))]
        update: dict[str, Any] = {
            "networks": {n: SiteNetwork.model_validate(net) for n, net in self.networks.items()},
            "devices": tuple(Device.model_validate(d) for d in devices if d["name"] in {*used, "nas1"}),
            "interfaces": tuple(Interface.model_validate(i) for i in self.interfaces),
            "clouds": {"lab": cloud.model_copy(update=in_cloud)},
        }
        return checked(before.model_copy(update=update))

    # -- edits ------------------------------------------------------------------------------------------------------

    def network(self) -> str:
        """Add a network, or remove one together with its hardware."""
        name = self.dice.choice(sorted(NETWORKS))
        if name in self.networks:
            del self.networks[name]
            self.interfaces = [i for i in self.interfaces if i["network"] != name]
        else:
            self.networks[name] = _copied(NETWORKS[name])
        return name

    def _one(self) -> str | None:
        return self.dice.choice(sorted(self.networks)) if self.networks else None

    def vlan(self) -> str | None:
        if (name := self._one()) is not None:
            self.networks[name]["vlan"] = self.dice.choice(VLANS[name])
            self.networks[name]["mtu"] = self.dice.choice((1500, 9000))
        return name

    def shared(self) -> str | None:
        if (name := self._one()) is not None:
            teams = self.dice.sample(("team-a", "team-b", "team-c"), self.dice.randint(0, 3))
            self.networks[name]["shared_with"] = teams
        return name

    def subnet(self) -> str | None:
        """Add or remove a subnet, or change what may change in one."""
        if (name := self._one()) is None:
            return None
        subnets = self.networks[name]["subnets"]
        label = self.dice.choice(sorted(NETWORKS[name]["subnets"]))
        if label not in subnets:
            subnets[label] = dict(NETWORKS[name]["subnets"][label])
        elif len(subnets) > 1 and self.dice.random() < 0.4:
            block = subnets.pop(label)["addresses"].rpartition(".")[0]
            self.interfaces = [i for i in self.interfaces if not i["address"].startswith(f"{block}.")]
        else:
            block = subnets[label]["addresses"].rpartition(".")[0]
            last = self.dice.choice((200, 254))
            subnets[label]["pool"] = {
                "first": f"{block}.{self.dice.choice((100, 150))}",
                "last": f"{block}.{last}",
            }
            subnets[label]["dns"] = self.dice.choice(([], [f"{block}.2"], [f"{block}.2", f"{block}.4"]))
        return f"{name}/{label}"

    def routed(self) -> str | None:
        if (name := self._one()) is not None:
            for one in self.networks[name]["subnets"].values():
                one["nat"] = one.get("gateway") is not None and self.dice.random() < 0.5
        return name

    def interface(self) -> str:
        """Remove, add or replace a row of hardware."""
        dice = self.dice
        if self.interfaces and dice.random() < 0.4:
            return str(self.interfaces.pop(dice.randrange(len(self.interfaces))))
        if not self.networks:
            return ""
        name = dice.choice(sorted(self.networks))
        subnet = dice.choice(list(self.networks[name]["subnets"].values()))
        address = f"{subnet['addresses'].rpartition('.')[0]}.{dice.randint(5, 14)}"
        device, interface = dice.choice(("m1", "m2", "m3", "nas1")), dice.choice(("bmc", "gw", "eth0"))
        row = {
            "device": device,
            "name": interface,
            "network": name,
            "address": address,
            "mac": some_mac(dice),
        }
        others = [i for i in self.interfaces if (i["device"], i["name"]) != (device, interface)]
        self.interfaces = [*others, row]
        return str(row)

    def names(self) -> str:
        if not self.interfaces:
            return ""
        row = self.dice.choice(self.interfaces)
        row["dns_name"] = self.dice.choice((None, "filer", "nas", f"x{self.dice.randint(1, 3)}"))
        return f"{row['device']}-{row['name']} {row['dns_name']}"

    def nova(self) -> str:
        """Add, remove or change a flavor and an image."""
        specs = self.dice.choice(
            ({}, {"hw:mem_page_size": "large"}, {"hw:mem_page_size": "small", "x:y": "1"})
        )
        self.flavor = self.dice.choice((None, {"cores": self.dice.choice((4, 8)), "specs": specs}))
        self.image = self.dice.choice(
            (None, {"hw_numa_nodes": "2"}, {"hw_numa_nodes": "1", "os_type": "linux"})
        )
        return f"{self.flavor} {self.image}"

    def aggregate(self) -> str:
        """Let weft's own aggregates, or the operator, keep hosts free of other flavors."""
        self.kept_free = self.dice.choice(("aggregate", "otherwise"))
        return self.kept_free


def some_mac(dice: random.Random) -> str:
    return f"02:00:00:00:00:{dice.randint(1, 9):02x}"


def _copied(network: dict[str, Any]) -> dict[str, Any]:
    return {**network, "subnets": {n: dict(s) for n, s in network["subnets"].items()}}


def activated(house: SiteHouse, lists: Lists) -> None:
    """Activate a site with these lists, as an operator does. Raises `WeftError` if it is refused."""
    document: Document = lists.site(house.site)
    house.service.site.activate(house.operator, document.model_dump(mode="json"))
    house.site = house.store.site().site

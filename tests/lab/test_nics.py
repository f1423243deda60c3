"""Namespaces stand for passed-through adapters and follow Nova's servers and Neutron's ports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from weftlab.layout import LabError, Layout
from weftlab.site import make_site, settings
from weftlab.switches.nics import Adapters, ports_by


class Commands:
    """Records commands by namespace."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.broken = False

    def inside(self, name: str, argv: Sequence[str], text: str = "") -> str:
        if self.broken:
            raise LabError("no such namespace")
        self.lines += [(name, line) for line in text.splitlines()]
        return ""

    def of(self, name: str) -> list[str]:
        return [line for here, line in self.lines if here == name]


def port(host: str, slot: str, address: str = "10.128.0.1") -> dict[str, Any]:
    return {
        "mac_address": "02:00:00:00:00:01",
        "mtu": 9000,
        "binding:host_id": host,
        "binding:profile": {"pci_slot": slot},
        "fixed_ips": [{"ip_address": address, "subnet_id": "s", "prefix": "24"}],
    }


@pytest.fixture
def commands() -> Commands:
    return Commands()


def adapters(commands: Commands, ports: dict[str, list[dict[str, Any]]]) -> Adapters:
    site = make_site(
        settings(nodes=2, leaves=2, ipus=0, fabric="ethernet"), Layout(Path("/n"), Path("/n"), 23000)
    )
    return Adapters(site, commands, lambda server: ports[server])  # type: ignore[arg-type]


def test_started_server_has_its_ports_addresses_and_stopped_one_none(commands: Commands) -> None:
    mine = adapters(
        commands, {"s1": [port("roce01", "0000:40:00.0"), {**port("roce01", ""), "binding:profile": {}}]}
    )
    mine.look({"s1"})
    assert commands.of("roce01-mlx5_0")[-3:] == [
        "link set dev eth0 address 02:00:00:00:00:01 mtu 9000",
        "address add 10.128.0.1/24 dev eth0",
        "link set dev eth0 up",
    ]
    assert {name for name, _ in commands.lines} == {"roce01-mlx5_0"}, "the management port has no namespace"
    done = len(commands.lines)
    mine.look({"s1"})
    assert len(commands.lines) == done, "no command is run twice"
    mine.look(set())
    assert commands.of("roce01-mlx5_0")[-3:] == [
        "link set dev eth0 down",
        "address flush dev eth0",
        "neigh flush dev eth0",
    ]


def test_virtual_function_only_brings_its_adapter_up(commands: Commands) -> None:
    """It gets no address in a namespace, and stays up when a server with another function ends."""
    functions = {"s1": [port("roce01", "0000:40:00.2")], "s2": [port("roce01", "0000:40:00.3")]}
    mine = adapters(commands, functions)
    mine.look({"s1", "s2"})
    assert set(commands.lines) == {("roce01-mlx5_0", "link set dev eth0 up")}
    mine.look({"s2"})
    assert set(commands.lines) == {("roce01-mlx5_0", "link set dev eth0 up")}


def test_same_slot_of_another_host_is_another_adapter(commands: Commands) -> None:
    mine = adapters(commands, {"s1": [port("roce02", "0000:41:00.0")], "s2": [port("gpu01", "0000:40:00.0")]})
    mine.look({"s1", "s2"})
    assert {name for name, _ in commands.lines} == {"roce02-mlx5_1"}


def test_failed_setup_is_retried_at_the_next_look(commands: Commands) -> None:
    mine = adapters(commands, {"s1": [port("roce01", "0000:40:00.0")]})
    commands.broken = True
    with pytest.raises(LabError):
        mine.look({"s1"})
    commands.broken = False
    mine.look({"s1"})
    assert commands.of("roce01-mlx5_0")[-1] == "link set dev eth0 up"


def test_port_has_the_prefix_of_its_subnet_and_the_mtu_of_its_network() -> None:
    class Answer:
        def __init__(self, body: dict[str, Any]) -> None:
            self.body = body

        def json(self) -> dict[str, Any]:
            return self.body

    class Neutron:
        def get(self, path: str) -> Answer:
            if path.startswith("/ports"):
                assert path == "/ports?device_id=s1"
                address = {"ip_address": "10.0.0.1", "subnet_id": "x"}
                return Answer({"ports": [{"network_id": "n", "fixed_ips": [address]}]})
            if path == "/networks/n":
                return Answer({"network": {"mtu": 1450}})
            assert path == "/subnets/x"
            return Answer({"subnet": {"cidr": "10.0.0.0/22"}})

    [found] = ports_by(Neutron)("s1")
    assert (found["fixed_ips"][0]["prefix"], found["mtu"]) == ("22", 1450)

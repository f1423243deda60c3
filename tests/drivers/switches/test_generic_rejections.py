"""Commands that a networking-generic-switch device rejects, also if the library doesn't check its output."""

from __future__ import annotations

from typing import Any

import pytest

from weft.drivers.switches.access import SwitchCredentials
from weft.drivers.switches.genericdevice import GenericDevice, rejection
from weft.drivers.switches.vlans import Batch
from weft.model.errors import UnknownError
from weft.model.site import SwitchAccess

REJECTED = [
    "leaf1(config)#vlan 101\n            ^\n% Invalid input detected at '^' marker.\n\nleaf1(config)#",  # IOS
    "leaf1(config)# vlan 101\r\n                ^\r\n% Invalid command at '^' marker.\r\n",  # NX-OS
    "% Incomplete command.",
    '% Ambiguous command:  "sw ac"',
    "Command rejected: Bad VLAN list",
    "% Authorization failed.",
    "[leaf1]vlan 101\n                ^\n % Unrecognized command found at '^' position.",  # Comware
    " % Wrong parameter found at '^' position.",
    "[~leaf1]vlan 5000\n           ^\nError: Unrecognized command found at '^' position.",  # VRP
    "Error:Too many parameters found at '^' position.",
    "Error: Failed to pass the authorization.",
    "                 ^\nsyntax error, expecting <command>.",  # Junos
    "unknown command.",
    "error: syntax error: vlnas",
    '% Unrecognized command "valn".',  # Onyx
    "Invalid input -> untaged ethernet 1/1/1",  # FastIron
    "Parsing error: Unknown token 'x'",  # SR Linux
]
ACCEPTED = [
    "",
    "leaf1(config)#vlan 101\nleaf1(config-vlan)#name weft-101\n",
    "% Access VLAN does not exist. Creating vlan 101",
    "% Warning: port will be in the VLAN once it is a switchport",
    "Error: The VLAN does not exist.",  # a repeated removal
    "% VLAN 101 not found",
    "leaf1(config-vlan)#name unknown command\n",
    "Info: This operation may take a few seconds. Please wait for a moment...done.",
]


@pytest.mark.parametrize("output", REJECTED)
def test_rejected_command_is_not_accepted(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    with pytest.raises(UnknownError, match=r"switch leaf1.*it rejected a command: "):
        send(monkeypatch, output)


@pytest.mark.parametrize("output", ACCEPTED)
def test_other_output_is_no_rejection(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    send(monkeypatch, output)


def test_rejection_is_one_short_line() -> None:
    assert rejection("a\n %  Invalid  input " + "x" * 500 + "\nb").startswith("% Invalid input xxx")
    assert len(rejection("% Invalid input " + "x" * 500)) == 200


def send(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """Send a change to a device that prints this."""

    class Device:
        batch_cmds: Any = None

        def add_network(self, number: int, network: str) -> None:
            self.batch_cmds.do_batch(self, [f"vlan {number}"])

        def send_commands_to_device(self, commands: list[str]) -> str:
            assert commands == ["vlan 101"]
            return output

        def check_output(self, printed: str, operation: str) -> None:
            """As for most device types: no check."""

    access = SwitchAccess(
        name="leaf1", interface="generic", device_type="netmiko_cisco_ios", url="ssh://127.0.0.1"
    )
    device = GenericDevice(access, 4000, (), lambda: SwitchCredentials("weft", "secret"), None)
    monkeypatch.setattr(device, "_made", lambda: (Device(), ()))
    device.send([(101, Batch({101: "weft"}))])

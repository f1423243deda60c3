"""A real Ironic with one machine without hardware, and weft's sessions that find this Ironic in a tiny cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.drivers.openstack.real_ironic import RealIronic
from weftlab.config import Sections

NOT_THERE = ("bios", "console", "firmware", "inspect", "raid", "rescue", "vendor")


FAKE = "fake-hardware"
MANUAL = "manual-management"
"""Types of hardware: the first boots only by PXE, this one whatever a person makes it boot."""


def hardware(deploy: str, boot: str = "fake", kind: str = FAKE, **more: str) -> Sections:
    """Ironic's configuration with exactly these interfaces; power and management are fake unless `more` says
    otherwise.
    """
    interfaces = {kind: f"no-{kind}" for kind in NOT_THERE}
    interfaces |= {"deploy": deploy, "boot": boot, "power": "fake", "management": "fake", **more}
    enabled = {f"enabled_{kind}_interfaces": name for kind, name in interfaces.items()}
    return {"DEFAULT": {"enabled_hardware_types": kind, **enabled}}


def enrolled(ironic: RealIronic, **more: Any) -> None:
    """Enroll the node; it is `manageable` and off afterwards. `more`: further fields of the node."""
    ironic.ask("POST", "nodes", {"uuid": ironic.node, "name": "bm01", "driver": FAKE, **more})
    ironic.ask("PUT", f"nodes/{ironic.node}/states/power", {"target": "power off"})
    ironic.provision("manage", "manageable")


def clouds_file(folder: Path, text: str, ironic: RealIronic) -> Path:
    """Write a clouds.yaml with this Ironic; `text`: a tiny cloud's clouds.yaml."""
    file = folder / "clouds.yaml"
    own = [line for line in text.splitlines() if "baremetal_endpoint" not in line]
    file.write_text("\n".join([*own, f"    baremetal_endpoint_override: {ironic.url}"]) + "\n")
    return file

"""cloud-init's own reader of `network_data.json` on a config drive, from Debian's package, unpacked but not
installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weftlab.environment import lock
from weftlab.layout import default_cache

PACKAGES = ("cloud-init", "python3-configobj", "python3-jsonpatch", "python3-json-pointer")
READER = """\
import json, sys
from cloudinit import net
net.SYS_CLASS_NET = sys.argv[1] + "/"
net.get_sys_class_path = lambda: net.SYS_CLASS_NET
from cloudinit.net.network_state import parse_net_config_data
from cloudinit.net.networkd import Renderer
from cloudinit.sources.helpers.openstack import convert_net_json
config = convert_net_json(json.load(sys.stdin))
files = Renderer()._render_content(parse_net_config_data(config))
json.dump({"interfaces": config["config"], "files": files}, sys.stdout)
"""
CHOOSER = """\
import json, sys
from cloudinit import net, util
net.SYS_CLASS_NET = sys.argv[1] + "/"
net.get_sys_class_path = lambda: net.SYS_CLASS_NET
from cloudinit.net import netplan, networkd, renderers
from cloudinit.net.network_state import parse_net_config_data
from cloudinit.sources.helpers.openstack import convert_net_json
for module in (netplan, networkd):
    module.available = lambda target=None: True
config = util.read_conf_with_confd(sys.argv[2])
name, chosen = renderers.select(config["system_info"]["network"]["renderers"])
state = parse_net_config_data(convert_net_json(json.load(sys.stdin)))
made = chosen({"netplan_path": "x", "postcmds": False})._render_content(state)
json.dump({"config": config, "renderer": name, "made": json.dumps(made)}, sys.stdout)
"""
INFINIBAND = 32
"""ARPHRD_INFINIBAND, in the kernel's if_arp.h."""


@dataclass(frozen=True, slots=True)
class Read:
    """What cloud-init makes of it.

    Attributes:
        interfaces: name -> its row of cloud-init's own configuration, version 1.
        files: name -> text of its file for systemd-networkd.
    """

    interfaces: Mapping[str, Any]
    files: Mapping[str, str]


def _unpacked() -> Path:
    """Folder with cloud-init's modules; downloaded once."""
    folder = default_cache() / "cloud-init"
    modules = folder / "usr/lib/python3/dist-packages"
    with lock(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            with tempfile.TemporaryDirectory() as work:
                subprocess.run(
                    ["apt-get", "download", "-q", *PACKAGES], cwd=work, check=True, capture_output=True
                )
                for package in Path(work).glob("*.deb"):
                    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
            (folder / "complete").touch()
    return modules


def _asked(program: str, network_data: object, hardware: Mapping[str, str], folder: Path, *more: str) -> Any:
    """What a program with cloud-init's modules prints for network data on a machine with these interfaces."""
    for name, address in hardware.items():
        about = folder / name
        (about / "device").mkdir(parents=True)
        kind = INFINIBAND if address.count(":") == 19 else 1
        rows = {"address": address, "type": kind, "addr_assign_type": 0, "dev_id": 0, "operstate": "up"}
        for file, text in {**rows, "uevent": "DRIVER=any", "iflink": 0}.items():
            (about / file).write_text(f"{text}\n")
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), *more],
        input=json.dumps(network_data),
        env={**os.environ, "PYTHONPATH": str(_unpacked())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def read_by_cloud_init(network_data: object, hardware: Mapping[str, str], folder: Path) -> Read:
    """Raises `AssertionError` with cloud-init's words where it refuses the document.

    Args:
        hardware: interface -> its address in the machine, of 6 bytes, or of 20 for InfiniBand.
        folder: empty, for a copy of the machine's sysfs.
    """
    answer = _asked(READER, network_data, hardware, folder)
    return Read({row["name"]: row for row in answer["interfaces"]}, answer["files"])


def rendered_by_cloud_init(
    network_data: object, hardware: Mapping[str, str], folder: Path, config: Path
) -> tuple[Any, str, str]:
    """cloud-init's configuration, the renderer that it chooses by that, and all that this one writes, as JSON.

    Args:
        config: cloud.cfg, with its folder cloud.cfg.d beside it.
    """
    answer = _asked(CHOOSER, network_data, hardware, folder, str(config))
    return answer["config"], answer["renderer"], answer["made"]

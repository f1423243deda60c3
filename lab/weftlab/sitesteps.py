"""What demos of a whole site have in common: an operator's commands, and readings of switches without weft."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from weft.app.sitefile import load_site
from weftlab.bootstrap import connect
from weftlab.gpudemo import Demo
from weftlab.lab import Lab
from weftlab.switches.labsite import lab_ovs

LIST, HEAD, FOLDER = "hardware.csv", "head.yaml", "site"
SHOWN = 6
"""Lines of a hardware list that are printed."""


class SiteSteps(Demo):
    """Operators type nearly everything here. `list` and `head` are written before."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.site = load_site(lab.site_path)

    def op(self, *words: str, save: str | None = None, allowed: tuple[int, ...] = (0,)) -> None:
        """Run a weft command as the operator; `allowed`: exit codes that don't end the demo."""
        self.weft(*words, cloud="operator", save=save, allowed=allowed)

    def project(self) -> str:
        """Id of the tenant's project."""
        identity: Any = connect(self.lab.layout).identity
        return identity.find_project("team-a", ignore_missing=False).id

    def described(self, rows: str, head: dict[str, Any]) -> None:
        """Make a site of the list's rows and a head with what no list has, and activate it."""
        (self.folder / LIST).write_text(rows)
        (self.folder / HEAD).write_text(yaml.safe_dump(head, sort_keys=False))
        self.say("the hardware list, as a spreadsheet has it")
        lines = rows.splitlines()
        print("\n".join((*lines[:SHOWN], f"… and {len(lines) - SHOWN} more rows")))
        self.say("the list and what no list has, such as networks, become the files of a site")
        self.op("site", "import", LIST, "--site", HEAD, "--output", FOLDER)
        self.op("site", "check", f"{FOLDER}/site.yaml")
        self.op("site", "activate", f"{FOLDER}/site.yaml")

    def taken_back(self, vlan: int) -> None:
        """Remove everything that was made for the site, and show the receipt that proves it."""
        self.say("the end: everything is taken back, with proof")
        self.op("site", "destroy", "--wait")
        self.op("site", "receipt", "--json", save="receipt.json")
        items = json.loads((self.folder / "receipt.json").read_text())["receipt"]["items"]
        print(f"read back: {', '.join(sorted({i['plane'] for i in items}))}")
        self.verify("receipt.json", "operator")
        self.ports(vlan, "nothing of it is on a switch any more")
        self.op("audit")

    def ports(self, vlan: int, title: str) -> None:
        """Print the ports in a VLAN as Open vSwitch itself has them, without weft."""
        self.say(title)
        rows = json.loads(
            lab_ovs(self.lab.layout).vsctl("--format=json", "--columns=name,tag,trunks", "list", "port")
        )
        having = {
            name: "access" if tag == vlan else "trunk"
            for name, tag, trunks in rows["data"]
            if vlan in _numbers(tag, trunks)
        }
        print("\n".join(f"{name:20} {how}" for name, how in sorted(having.items())) or f"VLAN {vlan}: none")


def as_csv(columns: Sequence[str], rows: Iterable[dict[str, object]]) -> str:
    """A table with these columns; values that a row lacks are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def subnet(role: str, addresses: str, pool: str, **more: object) -> dict[str, Any]:
    """A subnet of the site file. Args: pool: the first three numbers of its addresses."""
    return {
        "role": role,
        "addresses": addresses,
        "pool": {"first": f"{pool}.1", "last": f"{pool}.254"},
        **more,
    }


def _numbers(*cells: object) -> set[int]:
    """Numbers in a cell of Open vSwitch's tables: a number, or `["set", [numbers]]`."""
    found: set[int] = set()
    for cell in cells:
        match cell:
            case int():
                found.add(cell)
            case ["set", [*numbers]]:
                found |= {n for n in numbers if isinstance(n, int)}
            case _:
                pass
    return found

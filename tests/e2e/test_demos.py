"""Every demo, on a lab of its own: it ends well, and says what it must have seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from weftlab.demo import DEMOS

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own for each, seven minutes for an IPU-POD64"),
]
LINES = {
    "seeing": {
        "-> no cause is named, all pairs are measured",
        "-> cable and adapter are named, nothing else, by 112 pairs",
        "-> the neighbor is named as the cause of each, by the bytes that its adapters send",
        "-> WeftLinkCongested fires for these ports alone",
        "content: clean",
    },
    "site": {
        "read back: database, link between switches, network, port, router, security_group, subnet, switch, "
        "switch port",
        "content: clean",
        "VLAN 99: none",
        "read back: database, flavor, link between switches, network, port, router, security_group, subnet, switch, "
        "switch port",
        "30 of 30 pings were answered",
        "VLAN 24: none",
        "clean: nothing is missing, different, foreign, unknown or left over",
    },
}
"""Demo -> lines that it says."""


@pytest.mark.parametrize("name", DEMOS, ids=lambda name: name or "gpu")
def test_demo_runs_to_its_receipt(name: str, tmp_path: Path) -> None:
    log = tmp_path / "demo"
    with log.open("wb") as out:
        words = [sys.executable, "-m", "weftlab.demo", *filter(None, [name])]
        nothing = subprocess.DEVNULL  # without a terminal no demo waits for a key
        process = subprocess.Popen(words, stdin=nothing, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(1800)
        finally:
            process.terminate()  # it takes its lab down
            process.wait(300)
    output = log.read_text()
    assert code == 0, output[-3000:]
    lines = output.splitlines()
    assert LINES.get(name, set()) <= {*lines}, output[-3000:]
    assert lines[-1].startswith(f"weft demo: {DEMOS[name].proved} and nothing is left running"), output[
        -3000:
    ]

"""The demo of a site: an IPU-POD64 with its Poplar servers from a spreadsheet, on real Neutron and running switches, an
order of IPUs on what was made, and everything taken back.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own with an IPU-POD64, seven minutes"),
]
LINES = (
    "read back: database, link between switches, network, port, router, security_group, subnet, switch, switch port",
    "content: clean",
    "VLAN 99: none",
    "clean: nothing is missing, different, foreign, unknown or left over",
)


def test_a_site_from_a_spreadsheet_with_a_pod_of_ipus_and_away_again(tmp_path: Path) -> None:
    log = tmp_path / "demo"
    with log.open("wb") as out:
        words = [sys.executable, "-m", "weftlab.demo", "site"]
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(1800)
        finally:
            process.terminate()  # it takes its lab down
            process.wait(300)
    told = log.read_text()
    assert code == 0, told[-3000:]
    assert set(LINES) <= set(told.splitlines()), told[-3000:]

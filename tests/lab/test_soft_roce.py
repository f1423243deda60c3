"""weft-check's bandwidth test between two guests with soft RoCE: real verbs, perftest and SSH."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from weftlab import environment
from weftlab.hypervisor import softroce
from weftlab.hypervisor.login import make_key
from weftlab.layout import default_cache, free_ports

pytestmark = [
    pytest.mark.fabric,
    pytest.mark.nightly(reason="two virtual machines without hardware virtualization: a minute or more"),
]


def test_bandwidth_between_two_guests_is_measured(tmp_path: Path) -> None:
    """Both directions have a value; device, RoCE v2 GID and peer are found; a floor far above makes the pair slow."""
    environment.install_packages(softroce.PACKAGES, print)
    key, base = make_key(tmp_path), free_ports()
    with softroce.guests(tmp_path, default_cache(), key, (base, base + 1, base + 2), print) as there:
        nodes = [
            {
                "name": f"guest{number}",
                "address": "127.0.0.1",
                "port": port,
                "inside": address,
                "user": "root",
                "leaf": "wire",
                "adapters": [{"rail": 0, "device": "rxe0", "gbps": 100}],
            }
            for number, (address, port) in enumerate(there, 1)
        ]
        plan = {"version": 1, "program": "perftest", "nodes": nodes, "seconds": 4, "size": 65536}
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        words = ("bandwidth", str(tmp_path / "plan.json"), "--ssh", shlex.join(softroce.ssh(key)))
        command = [sys.executable, "-m", "weftcheck", *words, "--output", str(tmp_path / "measured.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    document = json.loads((tmp_path / "measured.json").read_text())
    figures = {tuple(pair[:3]): pair[3] for pair in document["pairs"]}
    assert set(figures) == {(0, 1, 0), (1, 0, 0)}, done.stderr
    assert all(isinstance(rate, float) and 0 < rate < 10 for rate in figures.values()), (figures, done.stderr)
    assert document["measured_by"] == "ib_write_bw" and done.returncode == 1, "below a floor of 95 Gb/s: slow"

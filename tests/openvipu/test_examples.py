"""The shell scripts among the examples, run unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import EXAMPLES

OURS = EXAMPLES / "openvipu"
EXPECTED = {
    "01-first-partition.sh": ["create partition (p8): success.", "p8_gcd0_ipuof.conf\np8_gcd1_ipuof.conf"],
    "02-tenants.sh": ["partition 'training' doesn't exist", "allocation 'red' doesn't exist", "needs a user"],
    "03-faults.sh": ["delivered over 2 links", "Cabling: cable ipum3:up1 to ipum4:down1 has no link"],
    "04-two-controllers.sh": ["blocked", "this agent belongs to another controller"],
}


def killed(group: int) -> bool:
    """Kill a process group; False if no process of it was left."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.nightly(
    reason="a dozen programs each; what they show is tested by test_programs.py and in one process"
)
@pytest.mark.parametrize("name", [path.name for path in sorted(OURS.glob("0*.sh"))])
def test_example_runs_and_prints_its_result(name: str) -> None:
    """Exit status 0, the output that its page promises, and no process left."""
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(OURS / name)]
    script = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    )
    try:
        said, _ = script.communicate(timeout=300)
    finally:
        left = killed(script.pid)
    assert script.returncode == 0, said
    assert not left, "something still ran"
    for words in EXPECTED[name]:
        assert words in said
    assert "Traceback" not in said

"""The install guide on a clean Debian with systemd: its commands are run as written; other hosts don't exist."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_install_guide import guide
from tests.helpers.cleanroots import CleanRoot, why_not
from tests.helpers.paths import EXAMPLES, ROOT
from tests.helpers.waiting import wait_for
from weft.fabricagent.tls import make_certificates

pytestmark = [
    pytest.mark.nightly(
        reason="ten minutes: Debian, and each package of weft; by day the blocks run in folders"
    ),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
ELSEWHERE = "scp() { :; }\n"
"""Replaces copies to other hosts, which don't exist."""
MAY_FAIL = ("weft doctor", "--live")
"""Commands that ask the cloud and the fabric, which don't exist."""


@pytest.fixture(scope="module")
def ctl1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CleanRoot]:
    """A host with Debian and the files that the guide copies to it."""
    given = os.environ.get("WEFT_TEST_ROOT")  # a root that an earlier run made, to save time
    folder = tmp_path_factory.mktemp("clean")
    with CleanRoot(Path(given) if given else folder / "ctl1") as root:
        weft = root.folder / "root/weft"
        if not weft.exists():
            subprocess.run(["make", "wheels"], cwd=ROOT, check=True, capture_output=True, timeout=600)
            shutil.copytree(EXAMPLES, weft / "examples")
            shutil.copytree(ROOT / "build/wheels", weft / "wheels")
            shutil.copy(ROOT / "requirements.lock", weft)
        keys = folder / "keys"
        make_certificates(keys, {"api": ["weft.example.net"]})
        shutil.copy(keys / "agent-api.pem", root.folder / "root/tls.pem")
        shutil.copy(keys / "agent-api.key", root.folder / "root/tls.key")
        assert root.run("apt-get update -qq").returncode == 0
        yield root


def test_service_of_the_guide_runs_under_systemd(ctl1: CleanRoot) -> None:
    """Installed block by block, weft-serve.service starts with its hardening, answers, is reloaded, stops
    cleanly, and starts again with the same database."""
    ask = "/opt/weft/bin/python -c 'import ssl,sys,urllib.request as u; print(u.urlopen("
    ask += '"https://10.0.0.5:8787/healthz", context=ssl._create_unverified_context()).read().decode())\''

    def answers() -> bool:
        return ctl1.run(ask).stdout.strip() == "ok"

    def shown(what: str) -> str:
        return ctl1.run(f"systemctl show -p {what} --value weft-serve.service").stdout.strip()

    def log() -> str:
        return ctl1.run("journalctl --no-pager -u weft-serve.service").stdout[-4000:]

    def up() -> None:
        try:
            wait_for(answers, "weft-serve.service answers", 240, 1)
        except AssertionError as error:
            raise AssertionError(log()) from error

    blocks = [text for hosts, text in guide() if "ctl1" in hosts]
    first, rest = blocks[0], blocks[1:]
    done = ctl1.run(f"set -e\n{ELSEWHERE}{first}")
    assert done.returncode == 0, done.stdout + done.stderr
    ctl1.boot("10.0.0.5")
    for text in rest:
        for line in commands(text):
            done = ctl1.run(f"set -e\n{ELSEWHERE}{line}")
            said = f"{line}\n{done.stdout}{done.stderr}"
            assert done.returncode == 0 or any(one in line for one in MAY_FAIL), said
            if "enable --now" in line:
                up()
    assert (shown("ActiveState"), shown("NRestarts"), shown("User")) == ("active", "0", "weft"), log()
    assert ctl1.run("systemctl reload weft-serve.service").returncode == 0 and answers()
    assert ctl1.run("systemctl stop weft-serve.service", 90).returncode == 0
    assert shown("Result") == "success", log()
    assert not ctl1.run("pgrep -u weft").stdout, "no process is left, PostgreSQL's neither"
    assert ctl1.run("systemctl start weft-serve.service").returncode == 0
    up()


def commands(text: str) -> list[str]:
    """The commands of a block, each with its here-document."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        if inside or (found and found[-1].endswith("\\")):
            found[-1] += f"\n{line}"
        elif line.strip() and not line.startswith("#"):
            found.append(line)
        inside = line != "END" if inside else "<<END" in line
    return found

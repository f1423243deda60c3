"""The lab's guests: their user data is read as cloud-init does, and written only into the guest's folder."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from weft.planning.shapes.ipu.init import poplar_init
from weftlab.guests import Guest, cloud_config
from weftlab.ipu import here
from weftlab.layout import Layout

OWN = "#cloud-config\nwrite_files: [{path: /etc/mine, content: x}]\n"


def guest(folder: Path, said: list[str]) -> Guest:
    return Guest(folder, ["10.64.0.16"], lambda a: here(Layout(folder, folder, 21000), a), said.append)


def test_poplar_config_files_are_written(tmp_path: Path) -> None:
    """Those of both parts, with their modes; beside them is the address that the guest has on this machine."""
    folder = tmp_path / "guest"
    guest(folder, []).boot(poplar_init("bert", "10.64.0.17", OWN))
    inside = folder / "etc/vipu/vipu-cli.hcl"
    assert 'api-host="10.64.0.17"' in inside.read_text() and inside.stat().st_mode & 0o777 == 0o640
    assert 'api-host="127.101.0.17"' in (folder / "vipu-cli.hcl").read_text()
    assert (folder / "etc/mine").read_text() == "x" and folder.stat().st_mode & 0o777 == 0o700


def test_user_data_of_another_kind_has_no_cloud_config() -> None:
    """Neither a script nor missing user data is an error."""
    assert cloud_config("#!/bin/sh\necho hello\n") == {} and cloud_config("") == {}
    both = cloud_config(poplar_init("bert", "10.64.0.17", "#!/bin/sh\necho hello\n"))
    assert [f["path"] for f in both["write_files"]] == ["/etc/vipu/vipu-cli.hcl", "/etc/profile.d/vipu.sh"]


def test_user_data_cannot_escape_its_guest(tmp_path: Path) -> None:
    """It can neither write elsewhere on the lab's machine nor run a program there."""
    escape = "#cloud-config\nwrite_files: [{path: /../../escaped, content: x}]\n"
    with pytest.raises(ValueError, match="leads out of the guest"):
        guest(tmp_path / "a" / "guest", []).boot(escape)
    assert not (tmp_path / "escaped").exists() and not (tmp_path / "a" / "escaped").exists()
    said: list[str] = []
    other = guest(tmp_path / "guest", said)
    other.boot(f"#cloud-config\nruncmd: [[touch, {tmp_path}/touched], [mkdir, -p, /var/lib/x]]\n")
    done = threading.Event()
    for _ in range(200):
        if len(said) >= 3:
            break
        done.wait(0.05)
    other.end()
    assert not (tmp_path / "touched").exists() and (tmp_path / "guest/var/lib/x").is_dir()
    assert said[0] == "guest: touch is not done here"

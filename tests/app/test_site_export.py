"""`weft site export` into a directory: other files are kept, and no file is half written."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.rdg import RDG
from weft.app.siteexport import MANIFEST, export_site
from weft.cli.main import main
from weft.model.errors import InputError, InputErrors, OutsideError

SITE = str(RDG / "site.yaml")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with an export."""
    export_site(SITE, "kolla", None, str(tmp_path / "out"))
    return tmp_path / "out"


def again(folder: Path, force: bool = False, site: str = SITE) -> list[str]:
    return export_site(site, "kolla", None, str(folder), force).written


def other_site(folder: Path, old: str, new: str) -> str:
    """The example with a change, in another place."""
    target = folder.parent / "site"
    target.mkdir()
    for file in RDG.iterdir():
        text = file.read_text()
        (target / file.name).write_text(text.replace(old, new) if file.name == "site.yaml" else text)
    return str(target / "site.yaml")


def test_second_export_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    assert again(folder) == []
    assert contents(folder) == before
    assert not [name for name in before if name.startswith(f"{MANIFEST}-")], "no temporary file is left"


def test_manifest_is_accepted_by_sha256sum(folder: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "-c", MANIFEST], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": OK") == len(contents(folder)) - 1


def test_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="a directory that doesn't exist, is empty or has an export"):
        again(tmp_path)
    assert contents(tmp_path) == {"notes.txt": b"mine"}
    assert again(tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_secrets_beside_an_export_are_kept(folder: Path) -> None:
    """passwords.yml is neither read nor changed."""
    (folder / "passwords.yml").write_text("database_password: x")
    assert again(folder) == []
    assert (folder / "passwords.yml").read_text() == "database_password: x"


def test_unrelated_files_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be unreadable to this user."""
    (folder / "passwords.yml").write_text("x")
    read: list[str] = []
    real = Path.read_bytes

    def noted(self: Path) -> bytes:
        read.append(self.name)
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", noted)
    again(folder)
    assert "globals.yml" in read and "passwords.yml" not in read


def test_second_concurrent_export_is_refused(folder: Path) -> None:
    """What the first one has written so far stays."""
    (folder / f"{MANIFEST}-first").mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="no other export is writing to now"):
            again(folder)
    finally:
        os.close(descriptor)
    assert (folder / f"{MANIFEST}-first").is_dir()
    again(folder)
    assert not (folder / f"{MANIFEST}-first").exists(), "the remains of a killed export are removed"


def test_target_of_a_linked_directory_is_not_removed(folder: Path, tmp_path: Path) -> None:
    """A directory of an earlier export was moved away and linked; its obsolete files stay."""
    (folder / MANIFEST).write_text(f"{(folder / MANIFEST).read_text()}{'0' * 64}  old/file\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("precious")
    (folder / "old").symlink_to(tmp_path / "elsewhere")
    for force in (False, True):
        with pytest.raises(
            InputError, match="old' is not allowed: a file or directory of its own, not a link"
        ):
            again(folder, force)
    assert (tmp_path / "elsewhere/file").read_text() == "precious"


def test_edited_file_is_not_overwritten(folder: Path) -> None:
    edited = folder / "globals.yml"
    edited.write_text("mine: true\n")
    before = contents(folder)
    with pytest.raises(
        InputError, match=r"globals.yml' is not allowed: a file as the last export left it; --force"
    ):
        again(folder)
    assert contents(folder) == before
    assert again(folder, force=True) == [str(edited)]


def test_obsolete_files_are_removed(folder: Path) -> None:
    site = other_site(folder, "ComputeSriovIB:", "Gpu:")
    done = export_site(site, "kolla", None, str(folder))
    assert done.removed == [str(folder / "inventory/group_vars/role_computesriovib.yml")]
    assert (folder / "inventory/group_vars/role_gpu.yml").is_file()


def test_interrupted_export_is_completed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after any number of files: each is an old or a new one, and the next run needs no --force."""
    site = other_site(folder, "172.17.0.250", "172.17.0.251")
    old, real = contents(folder), Path.replace

    def dies(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        again(folder, site=site)
    assert contents(folder) == old

    def dies_at_the_end(self: Path, target: Path) -> Path:
        if self.name == MANIFEST:
            raise KeyboardInterrupt
        return real(self, target)

    monkeypatch.setattr(Path, "replace", dies_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        again(folder, site=site)
    monkeypatch.undo()
    assert again(folder, site=site) == [], "all files were complete; only the manifest was missing"
    fresh = folder.parent / "fresh"
    again(fresh, site=site)
    assert contents(fresh) == contents(folder)


def test_link_in_place_of_the_output_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes((folder / "globals.yml").read_bytes())
    (folder / "globals.yml").unlink()
    (folder / "globals.yml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="not a link"):
        again(folder, force=True)


def test_linked_directory_inside_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "config").rename(tmp_path / "elsewhere")
    (folder / "config").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="not a link"):
        again(folder, force=True)


def test_manifest_with_outside_paths_removes_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (folder / MANIFEST).write_text(f"{'0' * 64}  ../precious\n{'0' * 64}  {tmp_path}/precious\nnonsense\n")
    again(folder, force=True)
    assert (tmp_path / "precious").exists()


def test_unwritable_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        with pytest.raises(InputError, match="--output"):
            again(tmp_path / place)


def test_invalid_site_writes_nothing(folder: Path, tmp_path: Path) -> None:
    site = other_site(folder, "internal_vip: 172.17.0.250", "internal_vip: 10.99.0.1")
    with pytest.raises(InputErrors, match="internal_vip"):
        again(tmp_path / "new", site=site)
    assert not (tmp_path / "new").exists()


def test_export_command_writes_and_reports_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "export", SITE, "--format", "kolla", "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path}/out/globals.yml\n" in out and "0 already the same" in out
    assert (
        main(["site", "export", SITE, "--format", "kolla", "-o", str(tmp_path / "out"), "--cloud", "x"]) == 2
    )
    assert "--cloud: 'x' is not allowed: clouds with a deployment" in capsys.readouterr().err


def test_only_terraform_export_reads_the_cloud(tmp_path: Path) -> None:
    for given in ({"live": True}, {"profile": "weft"}):
        with pytest.raises(InputError, match="--format: 'kolla' is not allowed: terraform, with"):
            export_site(SITE, "kolla", None, str(tmp_path / "out"), **given)
    assert not (tmp_path / "out").exists()


def test_without_credentials_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clouds.yaml").write_text("clouds: {other: {}}\n")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with pytest.raises(
        InputError, match=r"profile: 'overcloud' is not allowed: clouds\.yaml has these clouds: other"
    ):
        export_site(SITE, "terraform", None, str(tmp_path / "out"), live=True)
    assert not (tmp_path / "out").exists()


def test_unreachable_cloud_fails_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown isn't absent: without imports, Terraform would create everything again."""
    auth = {"auth_url": "http://127.0.0.1:9", "username": "u", "password": "p", "project_name": "p"}
    (tmp_path / "clouds.yaml").write_text(json.dumps({"clouds": {"overcloud": {"auth": auth}}}))
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    with pytest.raises(OutsideError):
        export_site(SITE, "terraform", None, str(tmp_path / "out"), live=True)
    assert not (tmp_path / "out").exists()

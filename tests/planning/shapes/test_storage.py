"""What servers do with their storage: the user data as cloud-init reads it, and its script, run for real."""

from __future__ import annotations

import email
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.smallsite import order, small_site
from tests.planning.shapes.test_plan import plan
from weft.model.errors import InputError
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.site import Storage
from weft.model.specs import PortSpec, ServerSpec, ShareAccessSpec
from weft.planning.shapes.mounts import Mount, with_mounts
from weft.planning.shapes.storage import check_addresses, check_storage

SHARE = {"share": "data", "size": "1TiB", "mount": "/data"}


def server(**fields: Any) -> ServerSpec:
    found = plan(order(**fields))
    assert isinstance(found, Plan)
    spec = found.graph.by_key()["server/gpu01"].spec
    assert isinstance(spec, ServerSpec)
    return spec


def parts(text: str | None) -> list[tuple[str, str]]:
    """Content type and text of each part, as cloud-init goes through them."""
    assert text is not None
    message = email.message_from_string(text)
    return [(p.get_content_type(), str(p.get_payload())) for p in message.walk() if not p.is_multipart()]


def test_user_data_without_storage_is_the_tenants() -> None:
    assert server(access={"user_data": "#!/bin/sh"}).user_data == "#!/bin/sh"
    assert server(access={}).user_data is None


def test_user_data_without_the_tenants_is_the_script() -> None:
    text = server(storage=[SHARE]).user_data
    assert text is not None and text.startswith("#!/bin/sh\n")


def test_tenant_user_data_comes_first_unchanged() -> None:
    own = "#cloud-config\nmounts: [[/dev/x, /y]]\n"
    assert parts(server(storage=[SHARE], access={"user_data": own}).user_data)[0] == (
        "text/plain",
        own.rstrip("\n"),
    )


def test_tenant_mime_archive_stays_an_archive() -> None:
    """Its parts keep their types, and weft's part comes after them."""
    own = (
        'Content-Type: multipart/mixed; boundary="===============weft-user-data=="\nMIME-Version: 1.0\n\n'
        "--===============weft-user-data==\nContent-Type: text/cloud-boothook\n\necho\n"
        "--===============weft-user-data==--\n"
    )
    found = parts(server(storage=[SHARE], access={"user_data": own}).user_data)
    assert [kind for kind, _ in found] == ["text/cloud-boothook", "text/x-shellscript"]


def test_too_long_user_data_is_refused() -> None:
    with pytest.raises(InputError, match="besides what mounts the storage"):
        server(storage=[SHARE], access={"user_data": "#" * 49_000})


def test_servers_boot_after_their_shares_rules_and_volumes() -> None:
    found = plan(order(storage=[SHARE, {"volume": "v", "size": "1GiB", "mount": "/v"}]))
    assert isinstance(found, Plan)
    one = found.graph.by_key()["server/gpu01"]
    assert {"share/data", "share_access/data/gpu01", "volume/v/0", "port/gpu01/storage"} <= set(one.needs)


def test_share_access_rule_names_the_nodes_storage_port() -> None:
    found = plan(order(storage=[SHARE]))
    assert isinstance(found, Plan)
    there = found.graph.by_key()
    rule, port = there["share_access/data/gpu01"].spec, there["port/gpu01/storage"].spec
    assert isinstance(rule, ShareAccessSpec) and isinstance(port, PortSpec)
    assert (rule.port, port.site_network) == ("port/gpu01/storage", "storage")
    assert port.security_groups == ("security_group/storage",)


def test_shared_nodes_have_a_rule_for_each_server() -> None:
    nodes = {"count": 3, "sharing": "shared", "accelerators": {"type": "h100", "count": 4}, "image": "x"}
    found = plan(Order.model_validate({"name": "p", "nodes": nodes, "fabric": "none", "storage": [SHARE]}))
    assert isinstance(found, Plan)
    rules = [r for r in found.graph.resources if isinstance(r.spec, ShareAccessSpec)]
    assert len({r.spec.port for r in rules if isinstance(r.spec, ShareAccessSpec)}) == len(rules) == 3


def test_machines_have_no_volumes_and_no_port_on_the_storage_network() -> None:
    site = small_site()
    asked = order(nodes={"count": 1, "flavor": "h100.8", "image": "x", "kind": "bare_metal"}, storage=[SHARE])
    cloud = site.clouds["main"]
    with pytest.raises(InputError, match="bare_metal"):
        check_storage(asked, "main", cloud, cloud.flavors["h100.8"])


def test_chosen_management_subnet_is_refused_without_storage_network() -> None:
    """Access rules identify servers by these addresses, so even an order without shares could get another pod's."""
    asked = order(network={"management": "10.50.0.0/24"})
    with pytest.raises(InputError, match=r"network\.management.*must be omitted"):
        check_addresses(asked, "main", Storage(shares=True))
    for fine in (Storage(shares=True, network="storage"), Storage(volumes=True)):
        check_addresses(asked, "main", fine)


# -- the script ---------------------------------------------------------------------------------------------------


class Guest:
    """A guest's commands as short scripts that record how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin, self.log = folder, folder / "bin", folder / "asked"
        self.bin.mkdir()
        for name in ("mount", "mdadm", "mkfs.ext4", "dd"):
            self.command(name, "")
        self.command("systemctl", f'[ "$2" != data.mount ] || ! rm {folder}/refused 2> /dev/null')
        self.command("systemd-escape", 'basename "$2"')
        # a mount has its own type; an automount alone is `autofs`
        self.command("findmnt", f'[ "$1 $2" = "-t noautofs" ] && [ -e {folder}/mounted ]')
        self.command("sleep", "")
        self.command("lsblk", f"case $1 in -dnpo) cat {folder}/drives ;; *) echo one ;; esac")
        blank = f'grep -qx "$2" {folder}/used || exit 2'
        self.command(
            "blkid",
            f"case $* in *TYPE*) cat {folder}/type ;; *' -o '*) echo uuid-of-${{6##*/}} ;; *) {blank} ;; esac",
        )
        for name in ("drives", "used", "asked", "fstab"):
            (folder / name).touch()
        (folder / "type").write_text("ext4\n")

    def command(self, name: str, body: str) -> None:
        file = self.bin / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{body}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def run(self, *mounts: Mount) -> list[str]:
        """Run the script; the commands it called. Its entries are in `fstab`."""
        text = with_mounts(None, mounts)
        assert text is not None
        for there in ("/etc/fstab", "/etc/systemd/system", "/var/log/weft-storage.log", "/dev/disk/by-id"):
            text = text.replace(there, f"{self.folder}/{Path(there).name}")
        for mount in mounts:
            text = text.replace(f" {mount.where}", f" {self.folder}{mount.where}")
        env = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        subprocess.run(["/bin/sh", "-eu", "-c", text + "wait\n"], env=env, check=True, timeout=60)
        return (self.folder / "asked").read_text().replace(str(self.folder), "").splitlines()

    @property
    def fstab(self) -> list[str]:
        return (self.folder / "fstab").read_text().replace(str(self.folder), "").splitlines()


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_nfs_is_mounted_once_and_listed_in_fstab(guest: Guest) -> None:
    """A script that runs twice, as after a new instance id, makes no second entry. The automount exists before the
    first attempt and stays, so that what is written meanwhile isn't on the root disk.
    """
    (guest.folder / "refused").touch()
    mount = Mount("nfs", "/data", "10.0.0.9:/shares/x", "rw,hard")
    asked = [a for a in guest.run(mount) if a.startswith(("mount", "systemctl"))]
    attempts = ["systemctl start data.mount"] * 2
    assert asked == ["systemctl daemon-reload", "systemctl start data.automount", *attempts]
    assert (guest.folder / "system/data.mount.d/weft.conf").read_text() == "[Unit]\nStartLimitIntervalSec=0\n"
    (guest.folder / "mounted").touch()
    assert guest.run(mount).count(attempts[0]) == 2
    assert guest.fstab == ["10.0.0.9:/shares/x /data nfs rw,hard 0 0"]


@pytest.mark.parametrize("entry", [SHARE, {"export": "home", "mount": "/data"}])
def test_unmounted_nfs_is_retried_at_each_access(entry: dict[str, object]) -> None:
    """Meanwhile nothing can write to the folder beneath. The site's exports have their own options."""
    text = server(storage=[entry]).user_data
    assert text is not None
    (options,) = re.findall(r"^nfs '.*' /data (\S+) <", text, re.MULTILINE)
    assert {"hard", "nofail", "_netdev", "x-systemd.automount", "x-systemd.mount-timeout=90"} <= {
        *options.split(",")
    }


def test_empty_drives_become_one_striped_file_system(guest: Guest) -> None:
    """Drives with a file system aren't changed."""
    (guest.folder / "drives").write_text("/dev/sda\n/dev/nvme0n1\n/dev/nvme1n1\n/dev/nvme2n1\n")
    (guest.folder / "used").write_text("/dev/nvme0n1\n")
    asked = guest.run(Mount("scratch", "/scratch"))
    made = [a for a in asked if a.startswith("mdadm")]
    assert made == [
        "mdadm --create /dev/md/scratch --run --homehost=any --level=0 --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1"
    ]
    assert "mkfs.ext4 -q /dev/md/scratch" in asked
    assert guest.fstab == ["UUID=uuid-of-scratch /scratch ext4 defaults,noatime,nofail 0 0"]


def test_one_drive_needs_no_raid_and_none_is_not_reported_as_an_error(guest: Guest) -> None:
    (guest.folder / "drives").write_text("/dev/nvme0n1\n")
    asked = guest.run(Mount("scratch", "/scratch"))
    assert "mkfs.ext4 -q /dev/nvme0n1" in asked and not [a for a in asked if a.startswith("mdadm")]
    (guest.folder / "used").write_text("/dev/nvme0n1\n")
    (guest.folder / "fstab").write_text("")
    guest.run(Mount("scratch", "/scratch"))
    assert guest.fstab == []


VOLUME = "4f1e0000-aaaa-4bbb-8ccc-000000000001"


def plugged(guest: Guest) -> Path:
    """The folder with the names of devices, among them the volume's."""
    by_id = guest.folder / "by-id"
    by_id.mkdir()
    device = guest.folder / "device"
    os.mknod(device, stat.S_IFBLK | 0o600, os.makedev(7, 255))  # no command opens it
    for name in ("virtio-4f1e0000-aaaa-4bbb-8-part1", "virtio-4f1e0000-aaaa-4bbb-8", "virtio-other"):
        (by_id / name).symlink_to(device)
    return by_id


def test_existing_volume_is_mounted_with_its_own_file_system(guest: Guest) -> None:
    """Raw data and ciphers look empty, and two clones have the same UUID."""
    plugged(guest)
    existing = Mount("volume", "/work", VOLUME, "existing")
    (guest.folder / "type").write_text("")
    asked = guest.run(existing)
    assert not [a for a in asked if a.startswith(("mkfs", "mount "))] and guest.fstab == []
    assert "no file system" in (guest.folder / "weft-storage.log").read_text()
    (guest.folder / "type").write_text("xfs\n")
    assert not [a for a in guest.run(existing) if a.startswith("mkfs")]
    assert guest.fstab == ["/by-id/virtio-4f1e0000-aaaa-4bbb-8 /work xfs defaults,nofail 0 0"]


def test_unreadable_volume_is_not_formatted(guest: Guest) -> None:
    """blkid exits with 2 in this case too."""
    plugged(guest)
    guest.command("dd", "exit 1")
    assert not [a for a in guest.run(Mount("volume", "/work", VOLUME, "new")) if a.startswith("mkfs")]


def test_user_data_says_which_volumes_are_new_and_which_exist() -> None:
    entries = [
        {"volume": "a", "size": "1GiB", "mount": "/a"},
        {"volume": "b", "existing": [VOLUME, "other"], "mount": "/b"},
    ]
    text = server(storage=entries).user_data
    assert text is not None and "/a new <" in text and f"volume '{VOLUME}' /b existing <" in text


def test_blank_volume_is_found_by_id_and_formatted(guest: Guest) -> None:
    """By the first 20 characters of its id, which virtio has as serial number; its partitions don't count."""
    by_id, volume = plugged(guest), Mount("volume", "/work", VOLUME, "new")
    asked = guest.run(volume)
    assert "mkfs.ext4 -q /by-id/virtio-4f1e0000-aaaa-4bbb-8" in asked
    assert guest.fstab == ["/by-id/virtio-4f1e0000-aaaa-4bbb-8 /work ext4 defaults,nofail 0 0"]
    (guest.folder / "used").write_text(f"{by_id}/virtio-4f1e0000-aaaa-4bbb-8\n")
    (guest.folder / "asked").write_text("")
    assert not [a for a in guest.run(volume) if a.startswith("mkfs")]

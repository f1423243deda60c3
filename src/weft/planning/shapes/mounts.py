"""What a server does with its storage when it boots first: a shell script that cloud-init runs.

Entries in /etc/fstab, so that a reboot finds them; all have `nofail`, and everything is waited for in the background:
a share's access rule and a volume come after the server. Nothing that has a file system is formatted
again, nor any volume that existed before.

NFS is under a systemd automount (systemd.automount(5), fs/autofs): while it isn't mounted, each access retries the
mount, and none reaches the folder beneath, which is on the root disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.planning.shapes.userdata import NOVA_LIMIT, SHELL_SCRIPT, archive, sent_size

_ROOM = 512
"""Bytes by which a placeholder's substitute may be longer than the placeholder."""

_HEAD = r"""#!/bin/sh
# Storage of the pod, by weft. Log: /var/log/weft-storage.log
entry() { # WHAT WHERE TYPE OPTIONS
  mkdir -p "$2"
  awk -v at="$2" '$2 == at { found = 1 } END { exit !found }' /etc/fstab ||
    printf '%s %s %s %s 0 0\n' "$1" "$2" "$3" "$4" >> /etc/fstab
}
attempt() { # WHERE COMMAND...
  where=$1
  shift
  for i in $(seq 360); do
    findmnt -t noautofs "$where" > /dev/null && return 0
    "$@" && return 0
    sleep 5
  done
  echo "weft: $where could not be mounted in 30 minutes" >&2
  return 1
}
nfs() { # WHAT WHERE OPTIONS
  entry "$1" "$2" nfs "$3"
  unit=$(systemd-escape --path "$2")
  # A mount that fails five times in ten seconds would end its automount, too.
  mkdir -p "/etc/systemd/system/$unit.mount.d"
  printf '[Unit]\nStartLimitIntervalSec=0\n' > "/etc/systemd/system/$unit.mount.d/weft.conf"
  systemctl daemon-reload
  systemctl start "$unit.automount"
  attempt "$2" systemctl start "$unit.mount"
}
blank() { # DEVICE
  dd if="$1" of=/dev/null bs=4096 count=1 2> /dev/null || return 1 # blkid finds nothing on what it can't read, either
  blkid -p "$1" > /dev/null 2>&1
  [ $? -eq 2 ]
}
"""
_VOLUME = r"""volume() { # ID WHERE new|existing
  short=$(printf %.20s "$1")
  for i in $(seq 360); do
    for device in /dev/disk/by-id/*"$short"*; do
      case $device in *-part*) continue ;; esac
      [ -b "$device" ] && break 2
    done
    sleep 5
  done
  [ -b "$device" ] || { echo "weft: volume $1 did not appear in 30 minutes" >&2; return 1; }
  if [ "$3" = new ] && blank "$device"; then mkfs.ext4 -q "$device" || return 1; fi
  type=$(blkid -p -u filesystem -s TYPE -o value "$device") || type=
  [ -n "$type" ] || { echo "weft: volume $1 has no file system: not mounted" >&2; return 1; }
  entry "$device" "$2" "$type" defaults,nofail
  attempt "$2" mount "$2"
}
"""
_SCRATCH = r"""scratch() { # WHERE
  set -- "$1" $(lsblk -dnpo NAME | grep '^/dev/nvme')
  where=$1 free=
  shift
  for drive in "$@"; do
    [ "$(lsblk -nro NAME "$drive" | wc -l)" -eq 1 ] && blank "$drive" && free="$free $drive"
  done
  set -- $free
  [ $# -gt 0 ] || { echo "weft: no NVMe drive without a file system" >&2; return 1; }
  device=$1
  if [ $# -gt 1 ]; then
    device=/dev/md/scratch
    mdadm --create "$device" --run --homehost=any --level=0 --raid-devices=$# "$@" || return 1
  fi
  mkfs.ext4 -q "$device" || return 1
  entry "UUID=$(blkid -p -s UUID -o value "$device")" "$where" ext4 defaults,noatime,nofail
  attempt "$where" mount "$where"
}
"""
_FUNCTIONS = {"nfs": "", "volume": _VOLUME, "scratch": _SCRATCH}


class Mount(NamedTuple):
    """One line of the script.

    Attributes:
        what: NFS location, id of a volume, or nothing; may be a placeholder.
        options: of NFS; of a volume `new`, if weft makes it, or `existing`, which is never formatted.
    """

    how: Literal["nfs", "volume", "scratch"]
    where: str
    what: str = ""
    options: str = ""

    def line(self) -> str:
        """The script's line for this mount, which runs in the background."""
        words = {
            "nfs": f"nfs '{self.what}' {self.where} {self.options}",
            "volume": f"volume '{self.what}' {self.where} {self.options}",
            "scratch": f"scratch {self.where}",
        }
        return f"{words[self.how]} < /dev/null >> /var/log/weft-storage.log 2>&1 &\n"


def nfs_options(read_only: bool, more: str = "vers=4.2") -> str:
    """Mount options of an NFS mount, for fstab."""
    own = ("hard", "nofail", "_netdev", "x-systemd.automount", "x-systemd.mount-timeout=90")
    return ",".join(("ro" if read_only else "rw", *own, *filter(None, (more,))))


def with_mounts(own: str | None, mounts: Iterable[Mount]) -> str | None:
    """The user data with the script. Raises `InputError` if both together exceed Nova's limit."""
    lines = list(mounts)
    if not lines:
        return own
    script = _HEAD + "".join(_FUNCTIONS[how] for how in _FUNCTIONS if any(m.how == how for m in lines))
    script += "".join(m.line() for m in lines)
    if own is None:
        return script
    text = archive(own, script, SHELL_SCRIPT)
    most = NOVA_LIMIT - _ROOM * len(lines) - (sent_size(text) - len(own.encode()))
    if len(own.encode()) > most:
        allowed = instead(
            "at most {most} bytes besides what mounts the storage; it has {encode}",
            most=most,
            encode=len(own.encode()),
        )
        raise InputError("access.user_data", "…", allowed)
    return text

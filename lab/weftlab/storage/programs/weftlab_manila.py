# pyright: basic, reportMissingImports=false
"""A driver of Manila's for the lab: a share is a folder that NFS-Ganesha exports, a rule is a client of the export.

Runs in Manila's environment. All exports are in one file, which is rewritten at each change; Ganesha rereads it on
SIGHUP and logs when it has: only then is a rule in force, or gone, and the call to Manila returns.
"""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

from manila import exception
from manila.share import driver
from oslo_config import cfg

REREAD = "Reread exports complete"
PATIENCE = 30.0
_LOCK = threading.Lock()
OPTIONS = [
    cfg.StrOpt("weftlab_nas_folder", help="Folder of the filer."),
    cfg.StrOpt("weftlab_nas_address", help="Its address on the storage network."),
]
EXPORT = """\
EXPORT {{ Export_Id = {number}; Path = {path}; Pseudo = /shares/{name}; Protocols = 4; Transports = TCP; SecType = sys;
  Squash = No_Root_Squash; Access_Type = None; FSAL {{ Name = VFS; }}
{clients}}}
"""
EVERYBODY = {"0.0.0.0/0": "*"}
"""Any client: Ganesha takes a prefix of no bits for an address."""
CLIENT = "  CLIENT {{ Clients = {to}; Protocols = 4; Access_Type = {level}; }}\n"


class GaneshaDriver(driver.ShareDriver):
    """Without share servers. Snapshots are copies."""

    def __init__(self, *args, **more):
        super().__init__(False, *args, config_opts=[OPTIONS], **more)
        self.configuration.append_config_values(OPTIONS)

    def do_setup(self, context):
        self._folder = Path(self.configuration.weftlab_nas_folder)

    def check_for_setup_error(self):
        if not (self._folder / "head.conf").exists():
            raise exception.ShareBackendException(msg=f"no filer in {self._folder}")

    def _update_share_stats(self):
        super()._update_share_stats(
            {
                "share_backend_name": "nas",
                "storage_protocol": "NFS",
                "vendor_name": "weft",
                "driver_version": "1",
                "total_capacity_gb": 100_000,
                "free_capacity_gb": 100_000,
                "snapshot_support": True,
                "thin_provisioning": [True],
                "max_over_subscription_ratio": 20,
            }
        )

    def create_share(self, context, share, share_server=None):
        (self._folder / "exports" / share["id"]).mkdir(exist_ok=True)
        self._change(share, [])
        path = f"{self.configuration.weftlab_nas_address}:/shares/{share['id']}"
        return [{"path": path, "preferred": True, "is_admin_only": False, "metadata": {}}]

    def delete_share(self, context, share, share_server=None):
        self._change(share, None)
        shutil.rmtree(self._folder / "exports" / share["id"], ignore_errors=True)

    def ensure_share(self, context, share, share_server=None):
        return None

    def ensure_shares(self, context, shares):
        return {}

    def get_backend_info(self, context):
        return {"folder": str(self._folder)}

    def extend_share(self, share, new_size, share_server=None):
        pass

    def create_snapshot(self, context, snapshot, share_server=None):
        shutil.copytree(
            self._folder / "exports" / snapshot["share_id"], self._snapshot(snapshot), dirs_exist_ok=True
        )

    def delete_snapshot(self, context, snapshot, share_server=None):
        shutil.rmtree(self._snapshot(snapshot), ignore_errors=True)

    def update_access(
        self, context, share, access_rules, add_rules, delete_rules, update_rules, share_server=None
    ):
        for rule in access_rules:
            if rule["access_type"] != "ip":
                raise exception.InvalidShareAccess(reason="only addresses")
        self._change(share, [[rule["access_to"], rule["access_level"]] for rule in access_rules])

    def _snapshot(self, snapshot):
        return self._folder / "snapshots" / snapshot["id"]

    def _change(self, share, rules):
        """Set a share's rules, or with None remove its export. Returns when Ganesha has read it."""
        file = self._folder / "shares" / f"{share['id']}.json"
        with _LOCK:
            if rules is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(json.dumps(rules))
            blocks = [self._export(f) for f in sorted((self._folder / "shares").glob("*.json"))]
            conf, new = self._folder / "ganesha.conf", self._folder / "ganesha.conf.new"
            new.write_text((self._folder / "head.conf").read_text() + "".join(blocks))
            new.replace(conf)
            self._reread()

    def _export(self, file):
        rules = json.loads(file.read_text())
        clients = "".join(CLIENT.format(to=EVERYBODY.get(to, to), level=level.upper()) for to, level in rules)
        # Ganesha knows an export by its number, 1 to 65535: of the share's id, and so the same each time.
        number = 100 + int(file.stem[:8], 16) % 60_000
        return EXPORT.format(
            number=number, path=self._folder / "exports" / file.stem, name=file.stem, clients=clients
        )

    def _reread(self):
        log = self._folder / "ganesha.log"
        before = log.read_text(errors="replace").count(REREAD)
        os.kill(int((self._folder / "ganesha.pid").read_text()), signal.SIGHUP)
        end = time.monotonic() + PATIENCE
        while log.read_text(errors="replace").count(REREAD) == before:
            if time.monotonic() > end:
                raise exception.ShareBackendException(msg="Ganesha did not reread its exports")
            time.sleep(0.05)

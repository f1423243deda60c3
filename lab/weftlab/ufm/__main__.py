"""`python -m weftlab.ufm --config FILE`: until SIGTERM."""

from __future__ import annotations

import argparse
import json
import threading
from pathlib import Path
from typing import Any

from weft.ending import EndSignal
from weftlab.ufm.control import Control
from weftlab.ufm.dialect import Dialect
from weftlab.ufm.fabrics import Manager, OpenSmFabric
from weftlab.ufm.inventory import VirtualPort
from weftlab.ufm.server import POLL, Cluster, UfmNode, context
from weftlab.ufm.state import User
from weftlab.ufm.ufm import SAFE_SMCONF, Config, Ufm


def main() -> None:
    """Run UFM's API and its control until SIGTERM."""
    parser = argparse.ArgumentParser(prog="weftlab.ufm")
    parser.add_argument("--config", type=Path, required=True, help="JSON file, see weftlab.ufm.service")
    settings: dict[str, Any] = json.loads(parser.parse_args().config.read_text())
    ended = EndSignal()
    fabric = OpenSmFabric(
        settings["default_partition"],
        [Manager(Path(m["partitions"]), Path(m["pid_file"])) for m in settings["managers"]],
    )
    config = Config(
        users={name: User(**user) for name, user in settings["users"].items()},
        certificates=settings.get("certificates", {}),
        default_membership=settings.get("default_membership", "limited"),
        smconf=settings.get("smconf", SAFE_SMCONF),
        virtual=tuple(VirtualPort(**v) for v in settings.get("virtual", [])),
        state=Path(settings["state"]),
    )
    tls = settings["tls"]
    cluster = Cluster(
        Ufm(fabric, config, Dialect(**settings.get("dialect", {}))),
        [UfmNode(**n) for n in settings["nodes"]],
        context(Path(tls["certificate"]), Path(tls["key"]), Path(tls["client_ca"])),
    )
    control = Control(settings["control"], cluster)
    threading.Thread(target=control.serve_forever, args=(POLL,), name="control", daemon=True).start()
    ended.wait()
    cluster.stop()
    control.shutdown()
    fabric.close()


if __name__ == "__main__":
    main()

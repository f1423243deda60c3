# pyright: basic, reportMissingImports=false
"""Maps the hosts to their cell as they appear (`nova-manage cell_v2 discover_hosts`), inside the fleet.

As a program of its own it would cost four seconds of importing. Ends when all hosts of $WEFT_LAB_HOSTS are mapped.
"""

import os
import sys
import time
from pathlib import Path


def main():
    """Map hosts to the cell until all that are wanted are there."""
    from nova import config, context, objects
    from nova.objects import host_mapping

    objects.register_all()
    config.parse_args(sys.argv)
    wanted = set(os.environ["WEFT_LAB_HOSTS"].split())
    while True:
        admin = context.get_admin_context()
        host_mapping.discover_hosts(admin)
        # A compute of bare metal has no node before there are machines.
        host_mapping.discover_hosts(admin, by_service=True)
        mapped = {m.host for m in objects.HostMappingList.get_all(admin)}
        if wanted <= mapped:
            print("mapped", len(wanted), "hosts", flush=True)
            Path(os.environ["WEFT_LAB_DONE"]).touch()
            return 0
        time.sleep(0.5)

# pyright: basic, reportMissingImports=false
"""Nova's conductor, scheduler and computes: real ones, forked from one process that imported Nova once.

Runs in OpenStack's environment: `fleet.py PLAN`, a JSON file (see `weftlab.openstack`): where the records go, which
process has which name, main function, arguments, log. Stays as their parent and says when one of them ends.
Forking after the imports shares some 90 MB a process and spares the time of importing.
"""

# ruff: noqa: E402
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import ctypes
import importlib
import json
import os
import sys
import traceback
from pathlib import Path

import nova.objects
import nova.privsep
import nova.virt
import os_vif
import vif_plug_ovs.privsep
from oslo_privsep.priv_context import Method
from stevedore import ExtensionManager

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]
nova.virt.__path__.append(str(HERE))  # `compute_driver` is looked up inside nova.virt only

from weftlab.processes import record_of, write_record

MAINS = {
    "conductor": "nova.cmd.conductor",
    "scheduler": "nova.cmd.scheduler",
    "compute": "nova.cmd.compute",
    "discover": "weftlab_discover",
}
PRELOAD = (
    "nova.compute.manager",
    "nova.conductor.manager",
    "nova.scheduler.manager",
    "nova.virt.weftlab_driver",
    "nova.network.neutron",
    "nova.volume.cinder",
    "nova.objects",
    "nova.rpc",
    "nova.image.glance",
    "nova.scheduler.client.report",
    "nova.scheduler.filters.all_hosts_filter",
    "nova.db.main.api",
    "nova.db.api.api",
    "openstack.connection",
    "oslo_messaging._drivers.impl_rabbit",
    "oslo_service.backend._threading.service",
    "pymysql",
)
LIBVIRT = ("nova.virt.weftlab_libvirt",)
PLUGINS = ("oslo.messaging.drivers", "oslo.messaging.notify.drivers", "keystoneauth1.plugin")
PR_SET_NAME = 15


def spawn(plan, child):
    """Fork one; returns its process number. Its output goes to a log of its own."""
    pid = os.fork()
    if pid:
        record = record_of(child["name"], pid, Path(plan["work"]), 9, 5.0, plan["sequence"], member=True)
        write_record(Path(plan["records"]), record)
        return pid
    code = 1
    try:
        log = os.open(child["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(child["env"])
        if child.get("libvirt"):
            # Their privileged halves are forked too: as programs each would import Nova again.
            for context in (nova.privsep.sys_admin_pctxt, vif_plug_ovs.privsep.vif_plug):
                context.start(Method.FORK)
        sys.argv = ["nova-" + child["main"], *child["argv"]]
        ctypes.CDLL(None).prctl(PR_SET_NAME, child["name"].encode()[:15], 0, 0, 0)
        # It keeps the intervals of its periodic work when it is loaded: this process has its own configuration.
        del sys.modules["nova.compute.manager"]
        code = importlib.import_module(MAINS[child["main"]]).main() or 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    """Fork all processes of Nova that the plan names, and wait for them."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    libvirt = LIBVIRT if any(c.get("libvirt") for c in plan["children"]) else ()
    for name in (*PRELOAD, *libvirt, *MAINS.values()):
        importlib.import_module(name)
    # What each of them would do first, once for all: find plug-ins among 170 packages, register the objects.
    nova.objects.register_all()
    if not libvirt:  # its plug-ins keep what the configuration says when they are loaded
        os_vif.initialize()
    for namespace in PLUGINS:
        ExtensionManager(namespace)
    importlib.import_module("weftlab_collector")
    names = {}
    for child in plan["children"]:
        names[spawn(plan, child)] = child
    print("forked", len(names), flush=True)
    while names:
        pid, status = os.wait()
        child = names.pop(pid, None)
        if child is None:
            continue
        code = os.waitstatus_to_exitcode(status)
        if not (child["main"] == "discover" and code == 0):
            print(child["name"], "ended with", code, flush=True)


main()

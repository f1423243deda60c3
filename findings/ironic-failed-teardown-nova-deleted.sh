#!/usr/bin/env bash
# Nova reports a bare-metal server as deleted although Ironic failed to take it down and the machine still runs it.
#
# Versions:  ironic 39.0.0, nova 34.0.0
# Expected:  while a teardown has failed (the BMC doesn't answer), Ironic's node keeps its instance, and Nova's server
#            ends in ERROR: what sees it gone may give its networks and its machine to others.
# Behaviour: Ironic puts the node into `error` and clears instance_uuid all the same. Nova's driver waits by listing
#            nodes with that instance: it finds none, takes that for the end and succeeds, so the server is deleted.
#            Only the node's provision state says that the guest was never stopped.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for package in ironic==39.0.0 nova==34.0.0; do
    python3 -m venv "$tmp/${package%%=*}"
    "$tmp/${package%%=*}/bin/pip" install -q --disable-pip-version-check "$package"
done
cd "$tmp"
cat >teardown.py <<'PY'
import logging
from unittest import mock

from ironic.common import context, states
from ironic.common.exception import IPMIFailure
from ironic.conductor import manager, task_manager
from ironic.conf import CONF
from ironic import objects

CONF([], project="ironic", default_config_files=[])
CONF.set_override("connection", "sqlite:///ironic.db", group="database")
CONF.set_override("notification_level", None)
logging.disable(logging.CRITICAL)

from ironic.db.sqlalchemy import models
from ironic.db.sqlalchemy.api import _session_for_write

with _session_for_write() as session:
    models.Base.metadata.create_all(session.get_bind())
objects.register_all()
admin = context.get_admin_context()
instance = "c0ffee00-0000-4000-8000-000000000001"
node = objects.Node(
    admin, uuid="a0000000-0000-4000-8000-000000000001", driver="ipmi", instance_uuid=instance, power_state=states.POWER_ON,
    provision_state=states.DELETING, target_provision_state=states.AVAILABLE, driver_info={}, driver_internal_info={},
    properties={}, instance_info={"image_source": "x"}, resource_class="metal", reservation="this-host",
)
node.create()
task = mock.Mock(spec=task_manager.TaskManager, node=node, context=admin, ports=[], portgroups=[])
task.driver = mock.MagicMock()
task.driver.deploy.tear_down.side_effect = IPMIFailure(cmd="power off")
events = []
task.process_event = lambda event, **more: events.append(event)
with mock.patch("ironic.conductor.manager.network.remove_vifs_from_node"):
    try:
        manager.ConductorManager._do_node_tear_down.__wrapped__(mock.Mock(), task, states.ACTIVE)
    except IPMIFailure as error:
        print("teardown raised:", type(error).__name__)
left = objects.Node.get_by_uuid(admin, node.uuid)
print(f"ironic: event {events}, power state {left.power_state!r}, instance_uuid {left.instance_uuid}")
assert events == ["fail"] and left.power_state == states.POWER_ON and left.instance_uuid is None, "the behaviour has changed"
PY
"$tmp/ironic/bin/python" teardown.py 2>/dev/null
cat >unprovision.py <<'PY'
from types import SimpleNamespace
from unittest import mock

from nova.conf import CONF
from nova.virt.ironic.driver import IronicDriver

CONF([], project="nova", default_config_files=[])
CONF.set_override("api_retry_interval", 0, group="ironic")
driver = IronicDriver.__new__(IronicDriver)
driver.node_cache = {}
ironic = mock.Mock()
ironic.nodes.return_value = []  # no node has the instance any more: what Ironic answers after the failure above
with mock.patch.object(IronicDriver, "ironic_connection", ironic):
    answer = IronicDriver._unprovision(driver, SimpleNamespace(uuid="c0ffee00-0000-4000-8000-000000000001"), SimpleNamespace(id="a0"))
print(f"nova: unprovision returned {answer} without an error")
assert answer is None and ironic.set_node_provision_state.called, "the behaviour has changed"
PY
"$tmp/nova/bin/python" unprovision.py 2>/dev/null

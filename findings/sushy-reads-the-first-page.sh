#!/usr/bin/env bash
# sushy reads the first page of a Redfish collection, and says nothing of the others.
#
# Version:   sushy 5.14.0 (Ironic's Redfish library), a service on loopback with HTTP
# Expected:  a collection that a service answers in pages (`Members@odata.nextLink`, DSP0266 "Resource collection
#            responses") is read to its end, as by other clients of this specification; or it is an error, as
#            `Members@odata.count` says that there are more.
# Behaviour: `get_members()` and `members_identities` have the first page alone: two of five interfaces, without an
#            error or a warning. Who takes the list for all interfaces of a machine misses its adapters.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install "sushy==5.14.0" "requests==2.34.2" >pip.log 2>&1 || { cat pip.log; exit 1; }
venv/bin/python - <<'END'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import sushy

logging.basicConfig(level=logging.WARNING)
HOME = "/redfish/v1"
SYSTEM = f"{HOME}/Systems/1"
NICS = f"{SYSTEM}/EthernetInterfaces"


def nic(number):
    return {
        "@odata.id": f"{NICS}/{number}", "@odata.type": "#EthernetInterface.v1_12_0.EthernetInterface",
        "Id": str(number), "Name": f"interface {number}", "MACAddress": f"02:00:00:00:00:0{number}",
    }


def page(numbers, following):
    found = {
        "@odata.id": NICS, "@odata.type": "#EthernetInterfaceCollection.EthernetInterfaceCollection",
        "Name": "interfaces", "Members@odata.count": 5, "Members": [{"@odata.id": f"{NICS}/{n}"} for n in numbers],
    }
    return found | ({"Members@odata.nextLink": following} if following else {})


DOCUMENTS = {
    HOME: {"@odata.id": HOME, "Id": "root", "Name": "root", "RedfishVersion": "1.18.0", "UUID": "11111111-1111-4111-8111-111111111111",
           "Systems": {"@odata.id": f"{HOME}/Systems"}, "Links": {}},
    f"{HOME}/Systems": {"@odata.id": f"{HOME}/Systems", "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
                        "Name": "systems", "Members@odata.count": 1, "Members": [{"@odata.id": SYSTEM}]},
    SYSTEM: {"@odata.id": SYSTEM, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem", "Id": "1", "Name": "machine",
             "EthernetInterfaces": {"@odata.id": NICS}},
    NICS: page((1, 2), f"{NICS}?$skip=2"),
    f"{NICS}?$skip=2": page((3, 4), f"{NICS}?$skip=4"),
    f"{NICS}?$skip=4": page((5,), None),
    **{f"{NICS}/{n}": nic(n) for n in range(1, 6)},
}
asked = []


class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        found = DOCUMENTS.get(self.path.rstrip("/"))
        body = json.dumps(found or {"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "not found"}}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
threading.Thread(target=server.serve_forever, daemon=True).start()
root = sushy.Sushy(f"http://127.0.0.1:{server.server_port}", auth=sushy.auth.BasicAuth("admin", "admin"))
interfaces = root.get_system(SYSTEM).ethernet_interfaces
macs = [one.mac_address for one in interfaces.get_members()]
announced = interfaces.json["Members@odata.count"]
print(f"announced: {announced}; read: {len(macs)}: {', '.join(macs)}; pages asked for: {sum('$skip' in path for path in asked)}")
assert announced == 5 and macs == ["02:00:00:00:00:01", "02:00:00:00:00:02"], "the behaviour has changed"
assert not any("$skip" in path for path in asked), "the behaviour has changed"
server.shutdown()
END

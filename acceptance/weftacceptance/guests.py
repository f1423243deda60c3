"""Steps that look into the servers of pods, by logins and at their consoles."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

from weftacceptance.cloud import Answer, Json, LostError, soon
from weftacceptance.images import IMAGE_BYTES
from weftacceptance.pods import release
from weftacceptance.servers import BOOT_ID, address_of, launch, launched, login, servers
from weftacceptance.steps import PREFIX, Run, Tests, step

_RECENT = 60.0
"""Greatest age in seconds of an entry of the kernel's log."""


@step("host_status_log", "bare_metal")
def host_status_log(run: Run) -> Json:
    """The machine's kernel log has what was just written to it. The lab's machines have no journal."""
    word, tests = f"{PREFIX}{time.time_ns()}", Tests()
    shown = login(run, f"echo {word} > /dev/kmsg; cat /proc/uptime; dmesg | tail -n 20").splitlines()
    up = float(shown[0].split()[0])
    times = [float(line[1:].split("]")[0]) for line in shown[1:] if line.startswith("[") and word in line]
    age = up - max(times, default=-_RECENT * 2)
    tests.add("server_there", servers(run).find(launched(run)["id"]) is not None, "Nova has it")
    tests.add("dmesg_recent", -1 <= age <= _RECENT, f"the newest entry is {age:.0f} s old")
    return {"instance_id": launched(run)["id"], "tests": tests}


@step("query_stable_ips", "bare_metal")
def query_stable_ips(run: Run) -> Json:
    """The machine's address, if it is the one with which it was handed over: in Nova, and in a login, which shows
    that it was switched off and on since. Other machines aren't checked."""
    kept, before = launched(run), run.need("boot")
    address = address_of(run)
    same = address == kept["address"] and login(run, BOOT_ID) != before
    (node,) = [one["node"] for one in kept["pod"]["placed"]]
    host = {"host_id": node, "primary_ip_addresses": [address] if same else []}
    return {"success": same, "site_id": "weft", "hosts_checked": 1, "hosts": [host]}


@step("connectivity_test", "network")
def connectivity(run: Run) -> Json:
    """Two servers of a pod answer each other's pings."""
    tests = Tests()
    launch(run, count=2)
    try:
        kept = launched(run)
        addresses = [one["management_address"] for one in kept["pod"]["servers"]]
        for mine, other in (addresses, reversed(addresses)):
            answered = login(run, f"ping -c 1 -W 5 {other} > /dev/null && echo {other}", mine)
            tests.add(f"ping_{other}", answered == other, f"answers {mine}")
        rows = servers(run).rows()
        names = {one["name"]: one["management_address"] for one in kept["pod"]["servers"]}
        shown = [
            {"instance_id": one["id"], "private_ip": names[one["name"]]}
            for one in rows
            if one["name"] in names
        ]
        tests.add("servers_listed", len(shown) == 2, "Nova has both")
        return {"instances": shown, "tests": tests}
    finally:
        release(run.tenant, "server")


@step("launch_instance", "image-registry")
def launch_from_image(run: Run) -> Json:
    """A server of the uploaded image: Nova says so, and its disk begins with the image's bytes."""
    key, digest = run.need("image"), run.need("digest")
    shown = launch(run, PREFIX + "image")
    found = servers(run).find(shown["instance_id"])
    read = login(run, f"head -c {IMAGE_BYTES} /dev/vda | sha512sum").split()
    if (found or {})["image"]["id"] != key or read[:1] != [digest]:
        raise LostError("the server's disk isn't of the image that was uploaded")
    return {**shown, "image_id": key}


@step("teardown_instance", "image-registry")
def teardown_instance(run: Run) -> Json:
    """Release the pod and delete the key pair; passes if the receipt is clean and Nova has no server."""
    kept, tests = launched(run), Tests()
    tests.add("pod_released", release(run.tenant, "server"), "its receipt is clean")
    tests.add("server_gone", servers(run).find(kept["id"]) is None, "Nova no longer has the server")
    run.tenant.ask("compute", "DELETE", f"/os-keypairs/{PREFIX}key")
    return {"tests": tests}


@step("serial_console", "bare_metal")
def serial_console(run: Run) -> Json:
    """Ironic's console of the machine shows what the server writes. Only Ironic's operators may read it."""
    kept, word = launched(run), f"{PREFIX}{time.time_ns()}"
    (node,) = [one["node"] for one in kept["pod"]["placed"]]
    machine = f"/v1/nodes/{node}"
    headers, operator = {"X-OpenStack-Ironic-API-Version": "1.50"}, run.cloud.system("operator")

    def ask(method: str, body: Json | None = None) -> Answer:
        return operator.ask("baremetal", method, f"{machine}/states/console", body, headers)

    ask("PUT", {"enabled": True})
    try:
        found: Json = {}

        def is_on() -> bool:
            found.clear()
            found.update(ask("GET").body)
            return found["console_enabled"] is True and bool(found["console_info"])

        if not soon(is_on, 30):
            raise LostError("Ironic doesn't enable the console")
        there, read = _heard(run, str(found["console_info"]["url"]), word)
    finally:
        ask("PUT", {"enabled": False})
    return {"instance_id": kept["id"], "console_available": there, "output_length": read}


def _heard(run: Run, url: str, word: str) -> tuple[bool, int]:
    """Whether a word that the server writes to its console is read there, and how many bytes were read."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port or 0), 10) as peer:
        peer.settimeout(2)
        heard = b""

        def is_there() -> bool:
            nonlocal heard
            login(run, f"echo {word} > /dev/console")
            try:
                while word.encode() not in heard and (more := peer.recv(65536)):
                    heard += more
            except TimeoutError:
                return False
            return word.encode() in heard

        return soon(is_there, 30), len(heard)

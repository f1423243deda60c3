"""Steps about servers: a pod of one server, virtual or on bare metal, which a login shows to run.

A server runs if Nova says so and a login shows it; it is stopped if Nova says so and its machine has lost its boot
id.
"""

from __future__ import annotations

import time

from weftacceptance.cloud import POD_SERVICE, Collection, Json, LostError, soon
from weftacceptance.logins import Logins
from weftacceptance.pods import pod_of, release
from weftacceptance.steps import PREFIX, Run, SkipError, Tests, step, subnets, weft

_IMAGE = "guest"
_NAME = {"bare_metal": "metal"}
"""Suite -> name of its pod; in other suites it is `server`."""
_STATES = {
    "ACTIVE": "running",
    "SHUTOFF": "stopped",
    "BUILD": "pending",
    "REBOOT": "pending",
    "HARD_REBOOT": "pending",
}
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"


def servers(run: Run) -> Collection:
    """Nova's servers of the tenant's project."""
    return Collection(run.tenant, "compute", "/servers", "server", "servers")


def _logins(run: Run) -> Logins:
    if run.logins is None:
        raise SkipError("servers of the lab are recorded, not booted: start it with --guests")
    return run.logins


def _flavor(run: Run) -> str:
    flavor = "metal8" if run.suite == "bare_metal" else "gpu8"
    found = run.tenant.ask("compute", "GET", "/flavors").get("flavors")
    if flavor not in [one["name"] for one in found]:
        raise SkipError("the lab has no bare-metal machines: start it with --metal")
    return flavor


def launched(run: Run) -> Json:
    """What `launch_instance` left: pod, server, address, cidr. Raises `SkipError` if it left nothing."""
    return run.need("server")


def login(run: Run, command: str, address: str = "") -> str:
    """A command's output on the server, or on another one of its pod. Raises `LostError`."""
    kept = launched(run)
    return _logins(run).run(kept["pod"], kept["cidr"], address or kept["address"], command)


def _state(run: Run) -> str:
    """The server's state in Nova."""
    found = servers(run).find(launched(run)["id"])
    return str(_STATES.get(found["status"], found["status"])) if found else "terminated"


def _shown(run: Run) -> Json:
    """The server as it is now. Its state is running only if a login works."""
    kept = launched(run)
    found = servers(run).find(kept["id"])
    if found is None:
        raise LostError("Nova doesn't have the server")
    login(run, "true")
    return {
        "instance_id": found["id"],
        "instance_name": found["name"],
        "state": _STATES.get(found["status"], found["status"]),
        "instance_state": _STATES.get(found["status"], found["status"]),
        "public_ip": kept["address"],
        "private_ip": kept["address"],
        "key_name": found["key_name"],
        "key_file": str(_logins(run).key_file),
        "key_path": str(_logins(run).key_file),
        "ssh_user": "root",
        "vpc_id": kept["network"],
    }


def launch(run: Run, image: str = _IMAGE, count: int = 1) -> Json:
    """Orders a pod of servers with a key of this run, and logs in to the first one."""
    logins, flavor, name = _logins(run), _flavor(run), _NAME.get(run.suite, "server")
    key = PREFIX + "key"
    run.tenant.ask("compute", "DELETE", f"/os-keypairs/{key}")
    made = {"keypair": {"name": key, "public_key": logins.public_key}}
    run.tenant.ask("compute", "POST", "/os-keypairs", made)
    kind = "bare_metal" if run.suite == "bare_metal" else "virtual"
    nodes = {"count": count, "flavor": flavor, "image": image, "kind": kind}
    asked = {"name": PREFIX + name, "nodes": nodes, "access": {"key_pair": key}}
    pod = pod_of(run, run.tenant, name, count, asked)
    server = pod["servers"][0]
    (row,) = [one for one in servers(run).rows(f"?name={server['name']}") if one["name"] == server["name"]]
    managed = next(one["id"] for one in pod["resources"] if one["key"] == "subnet/management")
    subnet = subnets(run.tenant).find(managed)
    if subnet is None:
        raise LostError("Neutron doesn't have the pod's subnet")
    kept = {"pod": pod, "id": row["id"], "address": server["management_address"], "cidr": subnet["cidr"]}
    run.kept["server"] = kept | {"network": subnet["network_id"]}
    copy = next((one["name"] for one in pod["resources"] if one["key"] == "key_pair"), "")
    shown = _shown(run)
    # weft gives Nova a copy of the key under another name; the login has shown that it is this key.
    name = key if shown["key_name"] == copy else shown["key_name"]
    return {**shown, "requested_key_name": key, "key_name": name}


@step("launch_instance", "vm", "bare_metal", "storage")
def launch_instance(run: Run) -> Json:
    """Orders a pod of one server, and waits until a login works."""
    return launch(run)


@step("describe_instance", "vm", "bare_metal")
def describe_instance(run: Run) -> Json:
    """The server in Nova: state, addresses, flavor."""
    return _shown(run)


@step("list_instances", "vm", "bare_metal")
def list_instances(run: Run) -> Json:
    """Lists servers; the launched one must be among them and accept a login."""
    kept = launched(run)
    login(run, "true")
    rows = run.tenant.ask("compute", "GET", "/servers/detail").get("servers")
    shown = [
        {
            "instance_id": one["id"],
            "state": _STATES.get(one["status"], one["status"]),
            "vpc_id": kept["network"] if one["id"] == kept["id"] else "other",
        }
        for one in rows
    ]
    there = kept["id"] in [one["id"] for one in rows]
    return {"instances": shown, "count": len(rows), "found_target": there, "target_instance": kept["id"]}


@step("verify_tags", "vm", "bare_metal")
def verify_tags(run: Run) -> Json:
    """Nova's metadata of the server: its name, and who made it."""
    key = launched(run)["id"]
    wanted = {"Name": PREFIX + "tagged", "CreatedBy": "acceptance"}
    run.tenant.ask("compute", "POST", f"/servers/{key}/metadata", {"metadata": wanted})
    found = run.tenant.ask("compute", "GET", f"/servers/{key}/metadata").get("metadata")
    return {
        "instance_id": key,
        "tags": {name: found[name] for name in wanted if found.get(name) == wanted[name]},
    }


def _output(run: Run, caller: object = None) -> tuple[int, str]:
    """Status of the request for the console's output, and the output; by default as the tenant."""
    key = launched(run)["id"]
    asked = {"os-getConsoleOutput": {"length": 200}}
    got = (caller or run.tenant).ask("compute", "POST", f"/servers/{key}/action", asked)  # type: ignore[attr-defined]
    return got.status, str((got.body or {}).get("output", "")) if got.is_done else ""


@step("serial_console", "vm")
def serial_console(run: Run) -> Json:
    """The console shows what the server just wrote to it."""
    word = f"{PREFIX}{time.time_ns()}"
    login(run, f"echo {word} > /dev/console")
    there = soon(lambda: word in _output(run)[1])
    output = _output(run)[1]
    return {"instance_id": launched(run)["id"], "console_available": there, "output_length": len(output)}


@step("console_rbac", "vm")
def console_rbac(run: Run) -> Json:
    """The project's member may read the console; a reader, and a member of another project, may not."""
    tests = Tests()
    refused = [_output(run, caller)[0] for caller in (run.reader, run.other)]
    allowed, output = _output(run)
    denied = all(status in (403, 404) for status in refused)
    tests.add("denied_principal_cannot_access_console", denied, f"refused with {refused}")
    tests.add("allowed_principal_can_access_console", allowed == 200 and bool(output), "reads it")
    scoped = refused[1] in (403, 404) and allowed == 200
    tests.add("allowed_principal_is_resource_scoped", scoped, "a member of another project doesn't")
    more = {
        "access_restricted": denied,
        "restricted_actions": ["os-getConsoleOutput"],
        "rbac_model": "Keystone's roles",
    }
    return {"instance_id": launched(run)["id"], **more, "tests": tests}


def _act(run: Run, action: Json) -> bool:
    return run.tenant.ask("compute", "POST", f"/servers/{launched(run)['id']}/action", action).is_done


@step("stop_instance", "vm", "bare_metal")
def stop_instance(run: Run) -> Json:
    """Stops the server; waits up to 150 s until Nova shows it stopped."""
    run.kept["boot"] = login(run, BOOT_ID)
    begun = _act(run, {"os-stop": None})
    soon(lambda: _state(run) == "stopped", 150)
    return {"instance_id": launched(run)["id"], "stop_initiated": begun, "state": _state(run)}


@step("start_instance", "vm", "bare_metal")
def start_instance(run: Run) -> Json:
    """Starts the server; passes if its boot id differs from that before it was stopped."""
    before = run.need("boot")
    begun = _act(run, {"os-start": None})
    soon(lambda: _state(run) == "running", 150)
    again = login(run, BOOT_ID) != before
    return {**_shown(run), "start_initiated": begun, "ssh_ready": again}


@step("reboot_instance", "vm", "bare_metal")
def reboot_instance(run: Run) -> Json:
    """Reboots the server by weft's action; passes with another boot id, and an uptime since then."""
    kept, before = launched(run), login(run, BOOT_ID)
    path = f"/v1/pods/{kept['pod']['name']}/servers/{kept['pod']['servers'][0]['name']}/action"
    begun = run.tenant.ask(POD_SERVICE, "POST", path, {"action": "reboot"}).is_done
    again = soon(lambda: _booted(run) not in ("", before), 200)
    uptime = float(login(run, "cat /proc/uptime").split()[0])
    soon(lambda: _state(run) == "running", 60)
    confirmed = {"reboot_initiated": begun, "reboot_confirmed": again, "ssh_ready": again}
    return {**_shown(run), **confirmed, "uptime_seconds": round(uptime)}


def _booted(run: Run) -> str:
    try:
        return login(run, BOOT_ID)
    except LostError:
        return ""


@step("power_cycle_instance", "bare_metal")
def power_cycle_instance(run: Run) -> Json:
    """Stops and starts the server; passes if a login shows another boot."""
    before, began = login(run, BOOT_ID), time.monotonic()
    begun = _act(run, {"os-stop": None})
    off = soon(lambda: _state(run) == "stopped", 150)
    _act(run, {"os-start": None})
    soon(lambda: _state(run) == "running", 150)
    again = login(run, BOOT_ID) != before
    took = {"power_was_off": off, "recovery_seconds": round(time.monotonic() - began)}
    return {**_shown(run), "power_cycle_initiated": begun, **took, "ssh_ready": again}


@step("verify_image", "bare_metal")
def verify_image(run: Run) -> Json:
    """The server's image in Nova is the one that was ordered."""
    shown = _shown(run)
    found = servers(run).find(shown["instance_id"])
    image = run.tenant.ask("image", "GET", f"/v2/images/{(found or {})['image']['id']}")
    if image.get("name") != _IMAGE:
        raise LostError("the server has another image than was ordered")
    return {**shown, "image_id": image.get("id"), "image_name": image.get("name")}


@step("teardown", "vm", "bare_metal")
@step("teardown", "storage")
def teardown(run: Run) -> Json:
    """Releases the pod; passes if its receipt says that all of it is gone and Nova has no server."""
    kept, tests = launched(run), Tests()
    clean = release(run.tenant, _NAME.get(run.suite, "server"))
    tests.add("pod_released", clean, "its receipt is clean")
    tests.add("server_gone", servers(run).find(kept["id"]) is None, "Nova no longer has the server")
    run.tenant.ask("compute", "DELETE", f"/os-keypairs/{PREFIX}key")
    return {"tests": tests}


@step("verify_teardown", "bare_metal")
def verify_teardown(run: Run) -> Json:
    """Nova has no server, and weft doesn't list the node as the pod's."""
    kept, tests = launched(run), Tests()
    tests.add("server_gone", servers(run).find(kept["id"]) is None, "Nova no longer has the server")
    (node,) = [one["node"] for one in kept["pod"]["placed"]]
    row = weft(run.operator, f"/v1/nodes/{node}")
    left = row["name"] == node and row["pod"] != kept["pod"]["name"]
    tests.add("node_left", left, f"{node} is {row['state']}")
    return {"tests": tests}


@step("stable_ip_test", "network")
def stable_ip(run: Run) -> Json:
    """A server's address before it is stopped and after it was started, in Neutron and by a login."""
    tests = Tests()
    launch(run)
    try:
        tests.add("create_instance", _state(run) == "running", "Nova, and a login")
        before = address_of(run)
        tests.add("record_ip", before == launched(run)["address"], before)
        boot = login(run, BOOT_ID)
        _act(run, {"os-stop": None})
        tests.add("stop_instance", soon(lambda: _state(run) == "stopped", 150), "as Nova says")
        _act(run, {"os-start": None})
        soon(lambda: _state(run) == "running", 150)
        again = login(run, BOOT_ID) != boot
        tests.add("start_instance", again, "another boot answers a login at the same address")
        tests.add(
            "ip_unchanged", address_of(run) == before, before, ip_before=before, ip_after=address_of(run)
        )
        return {"instance_id": launched(run)["id"], "tests": tests}
    finally:
        release(run.tenant, "server")


def address_of(run: Run) -> str:
    """The server's address on its management network, in Nova."""
    found = servers(run).find(launched(run)["id"]) or {}
    there = [one["addr"] for some in found["addresses"].values() for one in some]
    return next((one for one in there if one == launched(run)["address"]), "")


@step("query_sanitization", "bare_metal")
def query_sanitization(run: Run) -> Json:
    """From the receipt of the suite's machine: its disks were erased after a tenant had it, before it was free
    again. Memory and firmware aren't read, and their checks are left out."""
    kept = launched(run)
    pod = kept["pod"]
    if not release(run.tenant, _NAME["bare_metal"]):
        raise LostError("the machine's pod isn't released clean")
    receipt = weft(run.tenant, f"/v1/pods/{pod['id']}/receipt")["receipt"]
    cleaned = [one for one in receipt["items"] if one["plane"] == "machine"]
    erased = [one for one in cleaned if one["result"] == "clean" and "disks erased" in one["seen"]]
    (node,) = [one["node"] for one in pod["placed"]]
    row = weft(run.operator, f"/v1/nodes/{node}")
    done = bool(cleaned) and len(erased) == len(cleaned)
    machine = {
        "machine_id": node,
        "status": "available" if row["state"] == "free" else row["state"],
        "available": row["state"] == "free",
        "in_use": row["pod"] is not None,
        "has_gpu": True,
        "served_tenant": True,
        "sanitized": done,
        "stale_tenant_binding": row["project_id"] is not None,
        "transitions": ["in_use", "sanitizing", "available"] if done else ["in_use", row["state"]],
    }
    return {"site_id": "weft", "machines_checked": 1, "machines": [machine]}

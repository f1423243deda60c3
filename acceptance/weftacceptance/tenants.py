"""The step about two tenants, each with a running server, an image, a share and a volume: neither has the other's."""

from __future__ import annotations

from ipaddress import IPv4Network

from weftacceptance.cloud import Caller, Collection, Json, LostError, SkipError
from weftacceptance.images import images
from weftacceptance.pods import members_of, pod_of, release
from weftacceptance.steps import PREFIX, Run, Tests, networks, step, subnets
from weftacceptance.storage import VOLUMES, find_share, keeps, manila, share

_NAMES = ("mine", "theirs")
_HOSTS = ("10.79.0.242", "10.79.0.243")


@step("tenant_isolation_test", "security")
def tenant_isolation(run: Run) -> Json:
    """A member of another project gets nothing of a project's network, server, image, share and volume."""
    if run.logins is None:
        raise SkipError("servers of the lab are recorded, not booted: start it with --guests")
    manila(run.tenant, "GET", "/shares")
    tests = Tests()
    try:
        pods = [_running(run, caller, name) for caller, name in zip(_callers(run), _NAMES, strict=True)]
        tests.add(
            "network_isolated", _networks(run, pods), "neither fabric nor Ethernet lets one to the other"
        )
        tests.add(
            "compute_isolated", _compute(run, pods[0]), "the other project's member finds no server and pod"
        )
        tests.add("data_isolated", _data(run), "nor the image and the share's files")
        tests.add("storage_isolated", _volumes(run), "nor share and volume")
    finally:
        for caller, name in zip(_callers(run), _NAMES, strict=True):
            release(caller, name)
    return {"tenant_a_id": run.tenant.project_id, "tenant_b_id": run.other.project_id, "tests": tests}


def _callers(run: Run) -> tuple[Caller, Caller]:
    return run.tenant, run.other


def _running(run: Run, caller: Caller, name: str) -> Json:
    """A booted pod of one server, with its management subnet's addresses as `cidr`."""
    assert run.logins is not None
    nodes = {"count": 1, "flavor": "gpu8", "image": "guest"}
    asked = {"name": PREFIX + name, "nodes": nodes, "access": {"ssh_key": run.logins.public_key}}
    pod = pod_of(run, caller, name, 1, asked)
    managed = next(one["id"] for one in pod["resources"] if one["key"] == "subnet/management")
    subnet = subnets(caller).find(managed)
    if subnet is None:
        raise LostError("Neutron doesn't have the pod's subnet")
    return pod | {"cidr": subnet["cidr"], "network_id": subnet["network_id"]}


def _networks(run: Run, pods: list[Json]) -> bool:
    """Whether no port is in both partitions, the other server doesn't reach the first one, not even with an
    address of its network, and the first one answers within its own network."""
    assert run.logins is not None
    mine, theirs = pods
    first, second = ({one["port"] for one in members_of(run, pod)} for pod in pods)
    address = mine["servers"][0]["management_address"]
    taken = f"{IPv4Network(mine['cidr'])[-3]}/{IPv4Network(mine['cidr']).prefixlen}"
    command = f"ip address add {taken} dev eth0; ping -c 1 -W 3 {address} >/dev/null && echo reached; "
    command += f"ip address del {taken} dev eth0"
    other = theirs["servers"][0]["management_address"]
    reached = run.logins.run(theirs, theirs["cidr"], other, command)
    answers = run.logins.run(mine, mine["cidr"], address, "echo here") == "here"
    hidden = networks(run.other).find(mine["network_id"]) is None
    return bool(first) and not first & second and "reached" not in reached and answers and hidden


def _compute(run: Run, mine: Json) -> bool:
    name = mine["servers"][0]["name"]
    rows = run.tenant.ask("compute", "GET", f"/servers?name={name}").get("servers")
    (key,) = [one["id"] for one in rows if one["name"] == name]
    asked = [("GET", f"/servers/{key}", None), ("POST", f"/servers/{key}/action", {"os-stop": None})]
    refused = [run.other.ask("compute", *one).status for one in asked]
    refused.append(run.other.ask("accelerator-pod", "GET", f"/v1/pods/{mine['id']}").status)
    there = run.tenant.ask("compute", "GET", f"/servers/{key}").get("server")["status"] == "ACTIVE"
    return refused == [404, 404, 404] and there


def _data(run: Run) -> bool:
    body = {"name": PREFIX + "mine", "disk_format": "raw", "container_format": "bare"}
    key = str(run.tenant.ask("image", "POST", "/v2/images", body).get("id"))
    try:
        hidden = images(run.other).find(key) is None and images(run.tenant).find(key) is not None
    finally:
        images(run.tenant).delete(key)
    with (
        share(run.tenant, "mine", _HOSTS[0]) as (_, location),
        run.lab.files(_HOSTS[0]) as host,
        run.lab.files(_HOSTS[1]) as stranger,
    ):
        return hidden and keeps(host, location) and stranger.files(location) is None


def _volumes(run: Run) -> bool:
    def volumes(caller: Caller) -> Collection:
        return Collection(caller, VOLUMES, "/volumes", "volume", "volumes")

    key = volumes(run.tenant).make(name=PREFIX + "mine", size=1)
    try:
        refused = [volumes(run.other).find(key) is None, volumes(run.other).delete(key).status == 404]
        there = volumes(run.tenant).find(key) is not None
    finally:
        volumes(run.tenant).delete(key)
    with share(run.tenant, "mine", _HOSTS[0]) as (other, _):
        hidden = find_share(run.other, other) is None
        refused.append(manila(run.other, "DELETE", f"/shares/{other}").status == 404)
        return all(refused) and there and hidden and find_share(run.tenant, other) is not None

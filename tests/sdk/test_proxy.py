"""An openstacksdk connection with weft's proxy, against a real API server and a small fake Keystone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1.exceptions import ConnectFailure
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.cli.conftest import desk, doors, servers
from tests.helpers import doors as doors_
from tests.helpers.desk import Desk
from weft.sdk import Pod, PodProxy, add

__all__ = ["desk", "doors", "servers"]
ORDER: Any = doors_.ORDER


def connect(cloud: str = "a-member") -> Connection:
    region = OpenStackConfig(config_files=["clouds.yaml"], load_envvars=False).get_one(cloud)
    return Connection(config=region)


@pytest.fixture
def proxy(desk: Desk) -> PodProxy:
    return add(connect())


def test_pod_is_ordered_read_listed_and_released(proxy: PodProxy, desk: Desk) -> None:
    """With the connection's session and catalog; values are those of `weft pod show`."""
    made = proxy.create_pod(**ORDER)
    assert isinstance(made, Pod)
    assert (made.name, made.state) == (ORDER["name"], "PLACED")
    read = proxy.get_pod(ORDER["name"])
    shown = desk.weft("pod", "show", ORDER["name"], "-f", "json").json
    assert (read.id, read.generation, read.order["name"]) == (shown["id"], 1, ORDER["name"])
    assert [p.id for p in proxy.pods()] == [made.id]
    assert proxy.find_pod("nix") is None
    with pytest.raises(exceptions.ConflictException, match="there is no receipt"):
        proxy.pod_receipt(made)
    assert proxy.release_pod(read).id == made.id
    desk.house.finish(ORDER["name"])
    assert proxy.wait_for_pod(made, "RELEASED", interval=0.01, wait=5).has_receipt
    assert proxy.pod_receipt(made)["signature"]
    events = proxy.pod_events(made)
    assert proxy.pod_events(made, after=events[-2]["sequence"]) == events[-1:]


def test_all_pages_of_a_list_are_read(proxy: PodProxy, desk: Desk) -> None:
    """The API's `next` is a marker; filters are sent with every page."""
    for name in ("p1", "p2", "p3"):
        proxy.create_pod(**{**ORDER, "name": name, "queue": True})
    assert [p.name for p in proxy.pods(limit=1)] == ["p1", "p2", "p3"]
    assert [p.name for p in proxy.pods(limit=1, name="p2")] == ["p2"]
    assert list(proxy.pods(state="READY")) == []


def test_all_pages_of_events_are_read(proxy: PodProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service chooses the size of a page, and says where the next one begins."""
    made = proxy.create_pod(**ORDER)
    whole = proxy.pod_events(made)
    asked: list[object] = []

    def get(url: str, params: Mapping[str, Any]) -> Any:
        asked.append(params["after"])
        rest = [one for one in whole if one["sequence"] > params["after"]]
        page = {"events": rest[:1]} | ({"next": rest[0]["sequence"]} if rest[1:] else {})
        return SimpleNamespace(json=lambda: page)

    monkeypatch.setattr(proxy, "get", get)
    assert proxy.pod_events(made) == whole and len(asked) == len(whole) > 1


def test_repeated_page_of_events_is_an_error(proxy: PodProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in front that drops queries would answer each request with the first page."""
    page = {"events": [{"sequence": 1}], "next": 1}
    monkeypatch.setattr(proxy, "get", lambda *_, **__: SimpleNamespace(json=lambda: page))
    with pytest.raises(exceptions.SDKException, match="events after 1 names 1 as its last"):
        proxy.pod_events("p1")


def test_order_with_the_same_key_gives_the_same_pod(proxy: PodProxy) -> None:
    first = proxy.create_pod(key="7c2d", **ORDER)
    assert proxy.create_pod(key="7c2d", **ORDER).id == first.id


def test_change_of_an_outdated_pod_is_refused(proxy: PodProxy) -> None:
    """The generation of a `Pod` must be the current one; by name no generation is compared."""
    pod = proxy.create_pod(**ORDER)
    order = {k: v for k, v in ORDER.items() if k != "name"}
    assert proxy.apply_pod(pod, **order).generation == 1
    stale = Pod.existing(id=pod.id, name=pod.name, generation=7)
    with pytest.raises(exceptions.HttpException) as refused:
        proxy.apply_pod(stale, **order)
    assert refused.value.status_code in (409, 412)
    assert proxy.apply_pod(pod.name, **order).generation == 1


def test_errors_are_openstacksdks_with_wefts_sentence(proxy: PodProxy) -> None:
    """openstacksdk reads only `application/json`; weft sends `application/problem+json` (RFC 9457)."""
    with pytest.raises(exceptions.NotFoundException, match="there is no pod 'nix' in this project"):
        proxy.get_pod("nix")
    with pytest.raises(exceptions.BadRequestException) as refused:
        proxy.create_pod(**{**ORDER, "nodes": {"count": 0}})
    assert refused.value.status_code == 400 and "nodes" in str(refused.value)
    with pytest.raises(exceptions.NotFoundException):
        proxy.find_pod("nix", ignore_missing=False)
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="isn't the name or id"):
            proxy.get_pod(name)


def test_reader_may_read_but_not_order(desk: Desk) -> None:
    reader = add(connect("a-reader"))
    assert list(reader.pods()) == []
    with pytest.raises(exceptions.ForbiddenException):
        reader.create_pod(**ORDER)


def test_wait_ends_in_the_state_or_times_out(proxy: PodProxy) -> None:
    """For a pod that is in that state already it ends at once."""
    pod = proxy.create_pod(**ORDER)
    assert proxy.wait_for_pod(pod, "PLACED", interval=0.01, wait=5).id == pod.id
    with pytest.raises(exceptions.ResourceTimeout):
        proxy.wait_for_pod(pod, "READY", interval=0.01, wait=0.05)


def test_wait_for_a_pod_that_fails_is_a_failure(proxy: PodProxy, desk: Desk) -> None:
    desk.house.break_servers()
    pod = proxy.create_pod(**ORDER)
    desk.house.finish(ORDER["name"])
    with pytest.raises(exceptions.ResourceFailure):
        proxy.wait_for_pod(pod, "READY", interval=0.01, wait=5)


def test_catalog_url_may_include_the_version(desk: Desk) -> None:
    """`https://weft.example/v1` and `https://weft.example` are the same service."""
    desk.keystone.weft_url = f"{desk.url}/v1"
    assert list(add(connect()).pods()) == []


def test_vendor_hook_of_a_cloud_profile_adds_the_service(desk: Desk) -> None:
    desk.clouds["a-member"]["vendor_hook"] = "weft.sdk:hook"
    desk.write_clouds()
    proxy: Any = connect().accelerator_pod  # type: ignore[attr-defined]
    assert list(proxy.pods()) == []


def test_vendor_hook_makes_no_request_before_pods_are_used(desk: Desk) -> None:
    """An unreachable Keystone fails calls, not a connection that may be for Nova only."""
    desk.clouds["a-member"]["vendor_hook"] = "weft.sdk:hook"
    desk.clouds["a-member"]["auth"]["auth_url"] = "http://127.0.0.1:9/v3"
    desk.write_clouds()
    connection: Any = connect()
    with pytest.raises(ConnectFailure):
        list(connection.accelerator_pod.pods())


def test_import_works_with_the_oldest_openstacksdk() -> None:
    """In 4.4, ServiceDescription can't be subscripted."""
    code = (
        "from openstack.service_description import ServiceDescription\n"
        "ServiceDescription.__class_getitem__ = None\n"
        "import weft.sdk\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr

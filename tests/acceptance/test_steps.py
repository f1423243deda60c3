"""A step of the acceptance provider is true only for what it read back after its act, and never if services lie."""

from __future__ import annotations

import ssl
import time
from datetime import timedelta
from typing import Any, cast

import pytest
from weftacceptance import cloud, identity
from weftacceptance.cloud import Json
from weftacceptance.steps import Run, take
from weftacceptance.verbs import STEPS

from tests.acceptance.fakes import LIES, FakeLogins, World
from tests.acceptance.insides import FakeInside

BEFORE: dict[tuple[str, str], tuple[str, ...]] = {
    ("iam", "test_credentials"): ("create_user",),
    ("iam", "teardown"): ("create_user",),
    ("control-plane", "test_access_key"): ("create_access_key",),
    ("control-plane", "disable_access_key"): ("create_access_key",),
    ("control-plane", "verify_key_rejected"): ("create_access_key", "disable_access_key"),
    ("control-plane", "delete_access_key"): ("create_access_key",),
    ("control-plane", "list_tenants"): ("create_tenant",),
    ("control-plane", "get_tenant"): ("create_tenant",),
    ("control-plane", "delete_tenant"): ("create_tenant",),
    ("image-registry", "teardown_image"): ("upload_image",),
    ("image-registry", "launch_instance"): ("upload_image",),
    ("image-registry", "teardown_instance"): ("upload_image", "launch_instance"),
    **{
        ("network", name): ("create_network",)
        for name in ("list_vpcs", "get_vpc", "subnet_assignment", "vpc_ip_config", "teardown")
    },
    **{
        (suite, name): ("launch_instance", *(("stop_instance",) if name == "start_instance" else ()))
        for suite in ("vm", "bare_metal", "storage")
        for name in (
            *(
                "list_instances",
                "verify_tags",
                "serial_console",
                "console_rbac",
                "stop_instance",
                "start_instance",
            ),
            *(
                "query_sanitization",
                "host_status_log",
                "virtual_device_hardening",
                "reboot_instance",
                "power_cycle_instance",
                "describe_instance",
                "verify_image",
                "teardown",
            ),
        )
    },
    ("bare_metal", "verify_teardown"): ("launch_instance", "teardown"),
    ("bare_metal", "query_stable_ips"): ("launch_instance", "stop_instance", "start_instance"),
}
"""Steps that run before one, without lies."""
READS = frozenset(
    {
        *("check_api", "test_credentials", "test_access_key", "list_vpcs", "get_vpc", "subnet_assignment"),
        *("describe_instance", "list_instances", "verify_image", "verify_teardown", "host_status_log"),
        *("virtual_device_hardening", "insecure_protocols_test", "query_stable_ips"),
        *("vpc_ip_config", "list_tenants", "get_tenant", "preflight", "verify_key_rejected"),
    }
)
"""Steps that change nothing: a service that pretends to make changes can't deceive them."""
KEEPS = frozenset(
    {
        *("create_user", "create_access_key", "create_tenant", "upload_image", "create_network"),
        *(
            "launch_instance",
            "verify_tags",
            "console_rbac",
            "stop_instance",
            "start_instance",
            "reboot_instance",
        ),
        *("power_cycle_instance", "stable_ip_test", "query_sanitization", "teardown", "connectivity_test"),
        *("teardown_instance", "serial_console"),
        *("disable_access_key", "query_host_health", "query_health_aggregation", "query_topology"),
        *("verify_ingestion", "query_resource_discovery"),
    }
)
"""Steps that delete nothing."""
OBSERVES = frozenset(
    {
        "query_host_health",
        "query_health_aggregation",
        "query_topology",
        "verify_ingestion",
        "query_resource_discovery",
    }
)
"""Steps that only read the fleet."""
APART = frozenset(
    {
        *(
            "query_governance_metrics",
            "query_fleet_inventory",
            "topology_placement",
            "query_ib_tenant_isolation",
        ),
        *("return_node_maintenance", "request_host_replacement", "query_planned_notifications"),
        *("query_failure_notifications", "east_west_network_telemetry", "telemetry_delivery_latency"),
        *("sdn_latency_perf_logging", "host_nic_network_telemetry", "subnet_manager_logs"),
        *("sdn_hardware_fault_logging", "management_network_telemetry", "host_syslogs"),
        *("cert_rotation_test", "insecure_protocols_test", "home_directory_storage"),
        *("multiple_filesystems", "tenant_isolation_test"),
        *("topology_block_atomic_allocation", "capacity_reservation_grouping", "return_rack_maintenance"),
        *("subnet_config", "vpc_isolation", "byoip_test"),
        *("audit_logging_test", "sa_credential_test", "short_lived_credentials_test", "least_privilege_test"),
    }
)
"""Steps whose result doesn't depend on the deletion at their end: the run's sweep removes and reports what is left."""
CASES = [
    (suite, name, lie)
    for suite, name in sorted(STEPS)
    for lie in LIES
    if not (lie in ("deaf", "undying") and (name in READS or name in OBSERVES))
    if not (lie == "undying" and (name in KEEPS or name in APART))
    if not (
        lie == "empty" and name in ("serial_console", "console_rbac")
    )  # these steps list and find nothing
    if (suite, name) not in (("security", "teardown"), ("security", "preflight"))
]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud, "PATIENCE", 0.0)
    monkeypatch.setattr(identity, "pause", time.sleep)
    monkeypatch.setattr(identity, "_BRIEF", timedelta(seconds=0.1))


def prepared(suite: str, name: str) -> Run:
    world = World()
    run = Run(world, suite, FakeLogins(world), FakeInside(world))
    for earlier in BEFORE.get((suite, name), ()):
        assert is_pass(take(run, earlier)), earlier
    return run


def is_pass(answer: Json) -> bool:
    """Whether the suite could count it as passed: nothing in it says no."""
    state = "stopped" if "stop_initiated" in answer else "running"
    if answer.get("state", state) != state and "vpc_name" not in answer:
        return False
    return bool(answer["success"]) and not answer.get("skipped") and _says_yes(answer)


_NO: dict[str, Any] = {"status": "Active", "health": "unhealthy", "health_state": "unhealthy"}
_YES_OR_NO = frozenset(
    {
        *(
            "passed",
            "authenticated",
            "rejected",
            "found_target",
            "accepted",
            "node_removed_from_pool",
            "pinned",
        ),
        *(
            "isolation_enforced",
            "placement_supported",
            "events_queryable",
            "history_queryable",
            "health_present",
        ),
        *(
            "stop_initiated",
            "start_initiated",
            "reboot_initiated",
            "reboot_confirmed",
            "power_cycle_initiated",
        ),
        *("ssh_ready", "sanitized", "power_was_off", "console_available", "access_restricted"),
        *("notification_channel_observable", "allocated_as_unit", "homogeneous", "discovered"),
    }
)
_NOT_EMPTY = frozenset(
    {"vpcs", "subnets", "nodes", "hosts", "groups", "machines", "resources", "partitions", "events"}
)


def _says_yes(found: Any) -> bool:
    if isinstance(found, list):
        return all(_says_yes(one) for one in cast(list[Any], found))
    if not isinstance(found, dict):
        return True
    for name, value in cast(Json, found).items():
        if name in _YES_OR_NO and value is not True:
            return False
        if name in ("partial_allocation",) and value is not False:
            return False
        if name in ("alerts", "missing", "unstable_identifiers") and value:
            return False
        if (name in _NOT_EMPTY and value == []) or (name in _NO and value == _NO[name]):
            return False
        if name == "tags" and value != {"Name": "wacc-tagged", "CreatedBy": "acceptance"}:
            return False
        if not _says_yes(value):
            return False
    return True


@pytest.mark.parametrize(("suite", "name"), sorted({(suite, name) for suite, name, _ in CASES}))
def test_step_passes_if_services_are_truthful(suite: str, name: str) -> None:
    answer = take(prepared(suite, name), name)
    assert is_pass(answer), answer


@pytest.mark.parametrize(("suite", "name", "lie"), CASES)
def test_step_does_not_pass_if_services_lie(suite: str, name: str, lie: str) -> None:
    """Changes and deletions that weren't made, empty lists, no answers, answers of other shapes, errors."""
    run = prepared(suite, name)
    assert isinstance(run.cloud, World)
    run.cloud.lie = lie
    answer = take(run, name)
    assert not is_pass(answer), answer


def test_host_that_is_down_is_not_healthy() -> None:
    run = Run(World(), "bare_metal")
    assert isinstance(run.cloud, World)
    run.cloud.down = {"gpu02"}
    for name in ("query_host_health", "verify_ingestion"):
        assert not is_pass(take(run, name)), name
    groups = {one["group_id"]: one for one in take(run, "query_health_aggregation")["groups"]}
    assert (groups["leaf01"]["status"], groups["leaf01"]["unhealthy_hosts"]) == ("Degraded", ["gpu02"])


@pytest.mark.parametrize("state", ["unknown", "old"])
def test_host_without_results_of_checks_is_not_healthy(state: str) -> None:
    """Checks of a host that never reported aren't among what was read."""
    run = Run(World(), "bare_metal")
    assert isinstance(run.cloud, World)
    assert take(run, "query_host_health")["hosts"][0]["probe_ids"] == ["nova-host", "weft-state"]
    run.cloud.checks = state
    for name in ("query_host_health", "verify_ingestion"):
        assert not is_pass(take(run, name)), name


@pytest.mark.parametrize("device", ["redirdev", "graphics type='spice'", "sound", "controller type='usb'"])
def test_step_fails_if_the_domain_has_a_needless_device(device: str) -> None:
    run = prepared("vm", "virtual_device_hardening")
    assert isinstance(run.cloud, World)
    run.cloud.devices = [device]
    assert not is_pass(take(run, "virtual_device_hardening"))


@pytest.mark.parametrize("change", ["address", "boot"])
def test_changed_or_lost_address_is_not_stable(change: str) -> None:
    run = prepared("bare_metal", "query_stable_ips")
    assert isinstance(run.cloud, World)
    if change == "boot":
        run.kept["boot"] = next(iter(run.cloud.kept("servers").values()))["boot"]
    else:
        run.kept["server"]["address"] = "10.64.0.99"
    assert not is_pass(take(run, "query_stable_ips"))


def test_step_fails_if_the_certificate_lives_too_long() -> None:
    world = World()
    for days, passes in ((60, True), (61, False)):
        run = Run(world, "security", FakeLogins(world), FakeInside(world, days=days))
        assert is_pass(take(run, "cert_rotation_test")) is passes


@pytest.mark.parametrize("oldest", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, None])
def test_step_fails_if_the_api_takes_an_old_protocol(oldest: ssl.TLSVersion | None) -> None:
    world = World()
    run = Run(world, "security", FakeLogins(world), FakeInside(world, oldest=oldest))
    assert not is_pass(take(run, "insecure_protocols_test"))


def test_step_fails_if_a_change_of_the_pod_does_not_end() -> None:
    """The pod is READY meanwhile and lists the new node before Nova has a server there."""
    run = Run(World(), "bare_metal")
    assert isinstance(run.cloud, World)
    assert is_pass(take(run, "topology_placement"))
    (pod,) = run.cloud.kept("pods").values()
    pod["changing_since"] = "2027-01-01T00:00:00+00:00"
    assert not is_pass(take(run, "topology_placement"))


def test_unsupported_step_is_skipped_with_a_reason() -> None:
    answer = take(Run(World(), "vm"), "deploy_nim")
    assert (answer["skipped"], bool(answer["skip_reason"])) == (True, True)

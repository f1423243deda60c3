"""Checks of RDMA ports: state, rate, GIDs, P_Keys."""

from __future__ import annotations

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.host import Output
from weftcheck.rdma import parse_ibstat
from weftcheck.result import Status

CODES = ("PORT_STATE", "PORT_RATE", "PORT_GID", "PORT_PKEY")
POD = """"ports": ["mlx5_0/1", "mlx5_1/1"], "link_layer": "InfiniBand", "rate": 400, "width": "4X",
"pkeys": [{"key": "0x8101", "index": 1}]"""
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.40.1000
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 48
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tNumber of ports: 2
\tPort 1:
\t\tState: Initializing
\t\tPhysical state: LinkUp
\t\tRate: 100
\t\tLink layer: InfiniBand
\tPort 2:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
\t\tLink layer: Ethernet
"""
"""The form of infiniband-diags 28 to 52."""


def test_healthy_ports_are_ok(rig: Rig) -> None:
    """Without expected values the index of the only P_Key is reported too."""
    assert rig.look(POD, *CODES).statuses() == {code: {"ok"} for code in CODES}
    alone = rig.look("", *CODES)
    assert alone.statuses() == {code: {"skipped" if code == "PORT_RATE" else "ok"} for code in CODES}
    result = alone.one("PORT_PKEY", "mlx5_1/1")
    assert (result.found, result.source.endswith("/pkeys")) == ("1", True)
    assert result.reason.endswith("programs that use index 0 by default need it (NCCL_IB_PKEY=1)")


@pytest.mark.parametrize(
    ("name", "text", "code", "reason"),
    [
        ("state", "2: INIT", "PORT_STATE", "init, physically linkup: no subnet manager has configured it"),
        ("rate", "200 Gb/sec (4X HDR)", "PORT_RATE", "200 Gb/s, 4X, expected 400 Gb/s, 4X, InfiniBand"),
        ("rate", "400 Gb/sec (2X XDR)", "PORT_RATE", "400 Gb/s, 2X, expected 400 Gb/s, 4X, InfiniBand"),
        ("link_layer", "Ethernet", "PORT_RATE", "Ethernet instead of InfiniBand"),
        (
            "gids/0",
            "fe80:0000:0000:0000:0000:0000:0000:0000",
            "PORT_GID",
            "its GID at index 0 has no port GUID",
        ),
        ("pkeys/1", "0x0000", "PORT_PKEY", "P_Key 0x0101 isn't in its table"),
        ("pkeys/1", "0x0101", "PORT_PKEY", "P_Key 0x0101 is there as limited member only"),
        ("pkeys/0", "0x8101", "PORT_PKEY", "P_Key 0x0101 is at index 0, expected 1"),
    ],
)
def test_fault_of_a_port_fails_its_code_for_that_port(
    rig: Rig, name: str, text: str, code: str, reason: str
) -> None:
    (rig.port(0) / name).write_text(f"{text}\n")
    found = [r for r in rig.look(POD, *CODES) if r.status is Status.FAILED and r.code == code]
    assert reason in [r.reason for r in found] and found[0].subject == "mlx5_0/1"


def test_pkey_at_another_index_on_one_port_fails(rig: Rig) -> None:
    """NCCL uses one index for all adapters, so this fails without expected values too."""
    (rig.port(1) / "pkeys/1").write_text("0x0000\n")
    (rig.port(1) / "pkeys/2").write_text("0x8101\n")
    result = rig.look("", *CODES).one("PORT_PKEY", "host")
    assert result.status is Status.FAILED
    assert result.reason == "P_Key 0x0101 isn't at the same index everywhere: mlx5_0/1: 1, mlx5_1/1: 2"


@pytest.mark.parametrize(("text", "failed"), [("NCCL_IB_PKEY=1\n", False), ("NCCL_IB_PKEY = 0\n", True)])
def test_nccl_configuration_with_another_index_fails(rig: Rig, text: str, failed: bool) -> None:
    """NCCL would hang."""
    rig.write("etc/nccl.conf", f"NCCL_DEBUG=INFO\n{text}")
    assert rig.look("", *CODES).wrong() == ({"PORT_PKEY": [Status.FAILED]} if failed else {})


@pytest.mark.parametrize("state", ["1: DOWN", "3: ARMED", "2: INIT"])
def test_port_that_is_not_active_fails(rig: Rig, state: str) -> None:
    """Unless the expected ports are others."""
    (rig.port(1) / "state").write_text(state)
    assert rig.look("", "PORT_STATE").wrong() == {"PORT_STATE": [Status.FAILED]}
    assert rig.look('"ports": ["mlx5_0/1"]', "PORT_STATE").wrong() == {}
    assert Status.UNKNOWN in rig.look('"rate": 400', "PORT_RATE").wrong()["PORT_RATE"]


@pytest.mark.parametrize("name", ["state", "rate", "link_layer", "pkeys/0", "gids/0"])
def test_text_that_is_not_understood_is_unknown(rig: Rig, name: str) -> None:
    """An empty file, which the kernel gives while a driver starts, and other text."""
    for text in ("", "seltsam"):
        (rig.port(0) / name).write_text(text)
        found = rig.look(POD, *CODES)
        statuses = {r.status for r in found if r.subject == "mlx5_0/1"}
        assert Status.UNKNOWN in statuses and Status.FAILED not in statuses


def test_expected_ports_that_are_missing_fail(rig: Rig) -> None:
    """With one port missing, and with all."""
    missing = POD.replace("mlx5_1", "mlx5_7")
    assert {r.code for r in rig.look(missing, *CODES) if r.status is Status.FAILED} == {
        "PORT_STATE",
        "PORT_RATE",
    }
    (rig.root / "sys/class/infiniband").rename(rig.root / "unloaded")
    found = rig.look('"rate": 400, "gid_index": 3, "pkeys": ["0x8101"]', *CODES).statuses()
    assert found == {code: {"skipped" if code == "PORT_STATE" else "failed"} for code in CODES}
    assert rig.look("", *CODES).statuses() == {code: {"skipped"} for code in CODES}


def test_roce_gid_is_found_by_type_and_address(rig: Rig) -> None:
    """RoCE v1 with the same address comes first; an entry without a type is empty."""
    for number in (0, 1):
        for name, text in {
            "link_layer": "Ethernet",
            "gids/0": "fe80:0000:0000:0000:a088:c2ff:fe12:3450",
            "gids/1": "fe80:0000:0000:0000:a088:c2ff:fe12:3450",
            "gids/2": "0000:0000:0000:0000:0000:ffff:0a00:0005",
            "gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0005",
            "gid_attrs/types/0": "IB/RoCE v1",
            "gid_attrs/types/1": "RoCE v2",
            "gid_attrs/types/2": "IB/RoCE v1",
            "gid_attrs/types/3": "RoCE v2",
        }.items():
            file = rig.port(number) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    assert {r.found for r in rig.look('"gid_index": 3', "PORT_GID")} == {"3"}
    assert set(rig.look('"gid_index": 5', "PORT_GID").wrong()) == {"PORT_GID"}
    for number in (0, 1):
        (rig.port(number) / "gids/3").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
    assert rig.look("", "PORT_GID").wrong() == {"PORT_GID": [Status.FAILED] * 2}
    assert rig.look('"pkeys": ["0x8101"]', "PORT_PKEY").wrong() == {"PORT_PKEY": [Status.FAILED]}


def test_ibstat_is_read_where_sysfs_has_no_ports(rig: Rig) -> None:
    """ibstat prints no width, GIDs or P_Keys: those are unknown, not ok."""
    for number in (0, 1):
        rig.port(number).parent.rename(rig.root / f"unseen{number}")
    rig.commands["ibstat"] = Output(IBSTAT, 0)
    found = rig.look('"rate": 400, "pkeys": ["0x8101"]', *CODES)
    assert found.one("PORT_STATE", "mlx5_0/1").status is Status.OK
    assert found.one("PORT_RATE", "mlx5_0/1").status is Status.OK
    assert found.one("PORT_STATE", "mlx5_1/1").reason.startswith("init, physically linkup")
    assert found.one("PORT_STATE", "mlx5_1/2").reason == "down, physically polling"
    assert {r.status for r in found if r.code in ("PORT_GID", "PORT_PKEY")} == {Status.UNKNOWN}
    assert rig.look('"width": "4X"', "PORT_RATE").one("PORT_RATE", "mlx5_0/1").status is Status.UNKNOWN
    rig.commands["ibstat"] = Output("ibpanic: [21] main: stat of IB device failed\n", 0)
    assert rig.look("", *CODES).statuses() == {code: {"unknown"} for code in CODES}


def test_ibstat_without_tabs_is_read() -> None:
    """Copied output loses its indentation, and old versions print no type."""
    ports = parse_ibstat(IBSTAT.replace("\t", "  "))
    assert [(p.name, p.state, p.physical, p.rate, p.layer) for p in ports] == [
        ("mlx5_0/1", "active", "linkup", 400.0, "InfiniBand"),
        ("mlx5_1/1", "init", "linkup", 100.0, "InfiniBand"),
        ("mlx5_1/2", "down", "polling", 10.0, "Ethernet"),
    ]

"""Adapters' settings for RoCE, as hosts report them with iproute2's `dcb` and `ip`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from weft.app.sitecompare import compare_adapters
from weft.model.errors import InputErrors
from weft.model.site import Site
from weftlab.layout import Layout
from weftlab.site import make_site, settings

DSCP = [[n, n // 8, " "] for n in range(64)]


def site(**qos: Any) -> Site:
    place = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
    made = make_site(settings(nodes=2, leaves=2, spines=1, ipus=0, fabric="ethernet"), place)
    document = made.model_dump(mode="json")
    document["fabrics"]["roce"]["qos"] = qos
    return Site.model_validate(document)


def line(adapter: str, **other: Any) -> dict[str, Any]:
    """The line with an adapter's output of `dcb -j` and `ip -j`."""
    pfc = {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": [n == 3 for n in range(8)]}
    row = {"adapter": adapter, "ecn": "3 ", "link": [{"ifname": "eth0", "mtu": 9000}], "pfc": pfc}
    return {**row, "app": {"dscp_prio": DSCP}, **other}


def differences(tmp_path: Path, *rows: object, name: str = "roce01.json", **qos: Any) -> tuple[str, ...]:
    file = tmp_path / name
    file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows) + "\n")
    return compare_adapters(site(**qos), [str(file)])[0]


def test_matching_adapters_have_no_differences(tmp_path: Path) -> None:
    assert differences(tmp_path, line("mlx5_0"), line("mlx5_1")) == ()
    assert differences(tmp_path, line("mlx5_0", ecn=None), line("mlx5_1", ecn=None)) == (), (
        "a setting that isn't reported isn't compared"
    )
    assert differences(tmp_path, line("mlx5_0"), line("mlx5_1"), line("eth7", link=[{"mtu": 1500}])) == ()


def test_each_wrong_setting_is_named(tmp_path: Path) -> None:
    off = {"prio_pfc": ["off"] * 8}
    wrong = line("mlx5_0", pfc=off, ecn="", app={}, link=[{"mtu": 9216}])
    assert differences(tmp_path, wrong, line("mlx5_1")) == (
        "roce01/mlx5_0: PFC is none, expected on priority 3",
        "roce01/mlx5_0: ECN is none, expected on priority 3",
        "roce01/mlx5_0: trust is pcp, expected dscp",
        "roce01/mlx5_0: DSCP 26 is priority 0, expected priority 3",
        "roce01/mlx5_0: MTU is 9216, expected 9000",
    )


def test_missing_adapters_and_unknown_hosts_are_reported(tmp_path: Path) -> None:
    assert differences(tmp_path, line("mlx5_0")) == ("roce01/mlx5_1 isn't on its host",)
    assert differences(tmp_path, line("mlx5_0"), name="elsewhere.json") == (
        "elsewhere isn't a node of the site",
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ["{"],
        ["[]"],
        [{"adapter": "mlx5_0"}],
        [line("mlx5_0"), line("mlx5_0")],
        [line("mlx5_0", pfc={"prio_pfc": [True] * 7})],
        [line("mlx5_0", pfc={"prio_pfc": ["maybe"] * 8})],
        [line("mlx5_0", link=[])],
        [line("mlx5_0", app={"dscp_prio": [[26]]})],
        [line("mlx5_0", ecn="all")],
        [line("mlx5_0", ecn="0-99999999999")],
        [json.dumps(line("mlx5_0")).replace("9000", "1e999")],
        [json.dumps(line("mlx5_0")).replace("9000", "NaN")],
        [line("mlx5_0", link=[{"mtu": -1}])],
        [line("mlx5_0", link=[{"mtu": "9000"}])],
        [line("mlx5_0", app={"dscp_prio": [[64, 3]]})],
        [line("mlx5_0", app={"dscp_prio": [[26, 1e99]]})],
        [line("mlx5_0", pfc={"prio_pfc": [[]] * 8})],
        ["[" * 100_000],
    ],
)
def test_malformed_input_is_refused_with_its_line(tmp_path: Path, rows: list[object]) -> None:
    with pytest.raises(InputErrors, match=r"--adapters.*one line of JSON per adapter"):
        differences(tmp_path, *rows)


def test_documented_command_is_valid_shell(tmp_path: Path) -> None:
    """With an adapter in a tree of files, and stand-ins for iproute2's programs."""
    page = (Path(__file__).parents[3] / "docs" / "fabric-ethernet.md").read_text()
    script = page.split("created there with iproute2")[1].split("```sh\n")[1].split("```")[0]
    tree, programs = tmp_path / "sys", tmp_path / "bin"
    programs.mkdir()
    for adapter, device in (("mlx5_0", "eth0"), ("mlx5_1", "eth1")):
        (tree / "class/infiniband" / adapter / "device/net" / device).mkdir(parents=True)
        for side in ("roce_np", "roce_rp"):
            for priority in range(8):
                file = tree / "class/net" / device / "ecn" / side / "enable" / str(priority)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("1\n" if priority == 3 else "0\n")
    right = line("")
    for name, answer in (
        ("ip", f"echo '{json.dumps(right['link'])}'"),
        (
            "dcb",
            f"case $2 in pfc) echo '{json.dumps(right['pfc'])}';; *) echo '{json.dumps(right['app'])}';; esac",
        ),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{answer}\n")
        (programs / name).chmod(0o755)
    run = script.replace("/sys/", f"{tree}/").replace("gpu01.json", "roce01.json")
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    subprocess.run(["sh", "-eu", "-c", run], cwd=tmp_path, env=environment, check=True)
    file = [str(tmp_path / "roce01.json")]
    differences, notes = compare_adapters(site(), file)
    assert differences == () and notes == ("adapters of 1 nodes were not compared: roce02",)
    assert compare_adapters(site(priority=4, dscp=[32]), file)[0]


def test_uncompared_adapters_are_reported(tmp_path: Path) -> None:
    """No difference doesn't mean that an adapter without reported settings is right."""
    file = tmp_path / "roce01.json"
    file.write_text("\n".join(json.dumps(line(f"mlx5_{n}", ecn=None)) for n in (0, 1)))
    differences, notes = compare_adapters(site(), [str(file)])
    assert differences == () and notes == (
        "ECN was not compared on 2 adapters, whose hosts don't report it: roce01/mlx5_0, roce01/mlx5_1",
        "adapters of 1 nodes were not compared: roce02",
    )
    assert compare_adapters(site(), []) == ((), ())

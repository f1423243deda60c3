"""`weft site enroll`: what is sent to Ironic, when it goes on, and what is reported instead."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from tests.drivers.openstack.tinyironic import TinyIronic
from weft.app.enroll import Enroller, read_input
from weft.cli.main import main
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.enrollment import Enrollment
from weft.model.enrollment import Enrolled
from weft.model.errors import InputError
from weftlab.layout import Layout
from weftlab.metal import enroll
from weftlab.metal.machines import BIOS_SETTINGS, FIRMWARE, machines
from weftlab.site import make_site, settings, write_site


@dataclass
class Rig:
    ironic: TinyIronic
    enrollment: Enrollment
    layout: Layout
    ids: list[str]
    lldp: list[str] = field(default_factory=list[str])

    def enroll(self, again: bool = False, dry: bool = False, patience: float = 60.0) -> Enrolled:
        """Enroll the list; time passes only in the pauses."""
        self.now = 0.0

        def pause(seconds: float) -> None:
            self.now += seconds

        given = read_input(self.layout.site_path, self.list, self.lldp)
        enroller = Enroller(given, self.enrollment, again, dry, lambda line: None)
        return enroller.run(patience, pause, lambda: self.now)

    def only(self, found: Enrolled) -> tuple[str, str]:
        """State and differences of the first machine, if the other is fine."""
        first, second = found.machines
        assert second.good, second
        return first.state, "; ".join(first.differences)

    @property
    def list(self) -> Path:
        return enroll.list_path(self.layout)

    def edit(self, **fields: Any) -> None:
        document = yaml.safe_load(self.list.read_text())
        document["machines"]["bm01"] |= fields
        self.list.write_text(yaml.safe_dump(document))

    @property
    def found(self) -> dict[str, Any]:
        """What the first machine's inspection will find."""
        return self.ironic.findings[self.ids[0]]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    chosen = settings(nodes=4, computes=1, ipus=0, metal=2)
    layout = Layout(tmp_path, tmp_path, chosen.ports)
    site = make_site(chosen, layout)
    write_site(site, layout.site)
    (layout.data / "inspections").mkdir(parents=True)
    enroll.write_secret(layout)
    enroll.write_list(layout, site)
    with tiny_cloud(TinyIronic) as (ironic, text):
        assert isinstance(ironic, TinyIronic)
        ironic.nodes, ironic.history = {}, {}
        ironic.hardware = {
            "firmware": [{"component": c, "current_version": v[0]} for c, v in FIRMWARE.items()],
            "bios": [{"name": name, "value": value} for name, value in BIOS_SETTINGS.items()],
        }
        for index, node in enumerate(machines(site)):
            seen = enroll.inspection(node, f"02:00:00:00:b0:{index + 1:02x}")
            ironic.findings[str(node.machine)] = copy.deepcopy(seen)
        (tmp_path / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [tmp_path / "clouds.yaml"])
        yield Rig(ironic, Enrollment(sessions), layout, [str(n.machine) for n in machines(site)])
        sessions.close()


def changes(rig: Rig) -> list[str]:
    return [a for a in rig.ironic.asked if not a.startswith("GET") and "/baremetal/" in a]


def test_machines_are_enrolled_inspected_and_made_available_idempotently(rig: Rig) -> None:
    assert not rig.enroll(dry=True).good and not changes(rig)
    found = rig.enroll()
    assert found.good and [m.state for m in found.machines] == ["available", "available"]
    assert [p["pxe_enabled"] for p in rig.ironic.ports] == [True, False, True, False]
    rig.ironic.asked.clear()
    again = rig.enroll(again=True)
    assert again.good and not changes(rig) and not any(m.made for m in again.machines)


def test_pods_machine_is_reported_as_correct(rig: Rig) -> None:
    """And not changed."""
    assert rig.enroll().good
    rig.ironic.nodes[rig.ids[0]] |= {"provision_state": "active", "extra": {"weft": "a pod's mark"}}
    rig.ironic.asked.clear()
    assert rig.enroll(again=True).good and not changes(rig)


def test_removed_machine_with_a_pods_mark_is_not_enrolled(rig: Rig) -> None:
    """Its cleaning failed and an operator examines it: it is neither cleaned nor booted nor assigned."""
    assert rig.enroll().good
    rig.ironic.nodes[rig.ids[0]] |= {"provision_state": "manageable", "extra": {"weft": "a pod's mark"}}
    rig.ironic.asked.clear()
    state, text = rig.only(rig.enroll(again=True))
    assert state == "manageable" and "it carries a pod's mark" in text and not changes(rig)


def test_operator_is_reminded_that_weft_must_watch_the_cleaning(rig: Rig) -> None:
    text: list[str] = []
    given = read_input(rig.layout.site_path, rig.list)
    Enroller(given, rig.enrollment, False, False, text.append).run(60.0, lambda _: None)
    assert [line for line in text if line == "bm01: provide"]
    assert any("weft must serve meanwhile" in line for line in text if line.startswith("bm01 "))


def test_exchanged_board_has_a_missing_and_an_unlisted_port(rig: Rig) -> None:
    rig.found["inventory"]["interfaces"][0].update(mac_address="02:00:00:00:b0:99")
    state, text = rig.only(rig.enroll())
    assert state == "manageable" and "port 02:00:00:00:b0:01 is missing" in text
    assert "interface eno1 (02:00:00:00:b0:99) at 0000:01:00.0 is in neither the list nor the site" in text


def test_accelerators_without_listed_pci_ids_are_a_difference(rig: Rig) -> None:
    """Otherwise any card would be accepted as this type."""
    document = yaml.safe_load(rig.list.read_text())
    rig.list.write_text(yaml.safe_dump(document | {"accelerators": {}}))
    for machine in rig.enroll().machines:
        assert machine.state == "manageable"
        assert "is 10de:2335: the list has no PCI ids of h200" in machine.differences[0]


@pytest.mark.parametrize("inspected", [True, False])
def test_machine_with_an_instance_is_neither_booted_nor_erased(rig: Rig, inspected: bool) -> None:
    """It is being adopted, and what it runs must stay."""
    assert rig.enroll().good
    rig.ironic.nodes[rig.ids[0]] |= {"provision_state": "manageable", "instance_uuid": "srv-1"}
    if not inspected:
        del rig.ironic.inspections[rig.ids[0]]
    rig.ironic.asked.clear()
    state, text = rig.only(rig.enroll(again=True))
    assert state == "manageable" and "it has instance srv-1" in text and not changes(rig)


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_machine_with_foreign_owner_is_not_made_available(rig: Rig, field: str) -> None:
    """Ironic makes a project the owner of what its administrators enroll; the site lists operators' own projects."""
    rig.enroll()
    rig.ironic.nodes[rig.ids[0]] |= {"provision_state": "manageable", field: "f00d"}
    state, text = rig.only(rig.enroll())
    assert state == "manageable" and f"its {field} in Ironic is project f00d" in text
    document = yaml.safe_load(rig.layout.site_path.read_text())
    for cloud in document["clouds"].values():
        cloud["machine_owners"] = ["f00d"]
    rig.layout.site_path.write_text(yaml.safe_dump(document))
    assert rig.enroll().good


@pytest.mark.parametrize("patience", ["nan", "inf", "-1", "soon"])
def test_unbounded_patience_is_refused(rig: Rig, patience: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["site", "enroll", str(rig.layout.site_path), str(rig.list), "--timeout", patience]
    assert main(words) == 2
    assert "is not a positive number of seconds" in capsys.readouterr().err


def test_lost_answer_creates_no_duplicate(rig: Rig) -> None:
    """The node was created, and the answer said that the service is busy."""
    rig.enroll()
    made = copy.deepcopy((rig.ironic.nodes, rig.ironic.ports))
    node = rig.ironic.nodes.pop(rig.ids[0])
    rig.ironic.asides = [("POST /baremetal/v1/nodes", lambda: rig.ironic.nodes.update({rig.ids[0]: node}))]
    assert rig.enroll().good
    assert (rig.ironic.nodes, rig.ironic.ports) == made


def pci(rig: Rig) -> list[dict[str, Any]]:
    return rig.found["plugin_data"]["pci_devices"]


def fabric_port(rig: Rig) -> dict[str, Any]:
    return rig.found["inventory"]["interfaces"][1]


def lldp(rig: Rig) -> dict[str, Any]:
    return rig.found["plugin_data"]["parsed_lldp"]


OTHER_ID = "ff:00:00:00:00:00:02:00:00:02:c9:00:00:02:c9:03:00:f0:00:01"
WRONG = {
    "a missing GPU": (lambda r: pci(r).pop(0), "accelerator h200 at 0000:10:00.0 is missing"),
    "another GPU": (
        lambda r: pci(r)[0].update(product_id="20b0"),
        "the device at 0000:10:00.0 is 10de:20b0, h200 is 10de:2335",
    ),
    "one GPU more": (
        lambda r: pci(r).append({**pci(r)[0], "bus": "0000:99:00.0"}),
        "an accelerator h200 at 0000:99:00.0 isn't in the site",
    ),
    "no look at PCI": (lambda r: r.found["plugin_data"].pop("pci_devices"), "PCI devices weren't inspected"),
    "another GUID": (
        lambda r: fabric_port(r).update(client_id=OTHER_ID),
        "adapter mlx5_0 at 0000:40:00.0 has port GUID 0x0002c90300f00001, the site has 0x0002c90300500001",
    ),
    "a missing adapter": (
        lambda r: r.found["inventory"]["interfaces"].pop(1),
        "adapter mlx5_0 (port GUID 0x0002c90300500001) is missing",
    ),
    "an adapter in another slot": (
        lambda r: fabric_port(r).update(pci_address="0000:41:00.0"),
        "adapter mlx5_0 is at 0000:41:00.0, the site has it at 0000:40:00.0",
    ),
    "a wrong cable": (
        lambda r: lldp(r)["eno1"].update(switch_port_id="bm02"),
        "port 02:00:00:00:b0:01 is cabled to mgmt/bm02, it should be mgmt/bm01",
    ),
    "no neighbour": (lambda r: lldp(r).clear(), "no LLDP neighbour was seen"),
    "less memory": (
        lambda r: r.found["inventory"]["memory"].update(physical_mb=512 * 1024),
        "it has 512 GiB of memory, it should have 1024",
    ),
    "a disk too many": (
        lambda r: r.found["inventory"]["disks"].append({}),
        "it has 2 disks, it should have 1",
    ),
    "more memory": (
        lambda r: r.found["inventory"]["memory"].update(physical_mb=2048 * 1024),
        "it has 2048 GiB of memory, it should have 1024",
    ),
    "an unknown uplink": (
        lambda r: r.found["inventory"]["interfaces"].append(
            {"name": "usb0", "mac_address": "02:00:00:00:BB:01"}
        ),
        "interface usb0 (02:00:00:00:bb:01) is in neither the list nor the site",
    ),
    "another machine's BMC": (
        lambda r: r.found["inventory"].update(bmc_address="10.9.9.9"),
        "its BMC has address 10.9.9.9, the list has 127.0.0.1",
    ),
    "nothing to read": (
        lambda r: r.found["inventory"].update(interfaces="none"),
        "its inspection can't be read: interfaces",
    ),
}


@pytest.mark.parametrize(("change", "text"), WRONG.values(), ids=WRONG.keys())
def test_machine_unlike_the_site_is_reported_and_not_made_available(rig: Rig, change: Any, text: str) -> None:
    right = copy.deepcopy(rig.found)
    change(rig)
    state, differences = rig.only(rig.enroll())
    assert (state == "manageable" and differences.startswith(text)) or text in differences
    assert ";" not in differences, "one thing is wrong"
    rig.ironic.findings[rig.ids[0]] = right
    assert rig.enroll(again=True).good


def test_differences_in_ironic_are_reported_and_not_changed(rig: Rig) -> None:
    rig.enroll()
    rig.edit(bmc="http://10.9.9.9", resource_class="other")
    rig.ironic.ports[1]["extra"] = {"client-id": "ff:00"}
    rig.ironic.ports.append({"node_uuid": rig.ids[0], "address": "02:00:00:00:00:77", "extra": {}})
    rig.ironic.asked.clear()
    _, text = rig.only(rig.enroll())
    assert (
        "driver_info.redfish_address" in text and "resource_class baremetal-h200, the list has other" in text
    )
    assert "extra.client-id ff:00" in text and "02:00:00:00:00:77 is in Ironic and neither" in text
    assert not changes(rig)


def test_silent_bmc_is_reported_after_one_attempt(rig: Rig) -> None:
    rig.ironic.lies = [(f"PUT /baremetal/v1/nodes/{rig.ids[0]}/states/provision", Reply(202))]
    found = rig.enroll(patience=0)
    rig.ironic.nodes[rig.ids[0]]["last_error"] = "Failed to get power state: connection refused"
    state, text = rig.only(rig.enroll())
    assert state == "enroll" and "connection refused" in text and not found.good


def test_locked_machine_is_waited_for(rig: Rig) -> None:
    rig.enroll(patience=0)
    rig.ironic.nodes[rig.ids[0]]["reservation"] = "ironic1"
    assert rig.only(rig.enroll(patience=10.0))[0] == "manageable"
    rig.ironic.nodes[rig.ids[0]]["reservation"] = None
    assert rig.enroll().good


def test_enrollment_uses_a_system_scoped_token(rig: Rig) -> None:
    """A project's role `admin` may not enroll machines."""
    file = rig.layout.site.parent / "clouds.yaml"
    text = file.read_text().replace("project_name: service, ", "system_scope: all, ")
    file.write_text(
        text.replace(
            "user_domain_id: default,\n            project_domain_id: default", "user_domain_id: default"
        )
    )
    sessions = Sessions("weft", [file])
    rig.enrollment = Enrollment(sessions)
    rig.ironic.scopes.clear()
    assert rig.enroll().good and set(rig.ironic.scopes) == {"system"}
    sessions.close()


LIES = {
    "forbidden": Reply(403, {"error_message": "Access was denied"}),
    "busy": Reply(503, {"error_message": "busy"}),
    "a page of HTML": Reply(200, "<html>", "text/html", own=False),
    "a proxy's 404": Reply(404, "<html>", "text/html", own=False),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("what", ["", "/ports", "/inventory"])
def test_malformed_answer_makes_nothing_available(rig: Rig, lie: Reply, what: str) -> None:
    rig.ironic.lies = [(f"GET /baremetal/v1/nodes/{rig.ids[0]}{what}", lie)]
    state, text = rig.only(rig.enroll(patience=20.0))
    assert state == "" and text
    assert rig.ironic.nodes.get(rig.ids[0], {}).get("provision_state") in (None, "enroll")


@pytest.mark.parametrize("line", ["POST /baremetal/v1/nodes", "GET /baremetal/v1/nodes/.*"])
def test_missing_rights_are_reported_at_once(rig: Rig, line: str) -> None:
    """Repeating the request wouldn't grant a role."""
    rig.ironic.lies = [(line, LIES["forbidden"])]
    text = rig.enroll(patience=3600.0)
    assert [m.state for m in text.machines] == ["", ""]
    assert all("HTTP 403 Access was denied" in " ".join(m.differences) for m in text.machines)
    assert len([a for a in rig.ironic.asked if a.startswith(line[:4]) and "/baremetal/" in a]) == 2
    assert not rig.ironic.nodes


def test_readable_secret_and_every_other_mistake_is_named(rig: Rig) -> None:
    secret = rig.list.parent / "secret"
    secret.chmod(0o644)
    with pytest.raises(InputError, match=r"machines\.bm01\.account: .*chmod 600"):
        rig.enroll()
    secret.chmod(0o600)
    for fields, complaint in (
        ({"account": "nowhere"}, r"machines\.bm01\.account: .*nowhere"),
        ({"bmc": "ftp://x"}, r"machines\.bm01\.bmc: 'ftp://x'"),
        ({"ports": []}, r"machines\.bm01\.ports"),
        ({"wrong": 1}, r"machines\.bm01\.wrong"),
    ):
        text = rig.list.read_text()
        rig.edit(**fields)
        with pytest.raises(InputError, match=complaint):
            rig.enroll()
        rig.list.write_text(text)
    rig.list.write_text(rig.list.read_text().replace("bm01:", "gpu01:"))
    with pytest.raises(InputError, match=r"machines\.gpu01: .*a node in the site that has a `machine`"):
        rig.enroll()
    assert not changes(rig)


def test_command_reports_problems_and_never_a_secret(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(rig.layout.site.parent / "clouds.yaml"))
    monkeypatch.setenv("OS_CLOUD", "weft")
    monkeypatch.setattr("weft.app.enroll.POLL", 0.0)
    command = ["site", "enroll", str(rig.layout.site_path), str(rig.list)]
    pci(rig).pop(0)
    assert main(command) == 1
    text = capsys.readouterr().out
    assert "bm01: accelerator h200 at 0000:10:00.0 is missing" in text and "bm02: provide" in text
    assert main([*command, "--check", "--json"]) == 1
    assert "0000:10:00.0 is missing" in (more := capsys.readouterr().out)
    password = (rig.list.parent / "secret").read_text().split()[1]
    assert password not in text + more


def test_boot_settings_and_traits_are_enrolled_and_compared(rig: Rig) -> None:
    disk = {"wwn": "0x5000c500a0b1c2d3", "rotational": "false"}
    rig.edit(root_device=disk, boot_mode="uefi", traits=["CUSTOM_NVME", "CUSTOM_GPU8"])
    assert rig.enroll().good
    node = rig.ironic.nodes[rig.ids[0]]
    assert node["properties"] == {"root_device": disk, "capabilities": "boot_mode:uefi"}
    assert node["traits"] == ["CUSTOM_GPU8", "CUSTOM_NVME"]
    node["properties"] = {
        **node["properties"],
        "capabilities": "cpu_vt:true,boot_mode:uefi",
        "cpu_arch": "x86_64",
    }
    rig.ironic.asked.clear()
    assert rig.enroll().good and not changes(rig), "traits that an inspection adds are no difference"
    node["properties"] = {"root_device": {"wwn": "0x1"}, "capabilities": "boot_mode:bios"}
    node["traits"] = ["CUSTOM_NVME"]
    _, text = rig.only(rig.enroll())
    for part in ("properties.root_device", "properties.capabilities boot_mode:bios", "traits"):
        assert part in text, text
    assert not changes(rig)


def test_traits_not_set_by_one_run_are_set_by_the_next(rig: Rig) -> None:
    rig.edit(traits=["CUSTOM_NVME"])
    rig.ironic.lies = [("PUT /baremetal/v1/nodes/.*/traits", Reply(409, {"error_message": "locked"}))]
    rig.enroll(patience=0.0)
    assert "traits" not in rig.ironic.nodes[rig.ids[0]]
    rig.ironic.lies = []
    assert rig.enroll().good and rig.ironic.nodes[rig.ids[0]]["traits"] == ["CUSTOM_NVME"]


def test_traits_of_a_machine_in_use_are_compared_and_not_set(rig: Rig) -> None:
    assert rig.enroll().good
    rig.ironic.nodes[rig.ids[0]] |= {"provision_state": "active", "extra": {"weft": "a pod's mark"}}
    rig.edit(traits=["CUSTOM_NVME"])
    rig.ironic.asked.clear()
    _, text = rig.only(rig.enroll())
    assert "traits" in text and not changes(rig)


def test_bmc_address_in_a_pod_network_is_refused_before_any_request(rig: Rig) -> None:
    rig.edit(bmc="https://10.66.0.9")  # pods' management networks in the lab are in 10.64.0.0/12
    with pytest.raises(InputError, match=r"machines\.bm01\.bmc.*which is for pods"):
        rig.enroll()
    assert not rig.ironic.asked


def test_disallowed_firmware_is_a_difference(rig: Rig) -> None:
    assert rig.enroll().good
    listed = Demands(firmware={"bios": frozenset({"2.4.0"})})
    sessions = Sessions("weft", [rig.layout.state / "clouds.yaml"], cleaning=listed)
    strict = replace(rig, enrollment=Enrollment(sessions))
    rig.ironic.hardware = {"firmware": [{"component": "bios", "current_version": "2.3.1"}]}
    text = strict.enroll().machines[0].differences
    assert text == ("firmware of bios is 2.3.1; the site allows 2.4.0",)
    rig.ironic.hardware = {"firmware": [{"component": "bios", "current_version": "2.4.0"}]}
    assert strict.enroll().good
    sessions.close()


MIRROR = {"level": "1", "size_gib": 200, "disks": [{"size": "> 400"}, {"size": "> 400"}]}
RAID = [MIRROR, {"level": "0"}]


def test_arrays_are_made_before_a_machine_is_available(rig: Rig) -> None:
    """By a manual cleaning, if the inspection found what the list says; existing arrays stay."""
    rig.edit(raid=RAID)
    assert rig.enroll().good
    node = rig.ironic.nodes[rig.ids[0]]
    assert node["raid_interface"] == "agent" and node["target_raid_config"] == {
        "logical_disks": [
            {
                **{"raid_level": "1", "size_gb": 200, "controller": "software", "is_root_volume": True},
                "physical_disks": [{"size": "> 400"}, {"size": "> 400"}],
            },
            {"raid_level": "0", "size_gb": "MAX", "controller": "software", "is_root_volume": False},
        ]
    }
    asked = [b for b in rig.ironic.provisioned if b["target"] == "clean"]
    assert [[s["step"] for s in one["clean_steps"]] for one in asked] == [
        ["delete_configuration", "erase_devices_metadata", "create_configuration"]
    ]
    verbs = [b["target"] for b in rig.ironic.provisioned]
    assert verbs.index("clean") > verbs.index("inspect"), "it is cleaned only after its inspection"
    disks = rig.ironic.findings[rig.ids[0]]["inventory"]["disks"]
    disks += [{"name": "/dev/md0", "size": 1}, {"name": "/dev/md1", "size": 2}]
    rig.ironic.asked.clear()
    assert rig.enroll(again=True).good and not changes(rig)


@pytest.mark.parametrize("made", [True, False])
def test_machine_without_its_arrays_is_not_made_available(rig: Rig, made: bool) -> None:
    """The agent created none, or an operator created other ones since. A machine in use is reported and not changed."""
    rig.edit(raid=RAID)
    rig.ironic.arrays = made
    found = rig.enroll()
    if not made:
        assert rig.only(found) == ("manageable", "it has 0 arrays, and should have 2")
        return
    node = rig.ironic.nodes[rig.ids[0]]
    node["raid_config"] = {"logical_disks": [{**d, "raid_level": "1"} for d in arrays_of(node)]}
    rig.ironic.asked.clear()
    state, text = rig.only(rig.enroll())
    assert state == "available" and text == "array 1 has raid_level 1, it should be 0" and not changes(rig)
    node["target_raid_config"] = {"logical_disks": arrays_of(node)[:1]}
    assert rig.only(rig.enroll())[1] == "Ironic has another target RAID than the list" and not changes(rig)


def test_machine_with_another_target_raid_is_not_changed(rig: Rig) -> None:
    """It was set by hand for existing data: no array is made, and its state stays."""
    rig.edit(raid=[MIRROR])
    rig.ironic.arrays = False
    assert rig.only(rig.enroll())[0] == "manageable"
    rig.edit(raid=RAID)
    rig.ironic.provisioned.clear()
    state, text = rig.only(rig.enroll())
    assert (state, text) == ("manageable", "Ironic has another target RAID than the list")
    assert not rig.ironic.provisioned, "no manual cleaning is started"


@pytest.mark.parametrize(
    "said",
    [
        {"switch_port_id": "etp5", "switch_port_description": "bm01"},
        {"switch_port_id": "BM 01"},
        {"switch_system_name": "mgmt.dc.example.net"},
        {"switch_system_name": "MGMT"},
    ],
)
def test_cable_is_recognized_by_every_name_of_its_switch(rig: Rig, said: dict[str, str]) -> None:
    """An alias with the name in its description (SONiC), blanks, a domain, another case."""
    lldp(rig)["eno1"] |= said
    assert rig.enroll().good


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"switch_port_id": "bm02", "switch_port_description": "bm01"}, "mgmt/bm02"),
        ({"switch_port_id": "etp5", "switch_port_description": "to bm01"}, "mgmt/etp5"),
        ({"switch_system_name": "mgmt2.dc.example.net"}, "mgmt2.dc.example.net/bm01"),
    ],
)
def test_port_description_is_ignored_if_the_id_is_a_name(rig: Rig, said: dict[str, str], text: str) -> None:
    """An administrator may write anything there, also another port's name."""
    lldp(rig)["eno1"] |= said
    assert rig.only(rig.enroll()) == (
        "manageable",
        f"port 02:00:00:00:b0:01 is cabled to {text}, it should be mgmt/bm01",
    )


def switch_heard(rig: Rig, port: str, mac: str) -> str:
    """A file with what the switch heard from an adapter's firmware, which has no system name."""
    heard = {"id": [{"type": "mac", "value": mac}]}
    file = rig.layout.site_path.parent / "mgmt.dc.example.json"
    row = {"name": port, "via": "LLDP", "chassis": [heard], "port": [heard]}
    file.write_text(json.dumps({"lldp": [{"interface": [row]}]}))
    return str(file)


def test_cable_known_only_from_its_switch_is_compared(rig: Rig) -> None:
    """Firmware doesn't pass LLDP frames on, so the switch's report counts, for this adapter only."""
    lldp(rig).clear()
    state, text = rig.only(rig.enroll())
    assert state == "manageable" and "the adapter's firmware keeps LLDP frames to itself" in text
    for port, mac, what in (
        ("bm02", "02:00:00:00:B0:01", "is cabled to mgmt/bm02, it should be mgmt/bm01"),
        ("bm01", "02:00:00:00:b0:99", "no LLDP neighbour was seen"),
    ):
        rig.lldp = [switch_heard(rig, port, mac)]
        assert what in rig.only(rig.enroll())[1]
    rig.lldp = [switch_heard(rig, "bm01", "02:00:00:00:B0:01")]
    assert rig.enroll().good


USB = {"name": "enx0200000000ff", "mac_address": "02:00:00:00:00:FF"}


def test_interface_common_to_all_machines_can_be_ignored_by_the_list(rig: Rig) -> None:
    """Such as a BMC's with the same MAC address everywhere: no port is made for it, and it is noted."""
    for seen in rig.ironic.findings.values():
        seen["inventory"]["interfaces"].append(dict(USB))
    assert not rig.enroll().good
    document = yaml.safe_load(rig.list.read_text())
    document["defaults"]["ignored_macs"] = ["02:00:00:00:00:ff"]
    rig.list.write_text(yaml.safe_dump(document))
    found = rig.enroll()
    assert found.good and len(rig.ironic.ports) == 4
    note = "interface enx0200000000ff (02:00:00:00:00:ff) is ignored, as the list says"
    assert [m.notes for m in found.machines] == [(note,), (note,)]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"ports": [{"mac": "02:00:00:00:b0:02"}]}, "this is that of a port of bm01; what every machine has"),
        ({"ignored_macs": ["02:00:00:00:b0:02"]}, "none that is known: this is a port of bm02"),
    ],
)
def test_duplicate_mac_address_is_refused(rig: Rig, fields: dict[str, Any], what: str) -> None:
    """Ironic would refuse the second port each time, and a server's interface might get the first."""
    rig.edit(**fields)
    with pytest.raises(InputError, match=re.escape(what)):
        rig.enroll()
    assert not changes(rig)


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ({"bmc_v6address": "2001:db8::11/64", "bmc_address": "0.0.0.0"}, ""),
        ({"bmc_v6address": "::/0", "bmc_address": "10.1.0.11"}, ""),
        (
            {"bmc_v6address": "2001:DB8:0::99/64"},
            "its BMC has address 2001:db8::99, the list has 2001:db8::11",
        ),
    ],
)
def test_bmc_is_compared_by_its_ipv6_address(rig: Rig, seen: dict[str, str], text: str) -> None:
    rig.edit(bmc="https://[2001:db8::11]")
    rig.found["inventory"] |= seen
    assert rig.only(rig.enroll())[1] == text


def test_out_of_band_inspection_reports_no_adapters(rig: Rig) -> None:
    """Redfish has only names and MAC addresses: nothing is missing, since nothing was inspected."""
    rig.found["inventory"]["interfaces"] = [
        {"name": "NIC.1", "mac_address": "02:00:00:00:b0:01", "speed_mbps": 25000}
    ]
    rig.found["plugin_data"] = {}
    state, text = rig.only(rig.enroll())
    assert state == "manageable" and text.startswith(
        "its adapters and accelerators weren't inspected: its inspection"
    )
    assert "is missing" not in text and "collector" not in text


def arrays_of(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node["target_raid_config"]["logical_disks"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"raid": [{"level": "0"}]}, 'the first array, for the root disk, has level "1"'),
        ({"raid": [{"level": "1"}, {"level": "0"}]}, "size_gib of all arrays but one"),
        ({"raid": [{"level": "1", "disks": [{"size": "> 400"}]}]}, "at least two disks with hints"),
        ({"raid": [MIRROR, MIRROR, MIRROR]}, "at most 2"),
        ({"raid": RAID, "interfaces": {"raid": "redfish"}}, "agent, which makes its arrays"),
    ],
)
def test_arrays_the_agent_cannot_create_are_refused(rig: Rig, fields: dict[str, Any], said: str) -> None:
    rig.edit(**fields)
    with pytest.raises(InputError, match=re.escape(said)):
        rig.enroll()
    assert not rig.ironic.asked

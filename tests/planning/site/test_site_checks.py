"""Mistakes that no single row can show are found across the whole site, and reported at their row."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.paths import SMALL
from tests.helpers.sitefolder import Folder
from weft.app.sitefile import load_site
from weft.planning.site.check import hints


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


CASES: dict[str, tuple[str, str, str, list[str]]] = {
    "a rack twice": (
        "racks.csv", "rack2,row-a,A", "rack1,row-a,A\nrack2,row-a,A",
        ["racks.csv:3: racks[1].name: 'rack1' is not allowed: a rack's name must be unique; "
         "rack rack1 already has it"],
    ),
    "an unknown rack": (
        "nodes.csv", "gpu07,rack2", "gpu07,rack9",
        ["nodes.csv:8: nodes[6].rack: 'rack9' is not allowed: racks of the site: rack1, rack2, rack3, rack4, rack5"],
    ),
    "a switch's unknown rack": (
        "switches.csv", "200001,rack5", "200001,hall",
        ["switches.csv:6: switches[4].rack: 'hall' is not allowed: "
         "racks of the site: rack1, rack2, rack3, rack4, rack5"],
    ),
    "a node twice, in other letters": (
        "nodes.csv", "gpu02,rack1,compute", "gpu02,rack1,compute\nGPU02,rack1,service",
        ["nodes.csv:4: nodes[2].name: 'GPU02' is not allowed: a name of a switch or node must be unique; "
         "node gpu02 already has it"],
    ),
    "a node named as a switch": (
        "nodes.csv", "gpu02,rack1,compute", "gpu02,rack1,compute\nleaf01,rack1,service",
        ["nodes.csv:4: nodes[2].name: 'leaf01' is not allowed: a name of a switch or node must be unique; "
         "switch leaf01 already has it"],
    ),
    "a port GUID twice": (
        "hcas.csv", "0xb8599f0300000201,0000:0c", "0xb8599f0300000101,0000:0c",
        ["hcas.csv:6: hcas[4].port_guid: '0xb8599f0300000101' is not allowed: a port GUID must be unique; "
         "gpu01/mlx5_0 already has it"],
    ),
    "an adapter with a switch's GUID": (
        "hcas.csv", "ib,0xb8599f0300000200,", "ib,0xb8599f0300100001,",
        ["hcas.csv:6: hcas[4].guid: '0xb8599f0300100001' is not allowed: a node GUID must be unique; "
         "switch leaf01 already has it"],
    ),
    "an unknown fabric": (
        "hcas.csv", "gpu02,mlx5_0,ib,", "gpu02,mlx5_0,roce,",
        ["hcas.csv:6: hcas[4].fabric: 'roce' is not allowed: fabrics of the site: ib",
         "links.csv:6: links[4].b: 'leaf01' is not allowed: must be on fabric roce, like gpu02/mlx5_0"],
    ),
    "an unknown node in the table of adapters": (
        "hcas.csv", "gpu02,mlx5_0,", "gpu20,mlx5_0,",
        ["hcas.csv:6: hcas[4].node: 'gpu20' is not allowed: a node of the site",
         "links.csv:6: links[4].a: 'gpu02/mlx5_0' is not allowed: a switch of the site, or node/adapter"],
    ),
    "a PCI address twice in one node": (
        "accelerators.csv", "gpu02,h100,0000:0b:00.0", "gpu02,h100,0000:0c:00.0",
        ["accelerators.csv:11: accelerators[9].pci: '0000:0c:00.0' is not allowed: "
         "a PCI address in node gpu02 must be unique; gpu02/mlx5_0 already has it"],
    ),
    "an adapter named management": (
        "hcas.csv", "gpu02,mlx5_0,", "gpu02,management,",
        ["hcas.csv:6: hcas[4].name: 'management' is not allowed: another name: this one is reserved for the management "
            "port",
         "hcas.csv:6: hcas[4].name: 'gpu02/management' is not allowed: every adapter needs a link to a leaf, and this "
         "one has none",
         "links.csv:6: links[4].a: 'gpu02/mlx5_0' is not allowed: a switch of the site, or node/adapter"],
    ),
    "a cable to nowhere": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5", "gpu02/mlx5_0,1,leaf09,5",
        ["links.csv:6: links[4].b: 'leaf09' is not allowed: a switch of the site, or node/adapter"],
    ),
    "a port that the switch doesn't have": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5", "gpu02/mlx5_0,1,leaf01,41",
        ["links.csv:6: links[4].b_port: 41 is not allowed: switch leaf01 has ports 1 to 40"],
    ),
    "a port used twice": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5", "gpu02/mlx5_0,1,leaf01,6",
        ["links.csv:7: links[5].b_port: 6 is not allowed: port 6 of leaf01 is already used by links[4]"],
    ),
    "an adapter with two cables": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5", "gpu02/mlx5_0,1,leaf01,5\ngpu02/mlx5_0,2,leaf01,18",
        ["links.csv:7: links[5].a_port: 2 is not allowed: gpu02/mlx5_0 has one port, and links[4] uses it"],
    ),
    "a cable from host to host": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5\n", "gpu02/mlx5_0,1,gpu03/mlx5_3,1\n",
        ["links.csv:6: links[4].b: 'gpu03/mlx5_3' is not allowed: one end must be a switch, "
         "and gpu02/mlx5_0 isn't one either",
         "links.csv:13: links[11].a_port: 1 is not allowed: port 1 of gpu03/mlx5_3 is already used by links[4]"],
    ),
    "a host on a spine": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5", "gpu02/mlx5_0,1,spine01,40",
        ["links.csv:6: links[4].b: 'spine01' is not allowed: gpu02/mlx5_0 must be connected to a leaf; this is a "
            "spine"],
    ),
    "a cable that bites its tail": (
        "links.csv", "leaf01,25,spine01,1\n", "leaf01,25,leaf01,26\n",
        ["links.csv:68: links[66].b: 'leaf01' is not allowed: the two ends of a cable must differ",
         "links.csv:69: links[67].a_port: 26 is not allowed: port 26 of leaf01 is already used by links[66]"],
    ),
    "a node without a leaf": (
        "links.csv", "gpu02/mlx5_0,1,leaf01,5\n", "",
        ["hcas.csv:6: hcas[4].name: 'gpu02/mlx5_0' is not allowed: every adapter needs a link to a leaf, and this one "
            "has none"],
    ),
    "P_Keys beyond VLAN ids": (
        "site.yaml", "last: 0xe2", "last: 0x1fff",
        ["site.yaml:28: fabrics.ib.segments.last: 8191 is not allowed: "
         "at most 4094: each number is a Neutron segmentation id"],
    ),
    "a range turned round": (
        "site.yaml", "first: 1000, last: 1199", "first: 1199, last: 1000",
        ["site.yaml:9: clouds.main.management.segments.first: 1199 is not allowed: not above last, which is 1000"],
    ),
    "VLANs that are P_Keys of the same physical network": (
        "site.yaml", "physical_network: physnet-mgmt\n      segments: {first: 1000, last: 1199}",
        "physical_network: physnet-ib\n      segments: {first: 200, last: 300}",
        ["site.yaml:9: clouds.main.management.segments.first: '200 to 300' is not allowed: must not overlap "
         "the range of fabric ib (101 to 226): both are on physical network physnet-ib"],
    ),
    "a provider network without its numbers": (
        "site.yaml", "      segments: {first: 1000, last: 1199}\n", "",
        ["site.yaml:7: clouds.main.management.segments: missing: "
         "required for provider networks; with type self-service Neutron allocates the network"],
    ),
    "a self-service network with numbers": (
        "site.yaml", "      physical_network: physnet-mgmt\n", "      type: self-service\n",
        ["site.yaml:9: clouds.main.management.segments: '1000 to 1199' is not allowed: "
         "must be omitted: with type self-service Neutron allocates the network and its number"],
    ),
    "a self-service network on a physical one": (
        "site.yaml", "      segments: {first: 1000, last: 1199}\n", "      type: self-service\n",
        ["site.yaml:8: clouds.main.management.physical_network: 'physnet-mgmt' is not allowed: "
         "must be omitted: with type self-service Neutron allocates the network and its number"],
    ),
    "blocks that overlap": (
        "site.yaml", "10.128.0.0/16", "10.16.128.0/17",
        ["site.yaml:12: clouds.main.rdma_addresses: '10.16.128.0/17' is not allowed: "
         "must not overlap management.addresses 10.16.0.0/16"],
    ),
    "a block too small for one subnet": (
        "site.yaml", "10.128.0.0/16", "10.128.0.0/28",
        ["site.yaml:13: clouds.main.rdma_prefix: 24 is not allowed: "
         "28 or more, to fit into 10.128.0.0/28"],
    ),
    "a block that is for multicast": (
        "site.yaml", "10.128.0.0/16", "224.0.0.0/16",
        ["site.yaml:12: clouds.main.rdma_addresses: '224.0.0.0/16' is not allowed: "
         "a network for hosts; this one is for multicast"],
    ),
    "an agent beside a node that is no subnet manager": (
        "site.yaml", "node: sm2", "node: gpu01",
        ["site.yaml:33: fabrics.ib.manager.agents[1].node: 'gpu01' is not allowed: "
         "nodes with role subnet-manager and an adapter on fabric ib: sm1, sm2"],
    ),
    "two agents beside one node": (
        "site.yaml", "node: sm2", "node: sm1",
        ["site.yaml:33: fabrics.ib.manager.agents[1].node: 'sm1' is not allowed: an agent's node must be unique; "
         "agent sm1 of fabric ib already has it"],
    ),
    "a flavor that no node can serve": (
        "site.yaml", "{type: h100, count: 4}", "{type: h100, count: 16}",
        ["site.yaml:22: clouds.main.flavors.h100.4.accelerators: '16 x h100' is not allowed: "
         "no node of cloud main has that many; the most on one node: 8 x h100"],
    ),
    "machines with an array that isn't deleted": (
        "site.yaml", "nvme: 4}", "nvme: 4, bare_metal: true}",
        ["site.yaml:21: clouds.main.flavors.h100.8.nvme: 4 is not allowed: at most 1, or "
         "raid.delete_configuration in cleaning_steps: pods stripe several drives of a machine"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_mistake_is_reported_at_its_row(folder: Folder, name: str) -> None:
    """One changed row of the example gives exactly these sentences."""
    file, old, new, expected = CASES[name]
    folder.replace(file, old, new)
    assert folder.errors() == expected


UFM: dict[str, tuple[str, list[str]]] = {
    "as it should be": ("driver: ufm\n      addresses: [https://ufm.example]", []),
    "both nodes, with a password": (
        "driver: ufm\n      addresses: [https://ufm1.example, https://ufm2.example:8443]\n"
        "      authentication: session\n      credentials: /etc/weft/ufm.yaml", [],
    ),
    "no address": (
        "driver: ufm",
        ["site.yaml:29: fabrics.ib.manager.addresses: missing: the address of UFM's REST API, "
         "such as [https://ufm.example]"],
    ),
    "an address twice": (
        "driver: ufm\n      addresses: [https://ufm.example, https://UFM.example]",
        ["site.yaml:31: fabrics.ib.manager.addresses[1]: 'https://ufm.example' is not allowed: an address must be "
         "unique; fabric ib already has it"],
    ),
    "a path behind the address": (
        "driver: ufm\n      addresses: [https://ufm.example/ufmRest]",
        ["site.yaml:31: fabrics.ib.manager.addresses[0]: 'https://ufm.example/ufmRest' is not allowed: "
         "https:// with a host, and a port if it isn't 443, without anything after, such as https://ufm.example"],
    ),
    "a password in the address": (
        "driver: ufm\n      addresses: ['https://weft:secret@ufm.example']",
        ["site.yaml:31: fabrics.ib.manager.addresses[0]: 'https://***@ufm.example' is not allowed: "
         "https:// with a host, and a port if it isn't 443, without anything after, such as https://ufm.example"],
    ),
    "a certificate and credentials": (
        "driver: ufm\n      addresses: [https://ufm.example]\n      authentication: certificate\n"
        "      credentials: x",
        ["site.yaml:33: fabrics.ib.manager.credentials: 'x' is not allowed: nothing: authentication is certificate"],
    ),
    "OpenSM with an address": (
        "driver: opensm\n      addresses: [https://ufm.example]",
        ["site.yaml:31: fabrics.ib.manager.addresses: 'https://ufm.example' is not allowed: nothing: only a manager "
         "of driver ufm has addresses"],
    ),
    "a UFM of an Ethernet fabric": (
        "driver: switches", ["site.yaml:30: fabrics.ib.manager.driver: 'switches' is not allowed: opensm or ufm on a "
         "fabric of type infiniband"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UFM)
def test_ufm_settings_are_required(folder: Folder, name: str) -> None:
    new, expected = UFM[name]
    folder.replace("site.yaml", "driver: opensm", new)
    assert folder.errors() == expected


@pytest.mark.parametrize(
    ("driver", "served", "expected"),
    [
        ("driver: ufm\n      addresses: [https://ufm.example]", "false", []),
        ("driver: ufm\n      addresses: [https://ufm.example]", "true", ["false: weft serves them"]),
        ("driver: opensm", "false", ["false: only UFM keeps running without weft"]),
    ],
)
def test_tenant_networks_may_be_left_only_to_ufm(
    folder: Folder, driver: str, served: str, expected: list[str]
) -> None:
    folder.replace("site.yaml", "driver: opensm", driver)
    fields = f"    tenant_networks: {served}\n    leave_tenant_networks: true\n"
    folder.replace("site.yaml", "  ib:\n", f"  ib:\n{fields}")
    assert folder.errors() == [
        f"site.yaml:27: fabrics.ib.leave_tenant_networks: True is not allowed: {why}" for why in expected
    ]


def test_ufm_without_agents_gives_a_hint(folder: Folder) -> None:
    """Then only UFM's own answers prove a partition's members."""
    text = folder.site.read_text()
    agents = text[text.index("      agents:") : text.index("      ca:")]
    folder.site.write_text(
        text.replace(agents, "").replace(
            "driver: opensm", "driver: ufm\n      addresses: [https://ufm.example]"
        )
    )
    assert any("proved by UFM's own answers only" in h for h in hints(load_site(folder.site)))


def test_cloud_and_fabric_with_the_same_name_are_refused(folder: Folder) -> None:
    """`where` of a resource names a cloud or a fabric, and must not fit both."""
    folder.replace("site.yaml", "  ib:\n", "  main:\n")
    assert (
        "site.yaml:25: fabrics.main: 'main' is not allowed: a fabric and a cloud can't have the same name"
        in (folder.errors())
    )


def test_names_that_collide_externally_are_refused(folder: Folder) -> None:
    """`a-b` with adapter `c` and `a` with adapter `b-c` would both have the port `…-a-b-c`."""
    folder.append("nodes.csv", "gpu01-mlx5_0,rack1,compute")
    folder.append("nodes.csv", "gpu01-mlx5,rack1,compute")
    folder.append("hcas.csv", "gpu01-mlx5_0,x,ib,0x00000000000000a0,0x00000000000000a1,0000:01:00.0,0,200")
    line = folder.append(
        "hcas.csv", "gpu01,mlx5_0-x,ib,0x00000000000000b0,0x00000000000000b1,0000:02:00.0,0,200"
    )
    folder.append("links.csv", "gpu01-mlx5_0/x,1,leaf01,18")
    folder.append("links.csv", "gpu01/mlx5_0-x,1,leaf01,19")
    (error,) = folder.errors()
    assert "'gpu01-mlx5_0-x' is not allowed: node and adapter, joined by '-', must be unique" in error
    assert error.startswith((f"hcas.csv:{line}", f"hcas.csv:{line - 1}"))


def test_fabric_in_two_pieces_is_refused(folder: Folder) -> None:
    """Leaves that can't reach one another aren't one fabric; the leaf that is cut off is named."""
    links = [k for k in (folder.path / "links.csv").read_text().splitlines() if not k.startswith("leaf03,")]
    (folder.path / "links.csv").write_text("\n".join(links) + "\n")
    assert folder.errors() == [
        "switches.csv:4: switches[2].name: 'leaf03' is not allowed: "
        "no path of cables connects it to leaf01; a fabric must be connected"
    ]


def test_nodes_must_name_their_cloud_if_there_are_several(folder: Folder) -> None:
    """The cloud must exist."""
    text = folder.site.read_text()
    cloud = text[text.index("  main:") : text.index("fabrics:")].rstrip()
    other = cloud.replace("  main: ", "  west: ", 1).split("    flavors:")[0]
    folder.site.write_text(text.replace(cloud, f"{cloud}\n{other}"))
    errors = folder.errors()
    assert len(errors) == 18 - 2 + 2
    assert errors[0] == "nodes.csv:2: nodes[0].cloud: missing: required if the site has several clouds"
    assert "no node of cloud main has that many" in errors[-1]


def test_two_nodes_with_one_nova_host_are_refused(folder: Folder) -> None:
    """The Nova host is given, or is the node's name."""
    folder.replace("nodes.csv", "name,rack,role", "name,rack,role,host")
    rows = (folder.path / "nodes.csv").read_text().splitlines()
    rows = [rows[0], *(f"{r}," for r in rows[1:])]
    rows[2] += "gpu01"
    (folder.path / "nodes.csv").write_text("\n".join(rows) + "\n")
    assert folder.errors() == [
        "nodes.csv:3: nodes[1].host: 'gpu01' is not allowed: a host of cloud main must be unique; "
        "node gpu01 already has it"
    ]


def test_duplicate_machine_id_is_refused(folder: Folder) -> None:
    machine = "5c435abb-55d9-5c17-8131-5edcbcd52777"
    rows = (folder.path / "nodes.csv").read_text().splitlines()
    ids = {1: machine, 2: machine}
    table = [f"{rows[0]},machine", *(f"{row},{ids.get(i, '')}" for i, row in enumerate(rows[1:], 1))]
    (folder.path / "nodes.csv").write_text("\n".join(table) + "\n")
    assert folder.errors() == [
        f"nodes.csv:3: nodes[1].machine: '{machine}' is not allowed: a host of cloud main must be unique; "
        "node gpu01 already has it"
    ]


def test_valid_site_may_have_hints(folder: Folder) -> None:
    """No agents, no flavors, and nodes without adapters."""
    assert hints(load_site(SMALL / "site.yaml")) == ()
    text = folder.site.read_text()
    start, end = text.index("      agents:"), text.index("      ca:")
    text = text[:start] + text[end:]
    start, end = text.index("    flavors:"), text.index("fabrics:")
    folder.site.write_text(text[:start] + text[end:])
    folder.append("nodes.csv", "gpu99,rack1,compute")
    assert hints(load_site(folder.site)) == (
        "fabric ib has no agents: weft can plan on it, but can't configure it",
        "1 compute nodes have no adapters and can only be ordered with `fabric: none`: gpu99",
        "cloud main has no flavors: nothing can be ordered there",
    )


def test_cables_to_be_adopted_may_be_missing(folder: Folder) -> None:
    """A site without links is refused, unless its links are to come from the fabric."""
    folder.replace("site.yaml", "links: {csv: links.csv}\n", "")
    assert len(folder.errors()) == 66
    assert load_site(folder.site, links_needed=False).links == ()

"""Parsing ibnetdiscover's text; the real program's output is read in the contract suite (`topology`)."""

from __future__ import annotations

import pytest

from weft.model.errors import InputError
from weft.planning.fabric.ibnetdiscover import HostPort, parse_ibnetdiscover

# an adapter with two ports, a chassis switch, a switch with a '#' in its name, and a router
SAMPLE = """\
#
# Topology file: generated on Sat Nov 21 04:40:42 2026
#
# Initiated from node 0c42a10300aa0100 port 0c42a10300aa0101

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x1070fd0300bb0000
switchguid=0x1070fd0300bb0000(1070fd0300bb0000)
Switch\t41 "S-1070fd0300bb0000"\t\t# "MF0;leaf #1:MQM8700/U1" enhanced port 0 lid 3 lmc 0
[1]\t"H-0c42a10300aa0100"[1](c42a10300aa0101) \t\t# "gpu01 mlx5_0" lid 7 4xHDR
[2]\t"H-0c42a10300aa0100"[2](c42a10300aa0102) \t\t# "gpu01 mlx5_0" lid 9 4xHDR
[39][ext 12]\t"S-1070fd0300cc0000"[4][ext 2]\t\t# "spine" lid 12 4xHDR
[41]\t"H-1070fd0300bb0008"[1](1070fd0300bb0008) \t\t# "Mellanox Technologies Aggregation Node" lid 5 4xHDR

vendid=0x2c9
devid=0xd2f0
switchguid=0x1070fd0300cc0000(1070fd0300cc0000)
Switch\t40 "S-1070fd0300cc0000"\t\t# "spine" base port 0 lid 12 lmc 0
[4]\t"S-1070fd0300bb0000"[39]\t\t# "MF0;leaf #1:MQM8700/U1" lid 3 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0xc42a10300aa0100
caguid=0xc42a10300aa0100
Ca\t2 "H-0c42a10300aa0100"\t\t# "gpu01 mlx5_0"
[1](c42a10300aa0101) \t"S-1070fd0300bb0000"[1]\t\t# lid 7 lmc 0 "MF0;leaf #1:MQM8700/U1" lid 3 4xHDR
[2](c42a10300aa0102) \t"S-1070fd0300bb0000"[2]\t\t# lid 9 lmc 0 "MF0;leaf #1:MQM8700/U1" lid 3 4xHDR
"""


def test_parser_returns_nodes_cables_and_lids() -> None:
    """Each cable once, with names; both ports of an adapter; the switch port of each host port."""
    found = parse_ibnetdiscover(SAMPLE)
    assert [(n.kind, n.name, n.ports) for n in found.fabric.nodes] == [
        ("ca", "gpu01 mlx5_0", 2),
        ("switch", "MF0;leaf #1:MQM8700/U1", 41),
        ("switch", "spine", 40),
    ]
    assert found.fabric.nodes[0].port_guids == (0x0C42A10300AA0101, 0x0C42A10300AA0102)
    ends = [tuple((e.name, e.port) for e in link) for link in found.fabric.links]
    assert (("gpu01 mlx5_0", 1), ("MF0;leaf #1:MQM8700/U1", 1)) in ends
    assert (("MF0;leaf #1:MQM8700/U1", 39), ("spine", 4)) in ends and len(ends) == 4
    assert found.hosts[0x0C42A10300AA0102] == HostPort(0x0C42A10300AA0102, 2, 9, 0x1070FD0300BB0000, 2, 3)
    assert set(found.rates.values()) == {200}
    assert len(found.rates) == len(found.fabric.links)
    assert found.switch_lids == {0x1070FD0300BB0000: 3, 0x1070FD0300CC0000: 12}


@pytest.mark.parametrize("text", ["", "# nothing\n", "ibwarn: can't open\n", SAMPLE + "what is this\n"])
def test_malformed_output_is_refused(text: str) -> None:
    """The error names the line; cut or invalid text is never an empty fabric."""
    with pytest.raises(InputError, match="ibnetdiscover"):
        parse_ibnetdiscover(text)


def test_messages_make_discovery_partial() -> None:
    """Messages get into the file with `2>&1`. A cable to a node without a record has the same effect."""
    message = "src/query_smp.c:197; umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110; Connection timed out"
    found = parse_ibnetdiscover(f"{message}\n{message}\nibwarn: [7] mad_rpc: failed\n{SAMPLE}")
    assert found.fabric.nodes == parse_ibnetdiscover(SAMPLE).fabric.nodes
    assert found.fabric.partial == (
        message,
        "ibwarn: [7] mad_rpc: failed",
        "0x1070fd0300bb0008 has a cable and no record of its own",
    )


def test_grouped_output_with_speeds_parses_the_same() -> None:
    """`-g` adds titles and comments, `-f` numbers at the end of the line."""
    plain = parse_ibnetdiscover(SAMPLE)
    titles = "Chassis 1 (guid 0x1070fd0300bb0000)\nHostname: chassis\n\n# Spine Nodes\n"
    grouped = SAMPLE.replace("\nvendid", f"\n{titles}\nvendid", 1)
    grouped = grouped.replace(
        "sysimgguid=0x1070fd0300bb0000", "sysimgguid=0x1070fd0300bb0000\t\t# Chassis 1 slot 2"
    )
    grouped = grouped.replace("(1070fd0300bb0000)\n", "(1070fd0300bb0000)\t# leaf 1 slot 2\n")
    assert (
        parse_ibnetdiscover(grouped.replace("\nvendid=0x2c9\ndevid=0x101b", "\nNon-Chassis Nodes\n")) == plain
    )
    full = "\n".join(f"{line} s=4 w=2 v=4" if line.startswith("[") else line for line in SAMPLE.split("\n"))
    assert parse_ibnetdiscover(full) == plain and plain.rates


@pytest.mark.parametrize(
    "line",
    ["[admin@sm1 ~]$ ibnetdiscover", "root@sm1:~# sudo ibnetdiscover -g", 'Switch64 "S-0002c90300100001"'],
)
def test_terminal_log_is_recognized_and_refused(line: str) -> None:
    """The error says how to write the file."""
    with pytest.raises(InputError, match="this is a terminal's log: write it with `ibnetdiscover > FILE`"):
        parse_ibnetdiscover(f"{line}\n{SAMPLE}")


def test_two_discoveries_in_one_text_are_partial() -> None:
    """Written with `>>`, or a cable moved meanwhile: a port with two cables proves neither."""
    first = """Switch\t8 "S-0000000000000001"\t# "leaf" base port 0 lid 1 lmc 0
[1]\t"S-0000000000000002"[3]\t# "spine" lid 2 4xHDR
Switch\t8 "S-0000000000000002"\t# "spine" base port 0 lid 2 lmc 0
[3]\t"S-0000000000000001"[1]\t# "leaf" lid 1 4xHDR
"""
    assert not parse_ibnetdiscover(first + first).fabric.partial
    [said] = parse_ibnetdiscover(first + first.replace("[1]", "[2]")).fabric.partial
    assert said.startswith("port 3 of 0x0000000000000002 has 2 cables")

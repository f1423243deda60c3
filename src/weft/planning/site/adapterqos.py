"""Adapters' settings for RoCE, as their hosts report them, compared with those that the site wants. Pure.

One line of JSON for each adapter, made on the host by the commands in docs/fabric-ethernet.md. Sources: iproute2,
`dcb -j pfc show` (`prio_pfc`: eight times true or false) and `dcb -j app show` (`dscp_prio`: DSCP, priority); Linux,
mlx5's dcbnl: an adapter takes priorities from DSCP as soon as one has a priority; NVIDIA's `ecn/roce_np/enable`,
`roce_rp/enable`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from weft.model.site import Site
from weft.planning.fabric.qos import PortQos, differences, numbers

ON = {True: True, False: False, "on": True, "off": False}


def adapters_of(text: str) -> Mapping[str, PortQos]:
    """Adapter -> its settings. Raises ValueError with what is wrong."""
    found: dict[str, PortQos] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            name = str(row["adapter"])
            if name in found:
                raise ValueError(f"{name} has a line already")
            found[name] = _adapter(row)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"line {number}: no {error}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"line {number}: {str(error).splitlines()[0] if str(error) else 'nested'}"
            ) from None
    if not found:
        raise ValueError("no adapter is in it")
    return found


def _adapter(row: Mapping[str, Any]) -> PortQos:
    pfc = row["pfc"]["prio_pfc"]
    if len(pfc) != 8:
        raise ValueError(f"prio_pfc has {len(pfc)} priorities instead of 8")
    if wrong := [str(on) for on in pfc if isinstance(on, list | dict) or on not in ON]:
        raise ValueError(f"prio_pfc is {wrong[0][:40]}: on or off")
    led = row["app"].get("dscp_prio", ())
    dscp = {_whole("DSCP", one[0], 63): _whole("priority", one[1], 7) for one in led}
    ecn = row.get("ecn")
    return PortQos(
        pfc=frozenset(n for n, on in enumerate(pfc) if ON[on]),
        ecn=None if ecn is None else numbers(str(ecn)),
        trust=frozenset({"dscp" if dscp else "pcp"}),
        dscp=dscp,
        mtu=_whole("mtu", row["link"][0]["mtu"], 65535),
    )


def _whole(field: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{field} is {str(value)[:40]}: a whole number up to {most}")
    return value


def adapter_notes(site: Site, reported: Mapping[str, Mapping[str, PortQos]]) -> Iterator[str]:
    """What was not compared, one sentence each."""
    of_roce = {name for name, fabric in site.fabrics.items() if fabric.qos is not None}
    mine = {n.name: [h.name for h in n.hcas if h.fabric in of_roce] for n in site.nodes}
    silent = sorted(
        f"{node}/{hca}"
        for node, hcas in mine.items()
        for hca in hcas
        if (seen := reported.get(node, {}).get(hca)) is not None and seen.ecn is None
    )
    if silent:
        yield f"ECN was not compared on {len(silent)} adapters, whose hosts don't report it: {_some(silent)}"
    unreported = sorted(node for node, hcas in mine.items() if hcas and node not in reported)
    if unreported:
        yield f"adapters of {len(unreported)} nodes were not compared: {_some(unreported)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")


def adapter_differences(site: Site, reported: Mapping[str, Mapping[str, PortQos]]) -> Iterator[str]:
    """One sentence for each difference. Args: reported: node -> its adapters."""
    for name, adapters in sorted(reported.items()):
        node = site.node_by_name.get(name)
        if node is None:
            yield f"{name} isn't a node of the site"
            continue
        for hca in node.hcas:
            wanted = site.fabrics[hca.fabric].qos
            if wanted is None:
                continue
            seen = adapters.get(hca.name)
            if seen is None:
                yield f"{name}/{hca.name} isn't on its host"
                continue
            for one in differences(wanted, seen, adapter=True):
                yield f"{name}/{hca.name}: {one.field} is {one.observed}, expected {one.wanted}"

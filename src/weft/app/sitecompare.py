"""Compares a site with the output of `ibnetdiscover`, and writes the discovered cables to a file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.app.sitefile import read_text
from weft.drivers.bounded import read_json
from weft.generate.sitecsv import links_csv
from weft.model.errors import InputError, InputErrors
from weft.model.observedfabric import ObservedFabric
from weft.model.site import Site
from weft.planning.fabric.diff import FabricDifference, adopt_links, fabric_differences
from weft.planning.fabric.ibnetdiscover import Discovery, parse_ibnetdiscover
from weft.planning.fabric.qos import PortQos
from weft.planning.site.adapterqos import adapter_differences, adapter_notes, adapters_of
from weft.planning.site.check import check_site
from weft.planning.site.lldpfiles import FORMATS, neighbours_of
from weft.planning.site.neighbours import LldpNeighbour, cable_differences


def compare(
    site: Site, discovered: str, fabric: str | None, text: str | None = None
) -> tuple[str, ObservedFabric, tuple[FabricDifference, ...]]:
    """The fabric's name, what was discovered, and how the site differs from it.

    Args:
        discovered: file with ibnetdiscover's output.
        text: the output itself, if it is not a file; `discovered` is then its name in errors.

    Raises `InputError` for a fabric that the site doesn't have, and for a file that is not ibnetdiscover's output.
    """
    names = sorted(site.fabrics)
    if fabric is None and len(names) == 1:
        fabric = names[0]
    if fabric is None or fabric not in site.fabrics:
        raise InputError("--fabric-name", fabric, f"fabrics of site {site.name}: {', '.join(names)}")
    observed = discovery(read_text(Path(discovered)) if text is None else text, discovered).fabric
    return fabric, observed, fabric_differences(site, fabric, observed)


def compare_lldp(site: Site, files: Sequence[str]) -> tuple[FabricDifference, ...]:
    """How the site's Ethernet cables differ from what devices heard by LLDP.

    Args:
        files: JSON of `lldpcli -f json0 show neighbors` (or `-f json`), or of Ironic's inspection data, each called
            after the device that it was taken on, such as tor1.json.

    Raises `InputErrors` with every file that isn't that.
    """
    return cable_differences(site, read_lldp(files))


def read_lldp(files: Sequence[str]) -> dict[str, tuple[LldpNeighbour, ...]]:
    """Device -> what it heard. Raises `InputErrors` with every file that isn't that."""
    heard: dict[str, tuple[LldpNeighbour, ...]] = {}
    errors: list[InputError] = []
    for file in files:
        device = Path(file).stem
        try:
            if device in heard:
                raise ValueError(f"one file per device; {device} has another")
            heard[device] = neighbours_of(read_json(read_text(Path(file)).encode()))
        except InputErrors as error:
            errors += error.errors
        except ValueError as error:
            errors.append(InputError("--lldp", file, f"{FORMATS} ({str(error).splitlines()[0]})"))
    if errors:
        raise InputErrors(errors)
    return heard


def compare_adapters(site: Site, files: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How adapters' settings for RoCE differ from the site's, and what wasn't compared; one sentence each.

    Args:
        files: one line of JSON per adapter (docs/fabric-ethernet.md), each called after its node, such as gpu01.json.

    Raises `InputErrors` with every file that isn't that.
    """
    adapters: dict[str, Mapping[str, PortQos]] = {}
    errors: list[InputError] = []
    for file in files:
        node = Path(file).stem
        try:
            if node in adapters:
                raise ValueError(f"one file per node; {node} has another")
            adapters[node] = adapters_of(read_text(Path(file)))
        except InputErrors as error:
            errors += error.errors
        except ValueError as error:
            errors.append(InputError("--adapters", file, f"one line of JSON per adapter ({error})"))
    if errors:
        raise InputErrors(errors)
    return tuple(adapter_differences(site, adapters)), tuple(adapter_notes(site, adapters)) if files else ()


def discovery(text: str, shown: str) -> Discovery:
    """Parse ibnetdiscover's output. Raises `InputError` with file and line for anything else."""
    try:
        return parse_ibnetdiscover(text)
    except InputError as error:
        if error.where is None:
            raise
        where = f"{shown}:{error.where.removeprefix('line ')}"
        raise InputError(error.field, error.value, error.allowed, where) from None


def write_links(
    site: Site, fabric: str, observed: ObservedFabric, target: str | Path
) -> tuple[int, tuple[str, ...]]:
    """Write the site's links updated with the discovered cables, atomically.

    Returns the number of links written, and remaining problems, one sentence each.
    """
    links = adopt_links(site, fabric, observed)
    path = Path(target)
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
            out.write(links_csv(links))
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        Path(out.name).chmod(mode)
        Path(out.name).replace(path)
    except OSError as error:
        raise InputError(
            "--write-links", str(path), f"a file that can be written ({error.strerror})"
        ) from None
    problems = check_site(site.model_copy(update={"links": links}))
    return len(links), tuple(f"{value}: {allowed}" for _, value, allowed in problems)

"""What the formats share: lists of hosts as Slurm writes them, and the comments above a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import yaml

from weft.planning.fabric.podtopology import PodTopology

_NOT_TEXT = re.compile(r"[-+.]?(?:[0-9].*|inf|infinity|nan|[ynft])", re.IGNORECASE)
"""Texts that YAML 1.2, Go's parser or Slurm's takes for a number or a boolean without quotes, and PyYAML doesn't."""
_NUMBERED = re.compile(r"(.*?)(\d{1,9})")


def hostlist(names: Iterable[str]) -> str:
    """Names as a host list of Slurm (`train-[0-3,7]`), in the order of the first name of each range's prefix.

    Numbers with leading zeros are of their own width: `node[008-010]`.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None:
            groups.setdefault((name, -1), [])
            continue
        prefix, digits = found.groups()
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        groups.setdefault((prefix, width), []).append(int(digits))
    return ",".join(_group(prefix, width, numbers) for (prefix, width), numbers in groups.items())


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    if width < 0:
        return prefix
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]:0{width}d}" if width else f"{prefix}{numbers[0]}"
    texts = [
        f"{first:0{width or 1}d}" if first == last else f"{first:0{width or 1}d}-{last:0{width or 1}d}"
        for first, last in _ranges(sorted(numbers))
    ]
    return f"{prefix}[{','.join(texts)}]"


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last


class _Dumper(yaml.SafeDumper):
    """PyYAML's, with quotes around what other parsers don't take for text."""


def _as_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _NOT_TEXT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _as_text)


def yaml_text(document: object) -> str:
    """A document in YAML that parsers of every version read alike: a server named 1e3 isn't a number."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10**6)


def heading(pod: PodTopology, what: str, places: bool = True, more: Iterable[str] = ()) -> list[str]:
    """Comment lines with `#`: what it is, of which pod, and which servers are left out and why. Nothing that changes
    while the file means the same, such as the pod's state: programs that keep it restart Slurm when it differs.

    Args:
        places: whether servers without a place on the fabric are left out, too.
    """
    said = [
        f"{what}: pod {pod.pod} ({pod.id}), generation {pod.generation}; site {pod.site}",
        *(f"left out: {name}: {why}" for name, why in left_out(pod, places).items()),
        *more,
    ]
    return [f"# {_line(text)}" for text in said]


def left_out(pod: PodTopology, places: bool = True) -> dict[str, str]:
    """Name of each server that isn't written -> why. Args: places: as for `heading`."""
    nowhere = {s.name: s.nowhere or "it is on no fabric" for s in pod.servers if not s.path} if places else {}
    return {**pod.left_out, **nowhere}


def _line(text: str) -> str:
    """One line, whatever is in it."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)

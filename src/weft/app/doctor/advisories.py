"""Versions of a cloud's services beside known advisories. What can't be decided is unknown, never ok.

Versions are stated by an operator, or follow from the newest microversion that a service offers, which says the series
but not what was mended in it. Sources of the series: `rest_api_version_history.rst` of Nova and Cinder,
`ironic/common/release_mappings.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, ValidationError

from weft.app.doctor.findings import DoctorFinding, finding
from weft.model.base import Document
from weft.model.errors import InputError

PRODUCTS: Mapping[str, str] = {
    "identity": "keystone",
    "network": "neutron",
    "compute": "nova",
    "image": "glance",
    "baremetal": "ironic",
    "block-storage": "cinder",
}
"""Type of a service -> what implements it, as advisories name it."""
SERIES: Mapping[str, tuple[tuple[str, int, int | None], ...]] = {
    "nova": (
        *(("2.87", 21, 22), ("2.88", 23, 23), ("2.90", 24, 25), ("2.93", 26, 26), ("2.95", 27, 28)),
        *(("2.96", 29, 30), ("2.100", 31, 32), ("2.103", 33, 33), ("2.104", 34, None)),
    ),
    "cinder": (
        *(("3.60", 16, 16), ("3.62", 17, 17), ("3.64", 18, 18), ("3.66", 19, 19), ("3.68", 20, 20)),
        *(("3.70", 21, 23), ("3.71", 24, None)),
    ),
    "ironic": (
        *(("1.78", 18, 20), ("1.80", 21, 21), ("1.82", 21, 21), ("1.83", 22, 22), ("1.86", 22, 22)),
        *(("1.87", 23, 23), ("1.88", 23, 23), ("1.89", 24, 24), ("1.90", 24, 24), ("1.91", 25, 26)),
        *(("1.93", 26, 26), ("1.94", 27, 27), ("1.95", 28, 28), ("1.96", 29, 29), ("1.99", 30, 31)),
        *(("1.101", 32, 32), ("1.104", 33, 33), ("1.109", 34, 34), ("1.111", 35, 35), ("1.112", 36, 37)),
        *(("1.113", 38, 38), ("1.115", 39, None)),
    ),
}
"""Product -> newest microversion, first and last major version that offer it; None: later ones may, too."""
OLD = timedelta(days=365)
"""Age at which a table of advisories says little about versions of today."""
_LIMIT = 1 << 20
_MICROVERSION = re.compile(r"\d{1,3}\.\d{1,4}")
_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,3}")
_STATED = re.compile(r"(\d{1,4}(?:\.\d{1,4}){0,3})(\.dev\d{1,6})?")
_END = (1 << 30,)
Version = tuple[int, ...]


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError("a version such as 29.1.1")
    return text


Stated = Annotated[str, AfterValidator(_version)]


def _product(text: str) -> str:
    if text not in PRODUCTS.values():
        raise ValueError(f"one of {', '.join(sorted(PRODUCTS.values()))}")
    return text


def _ascending(pair: tuple[str, str]) -> tuple[str, str]:
    if not _numbers(pair[0]) < _numbers(pair[1]):
        raise ValueError("a first affected version, and a later one that isn't")
    return pair


Product = Annotated[str, AfterValidator(_product)]
Pair = Annotated[tuple[Stated, Stated], AfterValidator(_ascending)]


class Advisory(Document):
    """A row of the table."""

    id: str = Field(pattern=r"^[A-Z]+-[0-9-]{4,20}$")
    title: str = Field(max_length=200)
    source: str = Field(pattern=r"^https://\S{1,300}$")
    of: dict[Product, Annotated[tuple[Pair, ...], Field(min_length=1)]] = Field(min_length=1)


class Table(Document):
    """The file.

    Attributes:
        oldest: product -> version from which on every advisory of it is in the table. Of older versions, and of
            other products, the table can show that they are affected, but not that they aren't.
    """

    until: date
    oldest: dict[Product, Stated]
    advisories: tuple[Advisory, ...] = Field(max_length=10_000)


def read_table(path: Path | None) -> Table:
    """A file, or the one of this version of weft. Raises `InputError`."""
    try:
        if path is None:
            text = files("weft.app.doctor").joinpath("advisories.yaml").read_text()
        else:
            with path.open("rb") as file:
                octets = file.read(_LIMIT + 1)
            if len(octets) > _LIMIT:
                raise ValueError("too long")  # never the part of it that fits
            text = octets.decode()
        return Table.model_validate(yaml.safe_load(text))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = error.errors()[0] if isinstance(error, ValidationError) else None
        said = f"{'.'.join(map(str, why['loc']))}: {why['msg']}" if why else f"{type(error).__name__}"
        raise InputError("--advisories", str(path), f"a table as docs/doctor.md has it ({said})") from None


def read_stated(words: list[str]) -> Mapping[tuple[str, str], str]:
    """Cloud (empty: every one) and product -> version. Raises `InputError`."""
    found: dict[tuple[str, str], str] = {}
    for word in words:
        name, _, version = word.partition("=")
        cloud, _, product = name.rpartition("/")
        if product not in PRODUCTS.values() or not _STATED.fullmatch(version):
            allowed = (
                f"[CLOUD/]SERVICE=VERSION, such as nova=29.2.1, of {', '.join(sorted(PRODUCTS.values()))}"
            )
            raise InputError("--service-version", word, allowed)
        if (cloud, product) in found:
            raise InputError("--service-version", word, f"{product} once for a cloud")
        found[cloud, product] = version
    return found


@dataclass(frozen=True, slots=True)
class Advisories:
    """What the table says of services.

    Attributes:
        stated: as `read_stated` has it.
        cloud: the cloud that the services are of; empty: none of the site's.
    """

    table: Table
    stated: Mapping[tuple[str, str], str]
    cloud: str = ""

    def in_cloud(self, name: str) -> Advisories:
        """These advisories, for the services of one cloud."""
        return replace(self, cloud=name)

    def age(self) -> Iterator[DoctorFinding]:
        """A finding if the table is too old to say much."""
        if datetime.now(UTC).date() - self.table.until > OLD:
            said = f"the table of advisories ends at {self.table.until}: get a newer one (--advisories)"
            yield finding("ADVISORIES_OLD", "advisories", said)

    def of(self, label: str, service: str, newest: str) -> Iterator[DoctorFinding]:
        """Findings about one service of a cloud.

        Args:
            label: of the findings, such as `cloud main`.
            newest: the microversion up to which the service answers, as `Met.newest`.
        """
        product, of = PRODUCTS.get(service), f"{label}: {service}"
        if product is None:
            return
        exact = self.stated.get((self.cloud, product)) or self.stated.get(("", product))
        first, end, called = _range(product, exact, newest)
        mine = [one for one in self.table.advisories if product in one.of]
        sure = [one for one in mine if _within(one, product, first, end)]
        perhaps = [one for one in mine if one not in sure and _touches(one, product, first, end)]
        if sure:
            yield finding("ADVISORY_APPLIES", of, f"{called} is affected by {_named(sure)}")
        if perhaps:
            said = f"whether {called} is affected by {_named(perhaps)} can't be seen: --service-version {product}=…"
            yield finding("ADVISORY_UNKNOWN", of, said)
        elif not sure and not self._knows_all(product, first):
            since = f" before {self.table.oldest[product]}" if product in self.table.oldest else ""
            said = f"{called} can't be judged: the table lacks advisories of {product}{since}"
            yield finding("ADVISORY_UNKNOWN", of, said)
        elif not sure:
            said = f"{called} isn't affected by those of the {len(mine)} known until {self.table.until}"
            yield finding("ADVISORIES_NONE", of, said)

    def _knows_all(self, product: str, first: Version) -> bool:
        oldest = self.table.oldest.get(product)
        return oldest is not None and _numbers(oldest) <= first


def _range(product: str, exact: str | None, newest: str) -> tuple[Version, Version, str]:
    """First possible version, the first that is not possible any more, and words for them."""
    if exact is not None:
        return *_stated(exact), f"{product} {exact} (as stated)"
    for microversion, low, high in SERIES.get(product, ()):
        if microversion == newest:
            words = f"{product} {low}" if high == low else f"{product} {low} or later" if high is None else ""
            return (low,), _END if high is None else (high + 1,), words or f"{product} {low} to {high}"
    last = SERIES[product][-1] if product in SERIES else None
    if _MICROVERSION.fullmatch(newest) and last is not None:
        offers, known = _numbers(newest), _numbers(last[0])
        if offers[0] == known[0] and offers > known:
            return (last[1],), _END, f"{product} {last[1]} or later"
    return (0,), _END, f"{product}, whose version no answer shows,"


def _stated(text: str) -> tuple[Version, Version]:
    """First possible version, and the first that is not: 29 is any of that series, 29.2 any 29.2.z, and 29.2.1.dev4,
    built between 29.2.0 and 29.2.1, may have what the latter mended, or not."""
    found = _STATED.fullmatch(text)
    assert found is not None
    version, parts = _numbers(found[1]), found[1].count(".") + 1
    if found[2]:
        return (*version[:-1], max(version[-1] - 1, 0)), (*version, 0)
    if parts < 3:
        given = tuple(map(int, found[1].split(".")))
        return version, (*given[:-1], given[-1] + 1)
    return version, (*version, 0)


def _within(one: Advisory, product: str, first: Version, end: Version) -> bool:
    """Whether every possible version is affected."""
    return any(_numbers(low) <= first and end <= _numbers(high) for low, high in one.of[product])


def _touches(one: Advisory, product: str, first: Version, end: Version) -> bool:
    """Whether a possible version is affected."""
    return any(_numbers(low) < end and first < _numbers(high) for low, high in one.of[product])


def _numbers(text: str) -> Version:
    """A version as numbers, for comparisons: 29 is 29.0.0, and before 29.0.1."""
    found = tuple(map(int, text.split(".")))
    while len(found) > 1 and found[-1] == 0:
        found = found[:-1]
    return found


def _named(rows: list[Advisory]) -> str:
    return ", ".join(one.id for one in rows)

"""The document of weft-check: what a machine says of itself. docs/host-checks.md describes it.

Whatever is in it, it can take a node from new orders, and nothing more. Text in it is made printable; members that this
version doesn't know are left out, and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

from pydantic import Field, field_validator

from weft.model.base import Document, added

CheckStatus = Literal["ok", "failed", "unknown", "skipped"]
CheckState = Literal["ok", "failed", "unknown", "old", "never"]
CODE = r"^[A-Z][A-Z0-9_]{0,39}$"
CODES = frozenset(
    {
        *(
            "CLOCK",
            "FIRMWARE_PENDING",
            "FIRMWARE_SETTING",
            "GPUDIRECT",
            "GPU_ATTACHED",
            "GPU_CLOCKS",
            "GPU_COUNT",
        ),
        *("GPU_DRIVER", "GPU_ECC", "GPU_FABRIC", "GPU_PCIE_REPLAY", "GPU_ROWS", "GPU_SETTING", "GPU_STATE"),
        *(
            "HCA_COUNT",
            "IOMMU",
            "KERNEL_ARGUMENT",
            "MODULE",
            "MODULE_PARAMETER",
            "NUMA_COUNT",
            "NUMA_NODE",
            "XID",
        ),
        *("PCI_ACS", "PCI_ATS", "PCI_DEVICE", "PCI_DISTANCE", "PCI_LINK", "PCI_PAYLOAD", "PCI_READ_REQUEST"),
        *("PORT_GID", "PORT_PKEY", "PORT_RATE", "PORT_STATE"),
    }
)
"""Codes of weft-check's checks."""
MOST_RESULTS = 1000
MOST_PARTS = 256
LONGEST = 1000
"""Characters of a text; weft-check itself cuts at 500."""
MOST_LEFT_OUT = 20
"""Members left out that an answer names."""
DIGEST = r"^sha256:[0-9a-f]{64}$"
_Text = Annotated[str, Field(max_length=LONGEST)]
_Short = Annotated[str, Field(max_length=200)]


class CheckedHost(Document):
    """The machine, as it names itself; null: it couldn't be read."""

    hostname: _Short | None = None
    machine_id: _Short | None = None
    boot_id: _Short | None = None
    kernel: _Short | None = None
    product: _Short | None = None
    product_uuid: _Short | None = None
    serial: _Short | None = None
    bios: _Short | None = None


class CheckResult(Document):
    """One check of one part of the machine."""

    code: str = Field(pattern=CODE)
    subject: str = Field(min_length=1, max_length=200, description="The part, such as a PCI address.")
    status: CheckStatus
    reason: _Text = ""
    source: _Text = Field(default="", description="The file or command that was read.")
    found: _Text | None = None
    expected: _Text | None = None
    cost: _Text | None = Field(default=None, description="What it costs; of what failed or is unknown.")
    mend: _Text | None = Field(default=None, description="How to mend it.")
    nothing_expected: bool | None = Field(
        default=None,
        exclude=True,  # only the report itself is judged by it
        description="Of what is skipped: whether that is because no value is expected; null: older programs don't say.",
    )


class CheckedPart(Document):
    """A part of the machine with a number of its own."""

    kind: str = Field(pattern=r"^[a-z]{1,20}$", description="gpu, adapter, or other, such as cable.")
    serial: str = Field(min_length=1, max_length=100, description="Serial number, UUID or GUID.")
    place: _Short = Field(description="Where it is: a PCI address, or an adapter's name.")
    model: _Short = ""
    firmware: _Short = Field(default="", description="Version of its firmware; empty: it isn't known.")


class CheckDocument(Document):
    """The results of one run."""

    version: Literal[1]
    program: _Short
    when: datetime = Field(description="By the machine's own clock.")
    host: CheckedHost
    expected: str | None = Field(
        default=None, pattern=DIGEST, description="Digest of the expected values; null: there were none."
    )
    status: CheckStatus = Field(description="Of the whole, as the program says; weft uses the results.")
    results: tuple[CheckResult, ...] = Field(max_length=MOST_RESULTS)
    parts: tuple[CheckedPart, ...] = Field(
        default=(), max_length=MOST_PARTS, description="Parts with serial numbers."
    )

    @field_validator("version", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        return str(value) if isinstance(value, bool) else value  # true equals 1

    @field_validator("when")
    @classmethod
    def _in_utc(cls, value: datetime) -> datetime:
        """Without a time zone it is UTC, as weft-check writes it."""
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)

    @property
    def overall(self) -> CheckStatus:
        """Failed if one failed, else unknown if one is unknown, or nothing was judged; else ok."""
        there = {one.status for one in self.results}
        if "failed" in there:
            return "failed"
        return "ok" if "ok" in there and "unknown" not in there else "unknown"


class KnownMachine(Document):
    """What is known of a node's machine: the last report, and what earlier ones had that it couldn't read."""

    host: CheckedHost
    parts: tuple[CheckedPart, ...] = Field(default=(), max_length=MOST_PARTS)


def next_known(before: KnownMachine | None, after: CheckDocument) -> KnownMachine:
    """What is known after a report: of the same machine together with what was known before."""
    if before is None or is_other_machine(before.host, after.host):
        return KnownMachine(host=after.host, parts=after.parts)
    read = {name: value for name, value in after.host.model_dump().items() if value}
    old = {(p.kind, p.serial): p for p in before.parts}
    parts = {(p.kind, p.serial): p for p in after.parts}
    for key, part in parts.items():
        if not part.firmware and key in old:
            parts[key] = part.model_copy(update={"firmware": old[key].firmware})
    kept = (*parts.values(), *(part for key, part in old.items() if key not in parts))
    return KnownMachine(host=before.host.model_copy(update=read), parts=kept[:MOST_PARTS])


def is_other_machine(before: CheckedHost, after: CheckedHost) -> bool:
    """Whether a serial number or UUID that both have differs."""
    pairs = ((before.serial, after.serial), (before.product_uuid, after.product_uuid))
    return any(a and b and a.lower() != b.lower() for a, b in pairs)


def new_firmware(before: CheckDocument | KnownMachine, after: CheckDocument) -> list[str]:
    """Parts of the same machine, or its BIOS, that have another version of firmware than before, by their places."""
    known = {(p.kind, p.serial): p.firmware for p in before.parts}
    changed = [
        p.place
        for p in after.parts
        if p.firmware and known.get((p.kind, p.serial), "") not in ("", p.firmware)
    ]
    old, new = before.host.bios, after.host.bios
    return [*(("BIOS",) if old and new and old != new else ()), *changed]


def known_members(given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The members of a document that this version knows, in printable text, and names of the others (some, then how
    many)."""
    left_out: list[str] = []
    known = _known(given, CheckDocument, "", left_out)
    if isinstance(host := known.get("host"), dict):
        known["host"] = _known(cast(dict[str, object], host), CheckedHost, "host.", left_out)
    if isinstance(results := known.get("results"), list):
        known["results"] = [
            _known(cast(dict[str, object], one), CheckResult, f"results[{index}].", left_out)
            if isinstance(one, dict)
            else one
            for index, one in enumerate(cast(list[object], results)[: MOST_RESULTS + 1])
        ]
    if isinstance(parts := known.get("parts"), list):
        known["parts"] = [
            _known(cast(dict[str, object], one), CheckedPart, f"parts[{index}].", left_out)
            if isinstance(one, dict)
            else one
            for index, one in enumerate(cast(list[object], parts)[: MOST_PARTS + 1])
        ]
    more = len(left_out) - MOST_LEFT_OUT
    return known, left_out[:MOST_LEFT_OUT] + ([f"{more} more"] if more > 0 else [])


def _known(
    given: Mapping[str, object], model: type[Document], path: str, left_out: list[str]
) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in given.items():
        if name in model.model_fields:
            found[name] = printable(value) if isinstance(value, str) else value
        else:
            left_out.append(path + printable(name)[:60])
    return found


def printable(text: str) -> str:
    """Text without control characters, lone surrogates and marks that change the direction of writing."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


Judged = Literal["open", "real", "mistake"]


class CheckProblem(Document):
    """A check that failed, or couldn't be judged."""

    code: str
    subject: str
    status: Literal["failed", "unknown"]
    since: datetime
    reason: str = ""
    judged: Judged = added(
        "open",
        description="What an operator says of it: real: it counts at once, however many nodes have it; mistake: it "
        "keeps nothing from orders, and nothing is replaced because of it, until a result judges it otherwise, or is "
        "compared with another expected value.",
    )

    @property
    def key(self) -> tuple[str, str]:
        """Code and subject of the check."""
        return self.code, self.subject


def problems_of(document: CheckDocument, now: datetime) -> dict[tuple[str, str], CheckProblem]:
    """Failed and unknown checks by code and subject, all since `now`; the worst of several about the same."""
    found: dict[tuple[str, str], CheckProblem] = {}
    for one in document.results:
        if one.status not in ("failed", "unknown"):
            continue
        known = found.get((one.code, one.subject))
        if known is None or (known.status == "unknown" and one.status == "failed"):
            found[one.code, one.subject] = CheckProblem(
                code=one.code, subject=one.subject, status=one.status, since=now, reason=one.reason
            )
    return found


class ComparedWith(NamedTuple):
    """What a node's results were compared with.

    Attributes:
        digest: of all expected values; None: there were none.
        values: code and subject -> what was expected of it, where a result says so.
    """

    digest: str | None
    values: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, digest: str | None, results: Iterable[Mapping[str, Any]]) -> Self:
        """What these results were compared with. Args: results: as documents have them."""
        return cls(digest, {(r["code"], r["subject"]): r["expected"] for r in results if r.get("expected")})

    def differs(self, other: ComparedWith, key: tuple[str, str]) -> bool:
        """Whether `other` expected something else of a code and subject; where either doesn't say, whether any of their
        expected values differ."""
        mine, its = self.values.get(key), other.values.get(key)
        return mine != its if mine and its else self.digest != other.digest


def next_problems(
    document: CheckDocument,
    before: Mapping[tuple[str, str], CheckProblem],
    now: datetime,
    current: bool,
    was: ComparedWith | None = None,
) -> dict[tuple[str, str], CheckProblem]:
    """The problems after a document, each with the time since when it lasts. A failed check stays failed until it was
    judged again.

    Args:
        current: whether it was checked against the values that are expected now; otherwise it ends no failure.
        was: what the last document was compared with. If a failure was judged a mistake, and the expected value has
            changed since, it counts as a new one.
    """
    found = problems_of(document, now)
    compared = ComparedWith.of(document.expected, (one.model_dump() for one in document.results))
    for key, last in before.items():
        is_over = last.judged == "mistake" and was is not None and was.differs(compared, key)
        old = last.model_copy(update={"since": now, "judged": "open"}) if is_over else last
        new = found.get(key)
        if new is not None and new.status == old.status:
            found[key] = new.model_copy(update={"since": old.since, "judged": old.judged})
        elif old.status == "failed" and not (current and _ended(old, document)):
            found[key] = old
    return _ranked(found)


def _ranked(problems: Mapping[tuple[str, str], CheckProblem]) -> dict[tuple[str, str], CheckProblem]:
    """The most important problems first, and no more of them than a document has."""
    ranked = sorted(problems.values(), key=lambda one: (one.status != "failed", one.since, one.key))
    return {one.key: one for one in ranked[:MOST_RESULTS]}


def with_late(
    before: Mapping[tuple[str, str], CheckProblem], late: CheckDocument, newest: CheckDocument, now: datetime
) -> dict[tuple[str, str], CheckProblem]:
    """The problems after a document that was made before the newest one: it ends nothing, and what failed in it counts
    unless the newest one has judged it since."""
    failed = {key: one for key, one in problems_of(late, now).items() if one.status == "failed"}
    kept = {key for key, one in before.items() if one.status == "failed"}
    more = {key: one for key, one in failed.items() if key not in kept and not _ended(one, newest)}
    return _ranked({**before, **more})


def _ended(problem: CheckProblem, document: CheckDocument) -> bool:
    """Whether a document ends a failure: it has results of the same part (or, without any, of the same check on other
    parts), none of them is unknown, and one at least is judged."""
    about = [one for one in document.results if one.code == problem.code]
    judged = [one for one in about if one.subject == problem.subject] or about
    return all(one.status != "unknown" for one in judged) and any(_is_judged(one) for one in judged)


def _is_judged(one: CheckResult) -> bool:
    """Whether a result judges a part that had failed: it is ok or failed, or was skipped because no value is expected
    any more. Other reasons to skip, such as GPUs that are given to guests, judge nothing."""
    return one.status in ("ok", "failed") or (one.status == "skipped" and one.nothing_expected is True)


def row_values(problems: Mapping[tuple[str, str], CheckProblem]) -> list[dict[str, Any]]:
    """The problems as JSON objects, as the database stores them."""
    return [one.model_dump(mode="json") for one in problems.values()]

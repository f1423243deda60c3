"""weft's parser of partitions.conf against the real program: each generated file is given to both."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from tests.drivers.opensm.rigs import RealRig, host_ports
from tests.helpers.amounts import examples, seeded
from tests.helpers.waiting import wait_for
from weft.generate.partitions_conf import PartitionsConf, parse
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER

pytestmark = pytest.mark.fabric
OPEN = DEFAULT_PKEY | FULL_MEMBER
STRICTER = (
    "has no P_Key",
    "more than 16 bits",
    "carriage return",
    "OpenSM misreads",
    "longer than",
    "crashes",
)
"""Fatal findings of lines that OpenSM may accept, choosing a key or using what an earlier line left in its buffer."""


class Real:
    """The first manager, which gets one file after the other."""

    def __init__(self, rig: RealRig) -> None:
        self.ports = host_ports(rig.site)
        self._rig, self._log = rig, rig.faults.partitions_file("sm1").with_name("opensm.log")
        self._driver = rig.another_driver()
        manager = self._driver.status().managers[0]
        assert manager.name == "sm1"
        [own] = [h.port_guid for n in rig.site.nodes if n.name == "sm1" for h in n.hcas]
        self.manager = own

    def read(self, text: str) -> tuple[bool, dict[int, frozenset[int]]]:
        """Whether it accepts the file, and each host port's table then."""
        start = self._log.stat().st_size
        self._rig.edit("sm1", text)
        self._rig.hup("sm1")
        said = ""

        def swept() -> bool:
            nonlocal said
            with self._log.open("rb") as log:
                log.seek(start)
                said = log.read().decode(errors="replace")
            return "SUBNET UP" in said

        wait_for(swept, f"a sweep with {text!r}", pause=0.005)
        read: dict[int, frozenset[int]] = {}

        def answered() -> bool:
            tables = self._driver.tables()
            read.update({guid: table.keys for guid, table in tables.items()})
            return not any(table.unreachable for table in tables.values())

        wait_for(answered, "every port answers", pause=0.05)
        return "retrying with default config" not in said, read


@pytest.fixture(scope="module")
def opensm(running: RealRig) -> Iterator[Real]:
    running.clean()
    yield Real(running)
    running.clean()


def compare(opensm: Real, text: str) -> PartitionsConf:
    """Both parse a file alike, or weft refuses what depends on OpenSM's own memory."""
    conf = parse(text, "lab")
    if any("crashes" in finding.text for finding in conf.fatal):
        return conf
    accepted, tables = opensm.read(text)
    if conf.fatal:
        stricter = any(word in finding.text for finding in conf.fatal for word in STRICTER)
        assert stricter or not accepted, f"OpenSM accepts {text!r}: {conf.fatal}"
        return conf
    assert accepted, f"OpenSM rejects {text!r}: {conf.problems}"
    assert tables == conf.expected(tables, [opensm.manager]), f"parsed differently: {text!r}"
    return conf


DEFAULT = "Default=0x7fff : ALL=limited, SELF=full;\n"


@pytest.mark.parametrize(
    ("text", "fatal"),
    [
        ("p=0x10 : 0xA=full\n;\n", True),
        ("p=0x10 : 0xA=full\n  ; # the end\n", True),
        ("p=0x10 : 0xA=full\n;", True),
        ("p=0x10 :\n0xA=full,\n0xB=full;\n", False),
        ("p=0x10 : mgid=ff12:401b::0707;\n", True),
        ("p=0x10 : mgid=ff12:401b::0707,sl=1;\nq=0x11 : 0xA=full;\n", False),
        ("p=0x10,ipoib :\n  mgid=ff12:401b::0707 # a group\n  0xA=full;\n", False),
        ("p=0x10 : mgid=fe80::1;0xA\n", True),
        ("p=0x10 : mgid=fe80::1;\n", False),
        ("p=0x10 : mgid=fe80::1,sl=1;\n", True),
        ("p=0x10 : mgid=fe80::1,sl=1\n0xA=full;\n", False),
        ("p=0x10, defm=full : 0xA;\n", False),
        ("p=0x10, d=f : 0xA;\n", False),
        ("p=0x10, defmember : 0xA;\n", False),
        ("p=0x10, defmember= : 0xA;\n", False),
        ("p=0x10, defmember=full, defmember=none : 0xA;\n", False),
        ("p=0x10, defmember=both : 0xA, 0xB=l;\n", False),
        ("p=0x10 : 0xA=, 0xB=fu;\n", False),
        ("p=0x10 : A=full, S=limited;\n", False),
        ("p=0x10 : ALL_=full;\n", False),
        ("p=0x10 : ALL_SW=full, N, 0xA=full;\n", False),
        ("p=020 : 0xA=full;\n", False),
        ("p=-1 : 0xA=full;\n", True),
        ("p=-32752 : 0xA=full;\n", True),
        ("0x10 : 0xA=full;\n", False),
        ("0x8010 : 0xA=full;\n", False),
        ("p=0x10 : 0xA=full;\np : 0xB=full;\n", True),
        ("p=0x10 : 0xA=full;\nq=0x10 : 0xB=full;\nq : 0xB=full;\n", True),
        ("Default : 0xB=full;\n", False),
        ("Default=0x10 : 0xA=full;\nDefault : 0xB=full;\n", True),
        ("p=0x10 : 08;\n", True),
        ("p=0x10 : 0x0;\n", True),
        ("p=0x10 : +0xA=full;\n", False),
        ("p=0x10 : 0xA=full; q=0x11 : 0xA=limited;\n", False),
        ("p=0x10 : 0xA=full;; q=0x11 : 0xA;\n", True),
        ("p=0x10 : 0xA=full=limited;\n", False),
        ("p==0x10 : 0xA=full;\n", True),
        ("p=0x10 : 0xA=full : 0xB;\n", False),
        ("p=0x10 : 0xA :;\n", True),
        ("p=0x10 : 0xA=full\nq=0x11 : 0xB=full;\n", True),
        ("p=0x10 : 0xA=full # ; \n, 0xB;\n", False),
        ("p=0x10\n : 0xA=full;\n", True),
        ("p=0x10 : 0xA=full;\r\n", True),
        ("# a comment\r\np=0x10 : 0xA=full;\n", False),
        ("p=0x10 : 99999999999999999999999, 0xA=full;\n", False),
    ],
)
def test_file_is_parsed_as_by_opensm(opensm: Real, text: str, fatal: bool) -> None:
    """One construct each, after a correct definition of the default partition."""
    a, b = (f"0x{g:x}" for g in opensm.ports[:2])
    conf = compare(opensm, DEFAULT + text.replace("0xA", a).replace("0xB", b))
    assert bool(conf.fatal) is fatal, conf.problems


def test_generated_files_are_parsed_as_by_opensm(opensm: Real) -> None:
    """Valid files in every notation, and files with an error."""
    read = 0
    files = examples(80)
    for number in range(files):
        read += not compare(opensm, generated(seeded(number), opensm.ports)).fatal
    assert read >= files // 4, f"only {read} of {files} were valid"


def generated(chance: random.Random, ports: list[int]) -> str:
    """A partition file: mostly usual parts, sometimes an odd one."""
    strange = chance.choice([0.0, 0.0, 0.02, 0.1])

    def some(usual: list[str], odd: list[str]) -> str:
        return chance.choice(odd if chance.random() < strange else usual)

    def gap() -> str:
        return some(["", "", " ", "  ", "\t"], ["\r", " \n", "#", "\n# a comment ; : \n", "\v", "\n\n"])

    def member() -> str:
        guid = chance.choice(ports)
        who = some(
            [f"0x{guid:x}", f"0x{guid:016x}", str(guid), f"0{guid:o}", "0x2c90300aaaa"],
            ["ALL", "ALL_CAS", "A", "AL", "ALL_S", "SELF", "S", "NONE", "N", "", "0", "0xg", "x", "-1", "mgid", "ALLX",
             "mgid=ff12::1", "mgid=ff12:401b::1,sl=1", "mgid=1", "mgid=fe80::1,sl=2"],
        )  # fmt: skip
        how = some(
            ["", "=full", "=limited", "=both"], ["=", "=f", "=l", "=lim", "=b", "=F", "=none", "==", "= full"]
        )
        return f"{gap()}{who}{how}{gap()}"

    def flag() -> str:
        usual = ["ipoib", "defmember=full", "defmember=limited", "sl=0", "rate=3", "mtu=4"]
        odd = [
            "",
            "d=full",
            "defm=f",
            "def=",
            "defmember",
            "defmember=x",
            "i",
            "s=1",
            "scope=2",
            "Q=1",
            "m",
            "x=1",
            "=",
        ]
        return f"{gap()}{some(usual, odd)}{gap()}"

    lines = [DEFAULT if chance.random() < 0.8 else ""]
    for _ in range(chance.randint(1, 4)):
        key = chance.randint(1, 9)
        name = some(["p", "q", "storage", "p2"], ["", "Default", "9", "x" * 40, "p q"])
        keyed = some(
            [f"={key}", f"=0x{key:x}", f"=0x80{key:02x}", f" = 0{key:o}"],
            ["", "=", "=x", "=0x", "=0", "=70000"],
        )
        header = ",".join([f"{gap()}{name}{keyed}{gap()}", *(flag() for _ in range(chance.randint(0, 2)))])
        between = chance.choice([",", ",\n", ", ", ",\n  "])
        members = between.join(member() for _ in range(chance.randint(1, 4)))
        lines.append(f"{header}{some([':'], ['', ' ', '::', ';'])}{members}")
        lines.append(
            some([";\n", " ;\n", "; "], ["\n;\n", ";;\n", "\n", "", ";#;\n", ",;\n", "\n  ; # end\n"])
        )
    return "".join(lines)


def test_generator_is_deterministic_for_a_seed() -> None:
    """So that a failure can be repeated."""
    make: Callable[[], str] = lambda: generated(random.Random(7), [0x2C90300300001])  # noqa: E731
    assert make() == make()

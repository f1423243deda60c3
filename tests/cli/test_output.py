"""Lists and records in the output formats of `openstack`, and the short view of a pod."""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
from typing import Any

import pytest
import yaml
from cliff.formatters.commaseparated import CSVLister
from cliff.formatters.json_format import JSONFormatter
from cliff.formatters.shell import ShellFormatter
from cliff.formatters.table import TableFormatter

from tests.helpers.desk import Desk
from tests.helpers.paths import EXAMPLES
from weft.app.offline import plan_file
from weft.app.orderfile import load_order
from weft.cli.follow import QUIET, READY, PlainProgress
from weft.cli.main import build_parser, main
from weft.cli.output import Listing, Record, write
from weft.cli.podexample import KINDS, text
from weft.cli.podrecord import record
from weft.generate.login import login
from weft.model.plan import Plan

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x"


def _options(parser: argparse.ArgumentParser) -> dict[str, tuple[str, Any]]:
    """Option -> destination and default, for each option of a formatter."""
    skipped = ("--help", "--variable")
    found = {a.option_strings[-1]: (a.dest, a.default) for a in parser._actions if a.option_strings}
    return {name: what for name, what in found.items() if name not in skipped}


@pytest.mark.parametrize(
    ("command", "formatters"),
    [
        ("list", (TableFormatter, JSONFormatter, CSVLister)),
        ("show", (TableFormatter, JSONFormatter, ShellFormatter)),
    ],
)
def test_format_options_are_those_of_cliff(command: str, formatters: tuple[Any, ...]) -> None:
    """Names, destinations and defaults, for every formatter."""
    theirs = argparse.ArgumentParser()
    for formatter in formatters:
        formatter().add_argument_group(theirs)
    ours = argparse.ArgumentParser()
    from weft.cli import output

    sub = ours.add_subparsers()
    parser = output.listed(sub, "x", Any, "x") if command == "list" else output.shown(sub, "x", Any, "x")
    assert _options(theirs).items() <= _options(parser).items()


ROWS = [
    {"id": "2", "name": "b", "project_id": None, "nodes": ["n1", "n2"], "at": "2027-01-01T10:00:00Z"},
    {"id": "1", "name": "a\x1b[31m\nx", "project_id": "p", "nodes": [], "at": "2027-01-01T11:00:00Z"},
]


def _written(capsys: pytest.CaptureFixture[str], found: Listing | Record, *words: str) -> str:
    command = "list" if isinstance(found, Listing) else "show"
    given = ["pod", command, *words, *(["x"] if command == "show" else [])]
    write(found, build_parser(given).parse_args(given))
    return capsys.readouterr().out


def test_list_is_written_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Headings are like those of `openstack`; text from outside can neither steer the terminal nor begin a new
    line."""
    found = Listing(("id", "name", "project_id", "nodes", "at"), ROWS)
    shown = _written(capsys, found)
    assert (
        "| ID | Name" in shown and "| Project ID |" in shown and "| n1, n2 | 2027-01-01 10:00:00Z |" in shown
    )
    assert "\x1b" not in shown and "| 1  | a\ufffd[31m x |" in shown
    assert _written(capsys, found, "-f", "value", "-c", "name", "-c", "ID") == "2 b\n1 a\ufffd[31m x\n"
    as_json = json.loads(_written(capsys, found, "-f", "json"))
    assert as_json[1]["Name"] == ROWS[1]["name"] and as_json[0]["Nodes"] == ["n1", "n2"]
    assert yaml.safe_load(_written(capsys, found, "-f", "yaml")) == as_json
    as_csv = list(csv.reader(io.StringIO(_written(capsys, found, "-f", "csv"))))
    assert (as_csv[0][2], as_csv[1][3]) == ("Project ID", "['n1', 'n2']")
    assert json.loads(_written(capsys, found, "--json")) == ROWS
    assert _written(capsys, Listing(("id",), []), "--print-empty").count("| ID |") == 1


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", " =1", "'=1"])
def test_formula_in_csv_is_text_for_spreadsheets(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Names of projects and users, and remarks, are written by others."""
    found = Listing(("name", "remark", "free"), [{"name": text, "remark": "-", "free": -3}])
    cells = [*csv.reader(io.StringIO(_written(capsys, found, "-f", "csv")))][1]
    assert cells == [f"'{text}", "-", "-3"]
    assert _written(capsys, found, "-f", "value", "-c", "name") == f"{text}\n"


def test_list_is_sorted_by_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """By the first column first; missing values come last, as with cliff."""
    found = Listing(("id", "name", "project_id"), ROWS)
    names = ("-f", "value", "-c", "id")
    assert _written(capsys, found, *names, "--sort-column", "ID") == "1\n2\n"
    assert _written(capsys, found, *names, "--sort-column", "Project ID") == "1\n2\n"
    assert _written(capsys, found, *names, "--sort-column", "id", "--sort-descending") == "2\n1\n"


def test_tables_round_numbers_and_other_formats_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    long = 0.1 + 0.2
    found = Listing(("id", "gbps", "all"), [{"id": 12345678, "gbps": long, "all": [long, 1e-7 / 3]}])
    shown = _written(capsys, found)
    assert "12345678" in shown and "| 0.3 |" in " ".join(shown.split()) and "0.3, 3.33333e-08" in shown
    assert str(long) in _written(capsys, found, "-f", "value", "-c", "gbps")
    assert json.loads(_written(capsys, found, "-f", "json"))[0]["Gbps"] == long


def test_record_is_written_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables omit empty fields and have details below; other formats have them as fields."""
    details = {"events": Listing(("sequence", "message"), [{"sequence": 1, "message": "PLACED", "more": 2}])}
    found = Record({"id": "1", "reason": "", "nodes": 2}, {"raw": True}, details)
    shown = _written(capsys, found)
    assert "reason" not in shown and "Events:\n+" in shown and "| PLACED  |" in shown
    as_json = json.loads(_written(capsys, found, "-f", "json"))
    assert as_json["reason"] == "" and as_json["events"] == [{"sequence": 1, "message": "PLACED"}]
    assert yaml.safe_load(_written(capsys, found, "-f", "yaml")) == as_json
    assert _written(capsys, found, "-f", "shell", "--prefix", "pod_", "-c", "nodes") == 'pod_nodes="2"\n'
    assert _written(capsys, found, "-f", "value", "-c", "id") == "1\n"
    assert json.loads(_written(capsys, found, "--json")) == {"raw": True}


def test_unknown_column_and_two_formats_are_refused(desk: Desk) -> None:
    """Exit code 2; the error names the columns."""
    for option in ("-c", "--sort-column"):
        wrong = desk.weft("pod", "list", option, "colour")
        assert wrong.code == 2 and "'colour' is not allowed: one of id, name, state" in wrong.err, wrong.err
    assert desk.weft("pod", "list", "-f", "json", "--json").code == 2
    assert desk.weft("pod", "list", "-f", "xml").code == 2


def test_only_the_wanted_formatter_is_imported() -> None:
    """For help none; never cliff's commands, whose scan of entry points takes longer than weft's start."""
    code = (
        "import sys\nfrom weft.cli.main import main, build_parser\nfrom weft.cli.output import Listing, write\n"
        "main(['pod', 'list', '--help'])\nassert 'cliff' not in sys.modules\n"
        "words = ['pod', 'list', '-f', 'value']\nwrite(Listing(('id',), []), build_parser(words).parse_args(words))\n"
        "print([m for m in sys.modules if m.startswith(('cliff.formatters.', 'cliff.lister', 'stevedore'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['cliff.formatters.base', 'cliff.formatters.value']"


def test_pod_is_created_shown_extended_and_deleted(desk: Desk) -> None:
    """A READY pod fits 25 lines of 80 columns; resources and events on demand; all data with --format."""
    lease = {"end": "2027-01-31T18:00:00Z"}
    made = desk.weft(
        "pod", "create", "-f", desk.pod_file(access={"ssh_key": KEY}, lease=lease), "--format", "json"
    )
    assert made.code == 0 and made.json["state"] == "PLACED"
    desk.house.finish("train")
    assert (
        desk.weft("pod", "list", "-f", "value", "-c", "ID", "-c", "name").out == f"{made.json['id']} train\n"
    )
    lines = desk.weft("pod", "show", "train").out.splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 80 and any("gpu01, gpu02" in line for line in lines)
    more = desk.weft("pod", "show", "train", "--resources", "--events").out
    assert "Servers:" in more and "Resources:" in more and "Events:" in more and "BOOTING" in more
    later = desk.weft("pod", "extend", "train", "--by", "4h", "--format", "value", "-c", "lease_end")
    assert later.out == "2027-01-31T22:00:00Z\n", later.err
    for by in ("4", "0h", "9999999d"):
        assert desk.weft("pod", "extend", "train", "--by", by).code == 2
    assert desk.weft("pod", "extend", "train", "--by", "4h", "--until", "2027-01-31T18:00Z").code == 2
    assert "is being released" in desk.weft("pod", "delete", "train").out


def test_lease_without_an_end_cannot_be_extended_by_a_duration(desk: Desk) -> None:
    desk.weft("pod", "create", "-f", desk.pod_file())
    refused = desk.weft("pod", "extend", "train", "--by", "4h")
    assert refused.code == 2 and "has no end to count from" in refused.err


@pytest.mark.parametrize("kind", KINDS)
def test_example_can_be_ordered(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every printed example is a pod file for which an example site has room."""
    assert main(["pod", "example", kind]) == 0
    printed = capsys.readouterr().out
    assert printed == text(kind)
    site = EXAMPLES / "sites" / ("ipupod64" if kind == "ipu" else "small") / "site.yaml"
    assert isinstance(plan_file(load_order(printed, "<example>"), site), Plan)


def test_wait_into_a_pipe_prints_what_it_waits_for() -> None:
    """Every 15 s without an event, it names the resources in progress."""
    now = [0.0]
    lines: list[str] = []
    progress = PlainProgress(lines.append, READY, lambda: now[0])
    rows = [
        {"kind": "server", "name": "s1", "state": "pending", "reason": "BUILD"},
        {"kind": "server", "name": "s2", "state": "settled", "reason": ""},
        {"kind": "port", "name": "p1", "state": "settled", "reason": ""},
    ]
    pod: dict[str, Any] = {"state": "BOOTING", "reason": "servers boot", "resources": rows}
    event = {"type": "state", "message": "BOOTING"}
    assert progress.longest_wait == QUIET
    for at, events in ((1.0, [event]), (14.0, []), (16.5, []), (20.0, []), (32.0, [])):
        now[0] = at
        progress.show(pod, events)
    said = "waiting   BOOTING: servers boot (server 1/2 s1 pending (BUILD))"
    assert lines == ["    1.0s  state     BOOTING", f"   16.5s  {said}", f"   32.0s  {said}"]


SERVERS = [
    {"name": "train-0", "node": "gpu01", "management_address": "10.0.0.5", "floating_ip": None},
    {
        "name": "train-1",
        "node": "gpu02",
        "management_address": "10.0.0.6",
        "floating_ip": "203.0.113.7",
    },
]


def _pod(**more: Any) -> dict[str, Any]:
    order = {"nodes": {"image": "ubuntu-24.04"}, "access": {"key_pair": "k"}}
    return {
        "name": "train",
        "id": "i",
        "state": "READY",
        "reason": "",
        "order": order,
        "servers": SERVERS,
        **more,
    }


def test_login_is_to_the_servers_own_address_or_through_a_public_one() -> None:
    assert login(_pod()).command == "ssh ubuntu@203.0.113.7"
    assert login(_pod(), "gpu01").command == "ssh -J ubuntu@203.0.113.7 ubuntu@10.0.0.5"
    inside = _pod(servers=SERVERS[:1])
    assert (login(inside).command, login(inside).note) == (
        "ssh ubuntu@10.0.0.5",
        "from inside: it has no floating IP",
    )
    keyless = _pod(order={"nodes": {"image": "cirros"}, "access": {}})
    assert login(keyless).note == "no SSH key in the order (access.key_pair, access.ssh_key)"
    assert record(_pod(servers=[])).fields["ssh"] == ""


@pytest.mark.parametrize(
    ("image", "user"),
    [
        ("ubuntu-24.04", "ubuntu"),
        ("Debian 12", "debian"),
        ("Rocky-9-GenericCloud", "rocky"),
        ("openSUSE-Leap-15.6", "opensuse"),
        ("CentOS-Stream-GenericCloud-9-20240930.0", "cloud-user"),
        ("centos-stream-10", "cloud-user"),
        ("CentOS-7-x86_64-GenericCloud", "centos"),
        ("CentOS-Stream-GenericCloud-8", "centos"),
        ("rhel-9.4", "cloud-user"),
        ("my-image", ""),
    ],
)
def test_login_user_is_that_of_the_images_distribution(image: str, user: str) -> None:
    assert login(_pod(order={"nodes": {"image": image}, "access": {}})).user == user


def test_many_nodes_are_shortened_to_a_line() -> None:
    placed = [{"node": f"node{n:04}"} for n in range(100)]
    shown = record(_pod(placed=placed)).fields["placed_on"]
    assert shown.startswith("node0000, node0001") and shown.endswith(" and 97 more") and len(shown) <= 50


def test_codes_of_messages_are_in_json_and_where_they_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Not in a table, where they would only need room."""
    rows = [{"name": "train", "reason": "in the queue", "code": "IN_QUEUE", "params": {}}]
    found = Listing(("name", "reason"), rows, more=("code", "params"))
    assert "IN_QUEUE" not in _written(capsys, found) and "Code" not in _written(capsys, found)
    assert _written(capsys, found, "-f", "value", "-c", "name", "-c", "code") == "train IN_QUEUE\n"
    assert _written(capsys, found, "-f", "value") == "train in the queue\n"
    (row,) = json.loads(_written(capsys, found, "-f", "json"))
    assert (row["Code"], row["Params"]) == ("IN_QUEUE", {})
    shown = Record({"id": 1}, {}, {"events": found})
    (event,) = json.loads(_written(capsys, shown, "-f", "json"))["events"]
    assert event["code"] == "IN_QUEUE"

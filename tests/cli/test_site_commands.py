"""`weft site …`, and planning without a server, as users type the commands."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.paths import EXAMPLES, SMALL
from tests.helpers.sitefolder import Folder
from weft.app.sitefile import load_site
from weft.cli import site as site_commands
from weft.cli.main import main
from weft.cli.plan_offline import plan_offline
from weft.model.errors import InputErrors
from weft.model.plan import Plan
from weft.model.site import Site

PODS = EXAMPLES / "pods"


class Api:
    """The client of an API with a site."""

    def __init__(self) -> None:
        self.document: Mapping[str, Any] | None = None
        self.base: int | None = None
        self.site = self

    def activate(self, document: Mapping[str, Any], base: int, parts: Mapping[str, bytes]) -> dict[str, Any]:
        assert not parts
        self.document, self.base = document, base
        return self.show()

    def generation(self) -> int:
        return 7

    def whole(self) -> dict[str, Any]:
        return self.show()

    def show(self) -> dict[str, Any]:
        manager = {"name": "sm1", "state": "master", "problems": []}
        return {
            "name": "small",
            "generation": 7,
            "activated_at": "2026-11-21T05:00:00.123456Z",
            "activated_by": "operator",
            "nodes": 18,
            "switches": 6,
            "links": 130,
            "document": {},
            "fabrics": [{"fabric": "ib", "managers": [manager], "problems": ["the managers' files differ"]}],
        }


def run(api: Api, *words: str) -> int:
    """Exit code of a `site` command with this API, which a plugin would provide."""
    parser = argparse.ArgumentParser()
    site_commands.add_commands(parser.add_subparsers())
    args = parser.parse_args(["site", *words])
    args.client = api
    return args.run(args)


def test_valid_file_is_reported_with_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, and one line with counts."""
    assert main(["site", "check", str(SMALL / "site.yaml")]) == 0
    assert capsys.readouterr().out == (
        "site small: the file is valid: nodes 18, compute nodes 16, adapters 66, accelerators 128, switches 6, "
        "links 130, racks 5, fabrics 1, clouds 1\n"
    )


def test_invalid_file_is_exit_code_2_with_one_line_per_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two mistakes in two files: two lines on stderr, nothing on stdout, no traceback."""
    folder = Folder(tmp_path)
    folder.replace("switches.csv", "leaf02,ib,leaf,40", "leaf02,ib,leaf,x")
    folder.replace("site.yaml", "segments: {first: 0x65", "segments: {first: 0x0")
    assert main(["site", "check", str(folder.site)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"weft: {folder.site}:28: fabrics.ib.segments.first: 0 is not allowed: 1 or more",
        f"weft: {folder.path}/switches.csv:3: switches[1].ports: 'x' is not allowed: a whole number",
    ]


def test_partial_discovery_does_not_pass_as_no_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 with the discovery's messages, and no missing hardware; without the message it would be missing."""
    message = "src/query_smp.c:197; umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110; Connection timed out"
    leaf = next(s for s in load_site(SMALL / "site.yaml").switches if s.guid is not None)
    seen = f'Switch\t64 "S-{leaf.guid:016x}"\t\t# "{leaf.name}" enhanced port 0 lid 1 lmc 0\n'
    (tmp_path / "whole.txt").write_text(seen)
    (tmp_path / "partial.txt").write_text(f"{message}\n{seen}")
    check = ["site", "check", str(SMALL / "site.yaml"), "--fabric"]
    assert main([*check, str(tmp_path / "partial.txt")]) == 1
    out = capsys.readouterr().out
    assert (
        "fabric: no differences in what a partial discovery shows\n" in out
        and f"  partial: {message};" in out
    )
    assert main([*check, str(tmp_path / "partial.txt"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["partial"] == [message]
    assert main([*check, str(tmp_path / "whole.txt")]) == 1
    assert "missing node" in capsys.readouterr().out


def test_hints_are_notes_not_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node without adapters is mentioned, with exit code 0; also in JSON."""
    folder = Folder(tmp_path)
    folder.append("nodes.csv", "gpu99,rack1,compute")
    assert main(["site", "check", str(folder.site)]) == 0
    assert "note: 1 compute nodes have no adapters" in capsys.readouterr().out
    assert main(["site", "check", str(folder.site), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["counts"]["compute nodes"] == 17
    assert len(document["notes"]) == 1


def test_activate_sends_the_whole_checked_site(capsys: pytest.CaptureFixture[str]) -> None:
    """Includes are read locally: the API gets one document of the same site."""
    api = Api()
    assert run(api, "activate", str(SMALL / "site.yaml")) == 0
    assert capsys.readouterr().out == "site small is active, generation 7\n"
    assert api.document is not None
    assert Site.model_validate(json.loads(json.dumps(api.document))) == load_site(SMALL / "site.yaml")


def test_invalid_file_is_not_sent(tmp_path: Path) -> None:
    """Its errors are reported, and no request is sent."""
    folder, api = Folder(tmp_path), Api()
    folder.replace("nodes.csv", "gpu07,rack2", "gpu07,rack9")
    with pytest.raises(InputErrors):
        run(api, "activate", str(folder.site))
    assert api.document is None


def test_show_lists_fabric_managers(capsys: pytest.CaptureFixture[str]) -> None:
    """Who activated the site and when, and problems of its fabrics."""
    assert run(Api(), "show") == 0
    out = capsys.readouterr().out
    assert "| activated_at | 2026-11-21 05:00:00Z |" in out
    assert "| ib     | sm1  | master" in out
    assert "| ib     | the managers' files differ |" in out
    assert run(Api(), "show", "-f", "json", "-c", "activated_at", "-c", "problems") == 0
    assert json.loads(capsys.readouterr().out) == {
        "activated_at": "2026-11-21T05:00:00.123456Z",
        "problems": [{"fabric": "ib", "problem": "the managers' files differ"}],
    }
    assert run(Api(), "show", "--json") == 0
    assert json.loads(capsys.readouterr().out)["generation"] == 7


def test_plan_works_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """As text, and as JSON that is a plan; exit code 0."""
    assert plan_offline(PODS / "02-training.yaml", SMALL / "site.yaml") == 0
    out = capsys.readouterr().out
    assert out.startswith("Plan of pod training (project offline) on site small. Nothing was changed.\n")
    assert "0x65 on fabric ib, 16 full members" in out
    assert plan_offline(PODS / "02-training.yaml", SMALL / "site.yaml", as_json=True) == 0
    plan = Plan.model_validate_json(capsys.readouterr().out)
    assert [n.node for n in plan.placement.nodes] == ["gpu01", "gpu02", "gpu03", "gpu04"]


def stdin(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body), "utf-8"))


def test_order_from_standard_input_is_planned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `-f -`; errors there are located at `<stdin>`."""
    text = (PODS / "01-smallest.yaml").read_text()
    command = ["pod", "plan", "-f", "-", "--offline", "--site", str(SMALL / "site.yaml")]
    stdin(monkeypatch, text.encode())
    assert main(command) == 0
    assert "Plan of pod first" in capsys.readouterr().out
    stdin(monkeypatch, text.replace("count: 1", "count: 0").encode())
    assert main(command) == 2
    assert "weft: <stdin>:4: nodes.count: '0' is not allowed: 1 or more" in capsys.readouterr().err
    stdin(monkeypatch, b"name: \xff\n")
    assert main(command) == 2
    assert "weft: file: '<stdin>' is not allowed: must be UTF-8; byte 6 is not" in capsys.readouterr().err


def test_plan_without_a_server_explains_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, with the reason from OpenSM's capabilities and what to do."""
    assert plan_offline(PODS / "05-shared.yaml", SMALL / "site.yaml") == 1
    out = capsys.readouterr().out
    assert "OpenSM has no virtual ports" in out
    assert "fabric.hcas: dedicated" in out
    assert plan_offline(PODS / "05-shared.yaml", SMALL / "site.yaml", as_json=True) == 1
    assert "OpenSM has no virtual ports" in json.loads(capsys.readouterr().out)["reason"]


def test_invalid_files_are_reported_without_a_server(tmp_path: Path) -> None:
    """Errors of the order and of the site file have the same form."""
    bad = tmp_path / "pod.yaml"
    bad.write_text("name: p\n")
    with pytest.raises(InputErrors, match=r"pod.yaml:1: nodes: missing"):
        plan_offline(bad, SMALL / "site.yaml")
    with pytest.raises(InputErrors, match="an existing file"):
        plan_offline(PODS / "01-smallest.yaml", tmp_path / "none.yaml")


LISTS = EXAMPLES / "hardware"


def test_import_makes_a_site_that_check_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the example's list and head; counts as text and JSON, and the files written."""
    out = tmp_path / "site"
    words = ["site", "import", str(LISTS / "ipupod64.csv"), "--site", str(LISTS / "ipupod64.yaml")]
    assert main([*words, "--output", str(out)]) == 0
    first, *files = capsys.readouterr().out.splitlines()
    assert first == (
        "site ipupod64: the lists are valid: interfaces 11, devices 3, ipu_machines 16, nodes 6, racks 1"
    )
    assert [Path(f).name for f in files] == [
        "site.yaml",
        "racks.csv",
        "nodes.csv",
        "ipu_machines.csv",
        "devices.csv",
        "interfaces.csv",
    ]
    assert main(["site", "check", str(out / "site.yaml")]) == 0
    counts = capsys.readouterr().out.splitlines()[0]
    assert counts.endswith("clouds 1, IPU-Machines 16, networks 2, devices 3, interfaces 11")
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"]["ipu_machines"] == 16 and document["files"] == []


def test_import_refuses_a_broken_list_in_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, a line for each error with file, line and column, and no directory."""
    text = (LISTS / "ipupod64.csv").read_text()
    (tmp_path / "list.csv").write_text(
        text.replace("00c0.b775.0001", "70-69-79-20-14-02").replace(",10.3.1.1,", ",10.3.0.1,")
    )
    words = ["site", "import", str(tmp_path / "list.csv"), "--site", str(LISTS / "ipupod64.yaml")]
    assert main([*words, "--output", str(tmp_path / "site")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.splitlines() == [
        f"weft: {tmp_path}/list.csv:3: Mgmt IP: '10.3.0.1' is not allowed: another address: it is the gateway of "
        "subnet infrastructure",
        f"weft: {tmp_path}/list.csv:5: Mgmt MAC: '70:69:79:20:14:02' is not allowed: a MAC address must be unique; "
        "lr75-ipum1 (bmc_mac) already has it",
    ]
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("given", ["rack", "=rack", "Feet=rack,Feet=name"])
def test_import_explains_an_invalid_column_option(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is THEIRS=OURS, and each of theirs only once."""
    words = ["site", "import", str(LISTS / "ipupod64.csv"), "--site", str(LISTS / "ipupod64.yaml")]
    for one in given.split(","):
        words += ["--column", one]
    assert main(words) == 2
    assert "--column:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--redfish-ca", "x.pem"], "--redfish-ca: 'x.pem' is not allowed: only with --redfish"),
        (
            ["--redfish"],
            "REDFISH_USER: missing: the user of the BMCs is in REDFISH_USER and REDFISH_PASSWORD",
        ),
        (["--netbox-site", "dc1"], "--netbox-site: 'dc1' is not allowed: only with --netbox"),
        (["--netbox", "https://netbox.example.com"], "NETBOX_TOKEN: missing: a token of NetBox"),
        (["--kind", "x"], "--kind: 'x' is not allowed: THEIRS=OURS"),
    ],
)
def test_import_names_missing_options(
    words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any request."""
    for name in ("REDFISH_USER", "REDFISH_PASSWORD", "NETBOX_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    lists = [str(LISTS / "ipupod64.csv"), "--site", str(LISTS / "ipupod64.yaml")]
    assert main(["site", "import", *lists, *words]) == 2
    assert expected in capsys.readouterr().err


def test_import_without_a_source_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "import", "--site", str(LISTS / "ipupod64.yaml")]) == 2
    assert "LIST: missing: a list of hardware, or --netbox" in capsys.readouterr().err

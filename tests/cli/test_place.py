"""`weft place` and `weft site design`, which need no server."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from weft.cli.main import main

ORDERS = "pod,submitted,duration,count,required\na,0,1h,8,leaf\nb,10,1h,30,site\nc,20,30m,4,leaf\n"


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert (
        main(["site", "design", "--servers", "40", "--radix", "16", "--output", str(tmp_path / "site")]) == 0
    )
    assert "40 servers on 16-port switches" in capsys.readouterr().out
    (tmp_path / "orders.csv").write_text(ORDERS)
    return tmp_path


def test_designed_site_is_valid_and_every_policy_places_a_trace_on_it(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two commands, without any file to begin with."""
    assert main(["site", "check", str(site / "site" / "site.yaml")]) == 0
    command = ["place", "--site", str(site / "site" / "site.yaml"), "--orders", str(site / "orders.csv")]
    capsys.readouterr()
    assert main([*command, "--compare", "first-fit,best-fit,weft", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [o["policy"] for o in outcomes] == ["first-fit", "best-fit", "weft"]
    assert all(o["orders"] == 3 and o["refused"] == 0 for o in outcomes)
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["weft", "3", "0"]


def test_design_does_not_overwrite_existing_files(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files are named and stay as they are."""
    before = (site / "site" / "site.yaml").read_text()
    assert main(["site", "design", "--servers", "4", "--output", str(site / "site")]) == 2
    assert "existing files are kept" in capsys.readouterr().err
    assert (site / "site" / "site.yaml").read_text() == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["site", "design", "--servers", "0"], "servers: 0 is not allowed: 1 or more"),
        (["site", "design", "--servers", "99999"], "at most 16000"),
        (["place", "--topology", "nowhere.csv", "--orders", "o.csv"], "'nowhere.csv' is not allowed"),
        (
            ["place", "--topology", "T", "--orders", "O", "--compare", "magic"],
            "--compare: 'magic' is not allowed",
        ),
        (["place", "--topology", "T", "--orders", "O", "--columns", "ip"], "--columns: 'ip' is not allowed"),
        (["place", "--topology", "T", "--orders", "O", "--load", "0"], "--load: 0.0 is not allowed"),
        (["place", "--topology", "T", "--orders", "O", "--required", "hall"], "one of node, leaf"),
        (["place", "--topology", "T", "--orders", "O", "--cloud", "c1"], "--cloud: 'c1' is not allowed"),
        (
            ["place", "--topology", "T", "--orders", "O", "--warm-up", "1h"],
            "--warm-up: '1h' is not allowed: less than the 20 s",
        ),
        (["place", "--topology", "T", "--orders", "O", "--compare", "weft,weft"], "each once"),
        (
            ["place", "--topology", "T", "--orders", "O", "--patience", "soon"],
            "--patience: 'soon' is not allowed",
        ),
        (["place", "--topology", "T", "--orders", "O", "--bookings", "-1"], "--bookings: -1 is not allowed"),
        (
            ["place", "--topology", "T", "--orders", "O", "--hall-weight", "-1"],
            "--hall-weight: -1.0 is not allowed: 0 to 1000",
        ),
        (
            ["place", "--topology", "T", "--orders", "O", "--block-weight", "nan"],
            "--block-weight: nan is not allowed",
        ),
    ],
)
def test_impossible_values_give_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    """Exit code 2 with field, value and what is allowed."""
    (tmp_path / "T").write_text("ip,ASW,PSW\nh1,s1,p1\n")
    (tmp_path / "O").write_text(ORDERS)
    given = [str(tmp_path / w) if w in ("T", "O") else w for w in words]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""


def test_orders_larger_than_the_site_are_counted_as_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace of a larger site can still be simulated."""
    (tmp_path / "T").write_text("ip,ASW,PSW\nh1,s1,p1\nh2,s1,p1\n")
    (tmp_path / "O").write_text(ORDERS)
    words = ["place", "--topology", str(tmp_path / "T"), "--orders", str(tmp_path / "O"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)[0]["refused"] == 3


def test_orders_of_other_projects_do_not_use_a_reserved_leaf(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An order that could only start there is counted as refused."""
    folder = site / "site"
    command = ["place", "--site", str(folder / "site.yaml"), "--orders", str(site / "orders.csv"), "--json"]
    rows = (folder / "switches.csv").read_text().splitlines()
    head, leaves = rows[0].split(","), [r.split(",")[0] for r in rows if ",leaf," in r]
    trace = ["pod,submitted,duration,count,project", "all,0,1h,40,a", "one,1,1h,1,b"]
    (site / "orders.csv").write_text("\n".join([*trace, ""]))
    refused: list[int] = []
    for owner in ("", "a", "c"):
        owned = [
            f"{r}{',' * (len(head) - len(r.split(',')))},{owner if r.split(',')[0] == leaves[0] else ''}"
            for r in rows
        ]
        owned[0] = ",".join([*head, "project"])
        (folder / "switches.csv").write_text("\n".join(owned) + "\n")
        capsys.readouterr()
        assert main(command) == 0
        refused.append(json.loads(capsys.readouterr().out)[0]["refused"])
    assert refused == [0, 0, 1]


def test_options_override_settings_of_the_site(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The site's weight and patience apply without options; options can restore the defaults."""
    folder, chance = site / "site", random.Random(1)
    switches = (folder / "switches.csv").read_text()
    for number in range(1, 6):
        pod = "a" if number < 4 else "b"
        switches = switches.replace(f"leaf{number},ib0,leaf,16,", f"leaf{number},ib0,leaf,16,{pod}")
    (folder / "switches.csv").write_text(switches)
    trace = [f"o{i},{i}h,{chance.randint(1, 9)}h,{chance.randint(1, 14)}" for i in range(200)]
    (site / "orders.csv").write_text("\n".join(["pod,submitted,duration,count", *trace, ""]))
    file = folder / "site.yaml"
    command = ["place", "--site", str(file), "--orders", str(site / "orders.csv"), "--json"]
    capsys.readouterr()

    def played(*options: str) -> dict[str, object]:
        assert main([*command, *options]) == 0
        return json.loads(capsys.readouterr().out)[0]

    plain, heavy, patient = played(), played("--block-weight", "100"), played("--patience", "6h")
    assert plain != heavy and plain != patient
    text = file.read_text()
    file.write_text(text + "placement: {block: 100}\n")
    assert (played(), played("--block-weight", "0.5")) == (heavy, plain)
    file.write_text(text + "queue: {patience: 6h}\n")
    assert (played(), played("--patience", "0")) == (patient, plain)


def test_invalid_weight_is_reported_with_its_line(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Like every error in a site file."""
    file = site / "site" / "site.yaml"
    with file.open("a") as text:
        text.write("placement: {block: -1, rack: 3}\n")
    capsys.readouterr()
    assert main(["site", "check", str(file)]) == 2
    said = capsys.readouterr().err
    assert "placement.block" in said and "placement.rack" in said and "site.yaml:" in said

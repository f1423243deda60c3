"""The file with a server's own location, which cloud-init writes if the order asks for it."""

from __future__ import annotations

import email
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.smallsite import order, small_site
from tests.helpers.topologies import with_nvlink
from tests.planning.shapes.test_change import changed, made
from weft.model.errors import InputError
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.model.specs import ServerSpec
from weft.planning.shapes.localityfile import PATH
from weft.planning.shapes.numbers import renumbered

ASKED: dict[str, Any] = {"locality": {"file": True}}


def user_data(plan: Plan) -> dict[str, str | None]:
    """The user data of each server, by name."""
    return {r.name: r.spec.user_data for r in plan.graph.resources if isinstance(r.spec, ServerSpec)}


def content(text: str | None) -> str:
    """What cloud-init writes to the file."""
    assert text is not None
    first, _, config = text.rpartition("#cloud-config\n")
    if first:
        config = config.partition("\n--")[0]
    (file,) = json.loads(config)["write_files"]
    assert file["path"] == PATH and file["permissions"] == "0644"
    return file["content"]


def sourced(text: str, folder: Path) -> dict[str, str]:
    """The variables of a shell that sources the file."""
    path = folder / "locality.env"
    path.write_text(text)
    shown = f"set -eu; . {path}; set | grep '^WEFT_'"
    done = subprocess.run(
        ["sh", "-c", shown],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
        env={"PATH": "/bin:/usr/bin"},
    )
    pairs = (line.split("=", 1) for line in done.stdout.splitlines())
    return {name: value.strip("'") for name, value in pairs}


def test_servers_have_no_file_unless_it_is_ordered() -> None:
    """Off by default; the tenant's user data is unchanged."""
    assert set(user_data(made(order(2))).values()) == {None}


def test_each_server_has_its_own_location(tmp_path: Path) -> None:
    """What `weft pod topology` says about it, in a syntax that a shell and systemd read."""
    site = with_nvlink(small_site(), {n.name: "rack0" for n in small_site().nodes if n.role == "compute"})
    plan = made(order(2, **ASKED), site=site)
    leaves = [n.leaf for n in plan.placement.nodes]
    files = user_data(plan)
    assert list(files) == ["p-0", "p-1"]
    for number, (name, text) in enumerate(sorted(files.items())):
        found = sourced(content(text), tmp_path)
        labels = f"fabric.topograph.run/tier-0={leaves[number]},fabric.topograph.run/tier-1=ib"
        assert found == {
            "WEFT_POD": "p",
            "WEFT_SERVER": name,
            "WEFT_NUMBER": str(number),
            "WEFT_FABRIC": "ib",
            "WEFT_FABRIC_TYPE": "infiniband",
            "WEFT_SWITCHES": f"ib,{leaves[number]}",
            "WEFT_NODE_LABELS": f"{labels},accelerator.topograph.run/domain=rack0",
            "WEFT_NVLINK_DOMAIN": "rack0",
            "WEFT_PKEY": f"0x{(plan.segment or 0) | 0x8000:04x}",
        }
        assert "# left out: the index of the P_Key" in content(text)


def test_file_of_a_pod_without_rdma_network_has_neither_switch_nor_pkey(tmp_path: Path) -> None:
    plan = made(order(1, fabric="none", **ASKED))
    (text,) = user_data(plan).values()
    assert sourced(content(text), tmp_path).keys() == {"WEFT_POD", "WEFT_SERVER", "WEFT_NUMBER"}


@pytest.mark.parametrize("own", ["#!/bin/sh\ntrue\n", "#cloud-config\npackages: [jq]\n"])
def test_tenants_user_data_comes_first(own: str) -> None:
    """Both are parts of one MIME archive; the file adds to the tenant's own `write_files`."""
    (text,) = user_data(made(order(1, access={"user_data": own}, **ASKED))).values()
    message = email.message_from_string(text or "")
    first, second = (part for part in message.walk() if not part.is_multipart())
    assert first.get_payload().rstrip() == own.rstrip()
    assert second.get_content_type() == "text/cloud-config" and "list(append)" in second["X-Merge-Type"]
    assert "WEFT_SERVER=p-0\\n" in second.get_payload()


def test_too_long_user_data_is_refused_with_what_is_left() -> None:
    """Nova's limit is for both together; one byte less fits."""
    with pytest.raises(InputError) as refused:
        made(order(1, access={"user_data": "#!/bin/sh\n" + "#" * 49_000}, **ASKED))
    assert refused.value.field == "access.user_data"
    most = int(str(refused.value).split("at most ")[1].split()[0])
    assert most > 47_000
    made(order(1, access={"user_data": "#!/bin/sh\n" + "#" * (most - 10)}, **ASKED))
    with pytest.raises(InputError):
        made(order(1, access={"user_data": "#!/bin/sh\n" + "#" * (most - 9)}, **ASKED))


def test_file_stays_with_its_server_when_the_pod_changes() -> None:
    """Servers that stay keep theirs, since cloud-init doesn't write it again; a new server has its own."""
    plan = made(order(1, **ASKED))
    more = changed(plan, order(2, **ASKED))
    assert user_data(more)["p-0"] == user_data(plan)["p-0"]
    assert "WEFT_SERVER=p-1\n" in content(user_data(more)["p-1"])
    asked = changed(made(order(1)), order(1, **ASKED)).change
    assert asked is not None and [i.field for i in asked.impossible] == ["locality.file"]


def test_pkey_in_the_file_follows_a_number_that_was_taken() -> None:
    """Before any server exists the segment may get another number; the file has that one."""
    site: Site = small_site()
    plan = made(order(1, **ASKED))
    other = renumbered(plan, "network/rdma", site, UsedNumbers())
    assert other is not None and other.segment != plan.segment
    assert f"WEFT_PKEY=0x{(other.segment or 0) | 0x8000:04x}\n" in content(user_data(other)["p-0"])

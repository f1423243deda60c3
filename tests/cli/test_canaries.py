"""A canary in each secret that weft is given: it appears in no output, log or export, and in no process's
arguments."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

import weft.model.site
from tests.helpers import forks
from tests.helpers.desk import Desk
from tests.helpers.doors import ORDER
from tests.helpers.paths import ROOT
from tests.helpers.rdg import changed, deployment, with_everything
from weft.model.logtext import formatter
from weft.planning.export.formats import FORMATS

pytestmark = pytest.mark.landing

CANARY = "canary7"
VARIABLES = {
    "NETBOX_TOKEN",
    "OS_PASSWORD",
    "REDFISH_PASSWORD",
    "WEFT_DATABASE",
    "WEFT_SWITCH_PASSWORD",
    "WEFT_UFM_PASSWORD",
    "WEFT_UFM_TOKEN",
}
"""Environment variables with secrets."""
_SETTINGS = f"""\
[weft]
database = "postgresql://weft:{CANARY}-file@127.0.0.1:1/weft"
cloud_profile = "weft"
[serve]
listen = "127.0.0.1:0"
[logs]
level = "DEBUG"
format = "json"
[fabric_agent]
name = "sm1"
m_key = "{CANARY}"
hca = {{m_key = "{CANARY}"}}
"""
_OTHERS = {"NETBOX_URL", "REDFISH_USER", "WEFT_UFM_USERNAME", "WEFT_SWITCH_USER"}
_SECRET_NAME = re.compile(r"\b(?:WEFT|NETBOX|REDFISH|OS)_[A-Z_]*(?:PASSWORD|TOKEN|SECRET|DATABASE)\b")


def environment(folder: Path) -> dict[str, str]:
    """Variables of a process, with a canary in each secret, and a clouds.yaml with canaries."""
    auth = {"auth_url": f"http://weft:{CANARY}@127.0.0.1:1/v3", "username": "weft", "project_name": "service"}
    cloud = {"auth": {**auth, "password": f"{CANARY}-cloud"}, "region_name": "one"}
    (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"weft": cloud}}))
    known = {k: v for k, v in os.environ.items() if not k.startswith(("OS_", "WEFT_", "NETBOX", "REDFISH"))}
    planted = {name: f"{CANARY}-{name.lower()}" for name in VARIABLES}
    database = f"postgresql://weft:{CANARY}-database@127.0.0.1:1/weft"
    return {
        **known,
        **planted,
        **dict.fromkeys(_OTHERS, "someone"),
        "WEFT_DATABASE": database,
        "OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml"),
        "HOME": str(folder),
    }


def said_by(folder: Path, *words: str) -> str:
    """All output of a `weft` process, whatever its exit code; asserts that there is no traceback."""
    out, err = folder / "said.out", folder / "said.err"
    code = forks.run("weft", words, environment(folder), folder, out, err, timeout=120)
    assert code is not None and "Traceback" not in err.read_text(), err.read_text()
    return out.read_text() + err.read_text()


def url_fields() -> Iterator[tuple[str, TypeAdapter[Any]]]:
    """Fields for URLs in the site's models, each with its validator."""
    for kind in (one for one in vars(weft.model.site).values() if isinstance(one, type)):
        for name, field in kind.model_fields.items() if issubclass(kind, BaseModel) else ():
            if "://" in f"{field.annotation} {field.metadata}" or name.endswith("url"):
                yield (
                    f"{kind.__name__}.{name}",
                    TypeAdapter(Annotated[field.annotation, field, *field.metadata]),
                )


def test_variables_with_secrets_are_all_listed() -> None:
    """A new secret must be added here."""
    texts = [p.read_text() for p in (ROOT / "src/weft").rglob("*.py")]
    assert {name for text in texts for name in _SECRET_NAME.findall(text)} | {"OS_PASSWORD"} == VARIABLES


def test_urls_of_a_site_have_no_credentials() -> None:
    """A site is stored, shown to operators, and exported."""
    fields = dict(url_fields())
    assert {
        "SwitchAccess.url",
        "FabricAgent.url",
        "Deployment.weft_url",
        "FabricManager.addresses",
    } <= fields.keys()
    for name, reader in fields.items():
        for scheme in ("https", "http", "ssh", "ldaps"):
            url = f"{scheme}://weft:{CANARY}@host.example"
            with pytest.raises(ValidationError):
                reader.validate_python([url] if "tuple" in str(reader) else url)
                raise AssertionError(name)


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--cloud-profile", "weft", "--listen", "127.0.0.1:0", "--log-level", "DEBUG"],
        ["serve", "--config", "SETTINGS", "--log-format", "json"],
        ["worker", "--cloud-profile", "weft", "--log-level", "DEBUG"],
        ["worker", "--config", "SETTINGS"],
        ["config", "check", "--file", "SETTINGS"],
        ["config", "show", "--file", "SETTINGS"],
        ["doctor", "--config", "SETTINGS", "--timeout", "5", "-f", "json"],
        ["fabric-agent", "--config", "SETTINGS"],
        ["--os-cloud", "weft", "pod", "list"],
        ["--os-cloud", "weft", "--json", "pod", "list"],
        ["site", "import", "--netbox", "https://127.0.0.1:1", "--site", "SITE"],
        ["site", "import", "--netbox", f"https://weft:{CANARY}@127.0.0.1:1", "--site", "SITE"],
        ["site", "check", "SITE"],
        ["site", "check", "WRONG"],
        ["--endpoint", f"http://weft:{CANARY}@127.0.0.1:1", "--os-cloud", "weft", "pod", "list"],
    ],
    ids=lambda words: " ".join(w for w in words if not w.startswith("-"))[:40],
)
def test_failing_commands_print_no_secret(tmp_path: Path, words: list[str]) -> None:
    """Each ends in an error, since nothing listens on port 1; logs are at DEBUG."""
    document = changed(with_everything).model_dump(mode="json")
    for name, url in (("SITE", "https://weft.example"), ("WRONG", f"https://weft:{CANARY}@weft.example")):
        deployment(document)["weft_url"] = url
        (tmp_path / name).write_text(json.dumps(document))
    (tmp_path / "SETTINGS").write_text(_SETTINGS)
    (tmp_path / "SETTINGS").chmod(0o600)
    (tmp_path / "SETTINGS.toml").symlink_to("SETTINGS")
    said = said_by(tmp_path, *(f"{word}.toml" if word == "SETTINGS" else word for word in words))
    assert said and CANARY not in said, said


def test_exports_have_no_secret(tmp_path: Path) -> None:
    """Nor those of the exporting process: secrets of the tools are references to variables."""
    site = tmp_path / "site.json"
    site.write_text(changed(with_everything).model_dump_json())
    for tool in FORMATS:
        said = said_by(tmp_path, "site", "export", str(site), "--format", tool, "--output", tool)
        written = [p.read_text() for p in (tmp_path / tool).rglob("*") if p.is_file()]
        assert CANARY not in said and written, said
        assert not [text for text in written if CANARY in text]


def test_orders_plans_and_refusals_contain_no_secret(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """With the fake cloud and logs at DEBUG: no password anywhere, user data in no log and no error. For logs
    of libraries see `tests/drivers/openstack/test_log_secrets.py`."""
    caplog.set_level(logging.DEBUG, logger="weft")
    caplog.handler.setFormatter(formatter("json", ""))
    for name, (_, caller) in list(desk.keystone.users.items()):
        desk.keystone.users[name] = (f"{CANARY}-{name}", caller)
        desk.clouds[name]["auth"]["password"] = f"{CANARY}-{name}"
    wrong = {**desk.clouds["a-member"]["auth"], "password": f"{CANARY}-wrong"}
    desk.clouds["wrong"] = {**desk.clouds["a-member"], "auth": wrong}
    desk.write_clouds()
    data = f"#cloud-config\npassword: {CANARY}-data\n"
    file = desk.pod_file(access={**ORDER.get("access", {}), "user_data": data})
    large = desk.pod_file("large", nodes={**ORDER["nodes"], "count": 500}, access={"user_data": data})
    odd = desk.pod_file("odd", nodes={**ORDER["nodes"], "flavor": "none"}, access={"user_data": data})
    runs = [desk.weft("pod", "plan", "-f", file)]
    with desk.house.working():
        runs += [desk.weft("pod", "create", "-f", file, "--wait"), desk.weft("pod", "show", "train")]
    assert [run.code for run in runs] == [0, 0, 0]
    refused = [desk.weft("pod", "create", "-f", f) for f in (file, large, odd)]
    refused += [desk.weft("pod", "list", cloud="wrong"), desk.weft("pod", "show", "train", cloud="b-member")]
    refused += [desk.weft("site", verb) for verb in ("plan", "apply", "destroy")]
    assert all(run.code for run in refused)
    operators = [
        desk.weft(*words, cloud="operator") for words in (("audit",), ("site", "plan"), ("site", "apply"))
    ]
    for run in (*runs, *refused, *operators):
        assert f"{CANARY}-" not in run.out.replace(f"{CANARY}-data", "") + run.err
    assert all(CANARY not in run.out for run in (*refused, *operators))
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    assert len(lines) == len(caplog.records) and CANARY not in caplog.text

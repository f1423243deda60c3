"""A UFM on the host and port of a cloud's dashboard is found before either is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.smallsite import small_site
from weft.app.portclash import clash_notes
from weft.model.site import FabricManager, Site

CLOUDS = """\
clouds:
  north:
    auth: {auth_url: "http://controller.example:5000/v3", username: weft, password: x, project_name: service}
"""

Write = Callable[[str], None]


@pytest.fixture
def clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes clouds.yaml; here `controller.example` and `ufm.example` are both 192.0.2.5."""
    path = tmp_path / "clouds.yaml"
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(path))

    def known(host: str, port: object) -> list[object]:
        if host in ("controller.example", "ufm.example", "192.0.2.5"):
            return [(2, 1, 6, "", ("192.0.2.5", 0))]
        raise OSError("no such name")

    monkeypatch.setattr("weft.app.portclash.socket.getaddrinfo", known)
    path.write_text(CLOUDS)
    return lambda text: path.write_text(text) and None


def site(*addresses: str, profile: str | None = "north") -> Site:
    small = small_site()
    (name, fabric), (cloud, row) = next(iter(small.fabrics.items())), next(iter(small.clouds.items()))
    manager = FabricManager(driver="ufm", addresses=addresses)
    return small.model_copy(
        update={
            "fabrics": {name: fabric.model_copy(update={"manager": manager})},
            "clouds": {cloud: row.model_copy(update={"profile": profile})},
        }
    )


@pytest.mark.parametrize(
    "address", ["https://controller.example", "https://UFM.example", "https://192.0.2.5:443"]
)
def test_ufm_on_the_clouds_address_is_reported(clouds: Write, address: str) -> None:
    """By its name, another name of the same address, or the address."""
    [note] = clash_notes(site(address))
    assert address in note and "http://controller.example:5000/v3" in note and "80 and 443" in note


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example", "https://controller.example:8443", "https://192.0.2.6"]
)
def test_ufm_on_another_host_or_port_is_accepted(clouds: Write, address: str) -> None:
    assert clash_notes(site(address)) == ()


@pytest.mark.parametrize("text", ["", "clouds: {}", "clouds: [", "clouds: {north: {}}", "clouds: 7"])
def test_unusable_clouds_yaml_is_not_a_port_clash(clouds: Write, text: str) -> None:
    clouds(text)
    assert clash_notes(site("https://controller.example")) == ()


def test_missing_profile_is_not_a_port_clash(clouds: Write) -> None:
    assert clash_notes(site("https://controller.example", profile="other")) == ()


def test_two_fabrics_with_one_ufm_are_reported(clouds: Write) -> None:
    one = site("https://ufm2.example", "https://ufm3.example")
    ((name, fabric),) = one.fabrics.items()
    [note] = clash_notes(one.model_copy(update={"fabrics": {name: fabric, "other": fabric}}))[:1]
    assert name in note and "other" in note and "https://ufm2.example" in note

"""The service user's profile in clouds.yaml: what is missing is reported at the start, by field."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.drivers.openstack.session import Sessions
from weft.model.errors import InputError

PROFILE = """
clouds:
  weft:
    auth:
      auth_url: http://127.0.0.1:9/v3
      username: weft
      password: secret
      project_name: service
      user_domain_id: default
      project_domain_id: default
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("      password: secret\n", "", "auth.password"),
        ("password: secret", "password:", "auth.password"),
        ("http://", "", "auth_url"),
        ("password: secret", "password: 0012", r"clouds\.weft\.auth\.password"),
    ],
)
def test_unusable_profile_is_reported_by_field(tmp_path: Path, old: str, new: str, field: str) -> None:
    """Not as an error of a worker's first request."""
    (tmp_path / "clouds.yaml").write_text(PROFILE.replace(old, new))
    with pytest.raises(InputError, match=rf"{field}: "):
        Sessions("weft", [tmp_path / "clouds.yaml"])


def test_complete_profile_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "clouds.yaml").write_text(PROFILE)
    assert Sessions("weft", [tmp_path / "clouds.yaml"]).account == ("weft", "service")

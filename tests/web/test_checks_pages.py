"""Operators' pages for checks that nodes report: tokens for reporting, and parts by serial number."""

from __future__ import annotations

import re

import pytest

from tests.api.test_part_history import GPU, PCI
from tests.helpers.consoles import Browser, Console, hidden
from tests.helpers.hostchecks import document, result
from tests.web.test_site_pages import OLGA
from weft.model.errors import UnauthenticatedError

TOKENS = "/ui/site/check-tokens"


def test_token_is_created_shown_once_and_revoked(pods_console: Console, browser: Browser) -> None:
    """Like `weft node check-token`; a node can report with it until it is revoked."""
    service = pods_console.house.service
    browser.sign_in("olga")
    assert "There is none." in browser.get(TOKENS).text
    browser.get(f"{TOKENS}/new?node=gpu01")
    assert 'value="gpu01"' in browser.page.text
    made = browser.post(f"{TOKENS}/new", {"node": "gpu01", "until": "2027-06-01T00:00Z"}).text
    secret = re.search(r'<code id="secret">([^<]+)</code>', made)
    assert secret and "2027-06-01" in made
    one = service.checks.tokens(OLGA)[0]
    assert (one.node, one.made_by, one.expires_at.year) == ("gpu01", "olga", 2027)
    assert service.checks.reporter(secret[1], "gpu01", "192.0.2.1", "req-1", "weft-check").node == "gpu01"
    listed = browser.get(TOKENS).text
    assert secret[1] not in listed and one.id in listed and "olga" in listed
    assert one.id in browser.get(f"{TOKENS}?node=gpu01").text
    assert one.id not in browser.get(f"{TOKENS}?node=gpu02").text
    browser.get(f"{TOKENS}/{one.id}/revoke")
    assert "Node gpu01 can't report its checks with this token any more." in browser.text
    form = hidden(browser)
    assert browser.post(f"{TOKENS}/{one.id}/revoke", form).status_code == 200
    assert service.checks.tokens(OLGA) == []
    with pytest.raises(UnauthenticatedError):
        service.checks.reporter(secret[1], "gpu01", "192.0.2.1", "req-1", "weft-check")
    assert browser.post(f"{TOKENS}/{one.id}/revoke", form).status_code == 404


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"node": "", "until": ""}, 400, "node"),
        ({"node": "no-such-node", "until": ""}, 404, "no-such-node"),
        ({"node": "gpu01", "until": "soon"}, 400, "until"),
        ({"node": "gpu01", "until": "2020-01-01T00:00Z"}, 400, "in the future"),
        ({"node": "gpu01", "until": "2040-01-01T00:00Z"}, 400, "at most in three years"),
    ],
)
def test_invalid_token_form_is_refused_with_its_input(
    pods_console: Console, browser: Browser, given: dict[str, str], status: int, said: str
) -> None:
    browser.sign_in("olga")
    browser.get(f"{TOKENS}/new")
    answer = browser.post(f"{TOKENS}/new", given)
    assert answer.status_code == status and said in browser.text
    assert f'name="node" maxlength="255" autocomplete="off" value="{given["node"]}"' in answer.text
    assert pods_console.house.service.checks.tokens(OLGA) == []


def test_part_is_found_by_its_serial_number(pods_console: Console, browser: Browser) -> None:
    """On its own page and by the search, wherever it was."""
    house = pods_console.house
    for node in ("gpu01", "gpu02"):
        token = house.service.checks.make_token(house.operator, node).token
        reporter = house.service.checks.reporter(token, node, "192.0.2.1", "req-1", "weft-check")
        parts = [{"kind": "gpu", "serial": GPU, "place": PCI, "model": "H100", "newer": 1}]
        host = {"hostname": node, "serial": None, "product_uuid": None}
        house.service.checks.report(reporter, document(result("XID", PCI, "failed"), parts=parts, host=host))
    browser.sign_in("olga")
    browser.get(f"/ui/site/parts?serial={GPU}")
    assert f"gpu {GPU}" in browser.text and "gpu01" in browser.text and "gpu02" in browser.text
    assert "XID" in browser.text
    found = browser.get(f"/ui/search?q={GPU}").text
    assert f'href="/ui/site/parts?serial={GPU}"' in found and "Nothing has exactly this value" not in found
    assert browser.get("/ui/site/parts").status_code == 200
    assert browser.get("/ui/site/parts?serial=nix").status_code == 404
    assert "No node has reported a part" in browser.text


def test_pages_of_checks_are_for_operators(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("alice")
    for path in (TOKENS, f"{TOKENS}/new", "/ui/site/parts", f"/ui/site/parts?serial={GPU}"):
        assert browser.get(path).status_code == 403, path
    for node in ("gpu01", "no-such-node", ""):
        assert browser.post(f"{TOKENS}/new", {"node": node, "until": ""}).status_code == 403, node
    assert "/site/parts" not in browser.get(f"/ui/search?q={GPU}").text

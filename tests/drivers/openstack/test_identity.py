"""Who a token belongs to, by Keystone, and a user's key pair, with stand-ins for Keystone and Nova."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from weft.app import redact
from weft.app.metrics import AccountCollector
from weft.app.policy import Policy
from weft.drivers.openstack import KeystoneIdentity, OpenStackFacts, Sessions
from weft.drivers.openstack.account import account_problems
from weft.drivers.openstack.lookups import Lookups
from weft.model.errors import InputError, UnauthenticatedError, UnknownError
from weft.ports.cloud import AccessRule
from weft.testing.callers import caller, tokens
from weft.testing.keystone import FakeIdentity, FakeKeystone
from weft.testing.serving import served

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG"


class FakeNova:
    """Serves key pairs of each user, and Glance's images; records its requests byte by byte."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.images: list[dict[str, str]] = []
        self.next_images: list[dict[str, str]] = []
        self.instead = ""

    def app(self) -> FastAPI:
        app = FastAPI()
        app.add_api_route("/{rest:path}", self._answer, methods=["GET"])
        return app

    def _answer(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode()
        query = request.scope["query_string"].decode()
        self.asked.append(f"{path}?{query}")
        if path == "/images" and self.next_images:
            first = "marker" not in request.query_params
            more = {"next": f"/v2/images?{query}&marker=m"} if first else {}
            return JSONResponse({"images": self.images if first else self.next_images, **more})
        if path.startswith("/images"):
            one = {"status": "active", "id": path.rpartition("/")[2]}
            return JSONResponse({"images": self.images} if path == "/images" else one)
        user = request.query_params.getlist("user_id")[-1]
        name = unquote(path.rpartition("/")[2])
        row = {"name": name, "user_id": self.instead or user, "type": "ssh", "public_key": KEY}
        return JSONResponse({"keypair": row})


@pytest.fixture
def nova() -> FakeNova:
    return FakeNova()


@pytest.fixture
def keystone() -> FakeKeystone:
    return FakeKeystone(FakeIdentity(tokens()), {"weft": ("x", caller("weft", "service", "service"))})


@pytest.fixture
def sessions(tmp_path: Path, nova: FakeNova, keystone: FakeKeystone) -> Iterator[Sessions]:
    with served(nova.app()) as nova_url, served(keystone.app()) as url:
        keystone.url = url
        auth = {"auth_url": f"{url}/v3", "username": "weft", "password": "x", "project_name": "service"}
        auth |= {"user_domain_id": "default", "project_domain_id": "default"}
        cloud = {"auth": auth, "region_name": "lab", "identity_endpoint_override": f"{url}/v3"}
        cloud |= {"compute_endpoint_override": nova_url, "image_endpoint_override": nova_url}
        file = tmp_path / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"weft": cloud}}))
        made = Sessions("weft", [file])
        yield made
        made.close()


def test_domains_reach_the_policy(sessions: Sessions) -> None:
    """A project called admin in a customer's domain stays in that domain in the rules."""
    identity, policy = KeystoneIdentity(sessions), Policy()
    mallory, olga, sam = (identity.check(t) for t in ("another-domains-admin", "operator", "system-admin"))
    assert (mallory.project_name, mallory.project_domain_id, mallory.user_domain_id) == (
        "admin",
        "customer",
        "customer",
    )
    assert not policy.is_operator(mallory)
    assert policy.is_operator(olga) and policy.is_operator(sam)
    assert sam.system and sam.project_id is None and sam.project_domain_id is None


def test_access_rules_of_a_credential_are_part_of_the_caller(
    sessions: Sessions, keystone: FakeKeystone
) -> None:
    """Keystone calls such a token unknown unless the service says that it supports rules; an empty list allows
    nothing.
    """
    rule, member = AccessRule("accelerator-pod", "GET", "/v1/pods"), keystone.identity.tokens["operator"]
    for rules in ((rule,), ()):
        keystone.identity.tokens["credential"] = replace(member, access_rules=rules)
        assert KeystoneIdentity(sessions).check("credential").access_rules == rules
    assert KeystoneIdentity(sessions).check("operator").access_rules is None


@pytest.mark.parametrize(
    "answer",
    [
        Response("<html>Maintenance</html>", media_type="text/html"),
        JSONResponse({}),
        JSONResponse([]),
        JSONResponse({"token": None}),
        JSONResponse({"token": {"user": {"id": "", "name": "x"}, "expires_at": "2999-01-01T00:00:00Z"}}),
        JSONResponse({"token": {"user": {"id": "u", "name": "x"}, "project": {}, "expires_at": "soon"}}),
        Response(status_code=204),
    ],
)
def test_malformed_token_document_leaves_the_caller_unknown(
    sessions: Sessions, keystone: FakeKeystone, answer: Response
) -> None:
    """Such as a proxy's page with status 200; it isn't a defect of weft."""
    keystone.answer = answer
    with pytest.raises(UnknownError):
        KeystoneIdentity(sessions).check("operator")


def test_oversized_token_is_refused_without_a_request(sessions: Sessions) -> None:
    """A proxy would refuse a header of 70 kB, which would look like Keystone's failure."""
    with pytest.raises(UnauthenticatedError):
        KeystoneIdentity(sessions).check("g" * 70_000)
    assert sessions.counter.take() == {}


@pytest.mark.parametrize(
    "name",
    [
        "k?user_id=victim&a=",
        "../servers",
        "..",
        ".",
        "a/b",
        "a%2Fb",
        "a#b",
        "k;x",
        "k\n",
        "kä",
        "",
        "k&user_id=v",
    ],
)
def test_key_pair_name_cannot_change_the_request_path(sessions: Sessions, nova: FakeNova, name: str) -> None:
    """Such a name is refused without a request."""
    with pytest.raises(InputError) as error:
        OpenStackFacts(sessions).public_key("me", name)
    assert error.value.field == "access.key_pair"
    assert nova.asked == []


def test_key_pair_belongs_to_the_ordering_user(sessions: Sessions, nova: FakeNova) -> None:
    """By this name; an answer about another user's doesn't count."""
    assert OpenStackFacts(sessions).public_key("me", "my-key.1@home") == KEY
    assert nova.asked == ["/os-keypairs/my-key.1%40home?user_id=me"]
    nova.instead = "someone-else"
    with pytest.raises(InputError):
        OpenStackFacts(sessions).public_key("me", "my key")


def test_image_is_found_on_any_page(sessions: Sessions, nova: FakeNova) -> None:
    """The newest first; the next page is requested with the same filters."""
    nova.images = [{"id": "1", "name": "b", "status": "active"}]
    nova.next_images = [{"id": i, "name": "a", "status": "active"} for i in ("2", "3")]
    found = Lookups().image(sessions.own(), "a")
    assert found is not None and found["id"] == "2"
    assert len(nova.asked) == 2 and nova.asked[1] == f"{nova.asked[0]}&marker=m"


@pytest.mark.parametrize("name", ["../flavors", "x?limit=1", "in:a,b", "a/b"])
def test_image_name_cannot_change_the_request_path(sessions: Sessions, nova: FakeNova, name: str) -> None:
    """Only a UUID is requested by its path; any other text is looked up as an exact name."""
    nova.images = [{"id": "1", "name": "a", "status": "active"}]
    assert Lookups().image(sessions.own(), name) is None
    assert all(asked.startswith("/images?") for asked in nova.asked)
    assert Lookups().image(sessions.own(), "1f0c9a3b-0000-4000-8000-000000000000")


def test_missing_role_and_its_command_are_shown_to_operators_only(
    sessions: Sessions, keystone: FakeKeystone, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers read that operators are alarmed, which log and metric do until Keystone answers otherwise."""
    identity = KeystoneIdentity(sessions)
    collect = AccountCollector(lambda: identity.lacks_role).collect
    denied = {"error": {"code": 403, "title": "Forbidden", "message": "You are not authorized"}}
    keystone.answer = JSONResponse(denied, 403)
    for _ in range(2):
        with pytest.raises(
            UnknownError, match="user weft needs the role service in project service"
        ) as caught:
            identity.check("a-member")
    said = str(caught.value)
    assert "openstack role add --user weft --project service service" in said
    assert [r.getMessage() for r in caplog.records if r.levelname == "ERROR"] == [said]
    assert str(redact.error(caught.value)) == (
        "check a caller's token (Keystone): HTTP 403, weft's own account lacks a role; operators are alarmed"
    )
    assert [s.value for m in collect() for s in m.samples] == [1]
    keystone.answer = None
    assert identity.check("a-member").user_name == "alice"
    assert [s.value for m in collect() for s in m.samples] == [0]


def test_missing_roles_are_found(sessions: Sessions, keystone: FakeKeystone) -> None:
    """In weft's own project, and if it serves no project."""
    missing, nowhere = account_problems(sessions)
    assert "lacks the role weft in its project service" in missing and missing.endswith(
        "--project service weft"
    )
    assert "has a role in no project of tenants" in nowhere
    keystone.users["weft"] = ("x", caller("weft", "service", "service", "weft"))
    keystone.identity.tokens |= dict.fromkeys(keystone.identity.tokens, keystone.users["weft"][1])
    keystone.projects = {"id-of-service": "service", "id-of-team-a": "team-a"}
    assert account_problems(sessions) == ()


@pytest.mark.parametrize("about", ["another", "operator", ""])
def test_answer_about_another_token_makes_no_caller(
    sessions: Sessions, keystone: FakeKeystone, about: str
) -> None:
    """A cache in front of Keystone may confuse weft's requests, since `Vary` names only weft's own token: the next
    caller would get the previous one's roles.
    """
    true = KeystoneIdentity(sessions).check("operator")
    document = {"token": keystone._token(true)}  # pyright: ignore[reportPrivateUsage] - as it shows it
    keystone.answer = JSONResponse(document, 200, {"X-Subject-Token": about} if about else {})
    identity = KeystoneIdentity(sessions)
    if about == "another":
        with pytest.raises(UnknownError, match="about another token"):
            identity.check("operator")
    else:
        assert identity.check("operator").user_id == true.user_id

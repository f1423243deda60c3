"""How the command line signs in and finds the API, and how it reports that it can't."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from keystoneauth1.exceptions import NotFound
from keystoneauth1.loading import get_plugin_options
from openstack.config import OpenStackConfig

from tests.helpers.certificates import own_certificate
from tests.helpers.desk import Desk
from weft.cli.signin import OPTIONS, taken
from weft.client import SERVICE_TYPE
from weft.client.transport import outside
from weft.model.errors import InputError, UnauthenticatedError
from weft.planning.cloudsfile import check_clouds
from weft.testing.serving import free_port, served


def test_os_variables_alone_are_enough(desk: Desk) -> None:
    """OS_AUTH_URL and related variables, as every OpenStack client reads them, without a clouds.yaml."""
    Path("clouds.yaml").unlink()
    desk.environment.delenv("OS_CLIENT_CONFIG_FILE")
    for key, value in desk.clouds["a-member"]["auth"].items():
        desk.environment.setenv(f"OS_{key.upper()}", value)
    assert desk.weft("pod", "list", cloud=None).code == 0


def test_options_of_openstack_sign_in(desk: Desk) -> None:
    """Before or after the command, instead of variables and beside a named cloud."""
    auth = desk.clouds["a-member"]["auth"]
    words = [word for name, value in auth.items() for word in (f"--os-{name.replace('_', '-')}", value)]
    token = ["--os-auth-type", "v3token", "--os-auth-url", auth["auth_url"], "--os-token", "operator"]
    beside = ["--os-username", "operator", "--os-interface", "public", "--insecure"]
    assert desk.weft("node", "list", *beside).code == 0
    assert desk.weft("node", "list").code == 2, "a member may not"
    Path("clouds.yaml").unlink()
    desk.environment.delenv("OS_CLIENT_CONFIG_FILE")
    for line in ([*words, "pod", "list"], ["pod", "list", *words], [*token, "node", "list"]):
        done = desk.weft(*line, cloud=None)
        assert done.code == 0, done.err
    wrong = desk.weft("pod", "list", *words[:-2], "--os-password", "wrong", cloud=None)
    assert wrong.code == 2 and "wrong" not in wrong.err
    assert desk.weft("pod", "list", "--os-auth-url", cloud=None).code == 2
    assert desk.weft("pod", "list", "--insecure", "--verify", cloud=None).code == 2
    unknown = desk.weft("pod", "list", "--os-nonsense", "x", cloud=None)
    assert unknown.code == 2 and "--os-nonsense" in unknown.err


def test_options_of_openstack_are_those_of_osc_lib_and_keystoneauth() -> None:
    """Names and variables are the same; words after -- belong to another command."""
    plugins = ("v3password", "v3token", "v3applicationcredential")
    known = {f"--os-{o.name.replace('_', '-')}" for name in plugins for o in get_plugin_options(name)}
    of_shell = {"--os-auth-type", "--os-default-domain", "--os-interface", "--os-cert", "--os-key"}
    assert set(OPTIONS) <= known | of_shell
    after = ["pod", "ssh", "x", "--", "openstack", "--os-username", "u"]
    assert taken(["--os-username", "v", *after]) == ({"os_username": "v"}, after)


def test_os_cloud_names_the_cloud(desk: Desk) -> None:
    """OS_CLOUD is equivalent to --os-cloud, which may stand before or after the command."""
    desk.environment.setenv("OS_CLOUD", "operator")
    assert desk.weft("node", "list", cloud=None).code == 0
    assert desk.weft("node", "list", "--os-cloud", "a-member", cloud=None).code == 2


def test_application_credential_signs_in(desk: Desk) -> None:
    """With auth_type v3applicationcredential."""
    desk.clouds["credential"] = {
        "auth_type": "v3applicationcredential",
        "auth": {
            "auth_url": f"{desk.keystone.url}/v3",
            "application_credential_id": "a-member",
            "application_credential_secret": "secret",
        },
    }
    desk.write_clouds()
    assert desk.weft("pod", "list", cloud="credential").code == 0


def test_deleted_application_credential_is_reported(desk: Desk) -> None:
    """Keystone answers 404, which must not be reported as a wrong auth_url."""
    ended = {"application_credential_id": "gone", "application_credential_secret": "secret"}
    auth = {"auth_url": f"{desk.keystone.url}/v3", **ended}
    desk.clouds["ended"] = {"auth_type": "v3applicationcredential", "auth": auth}
    desk.write_clouds()
    refused = desk.weft("pod", "list", cloud="ended")
    said = "Keystone doesn't know the application credential, or not any more: get a new one"
    assert (refused.code, said in refused.err) == (2, True), refused.err


def test_token_signs_in(desk: Desk) -> None:
    """With auth_type v3token; an expired token is exit code 2."""
    for token in ("a-member", "expired"):
        auth = {"auth_url": f"{desk.keystone.url}/v3", "token": token, "project_id": "x"}
        desk.clouds[token] = {"auth_type": "v3token", "auth": auth}
    desk.write_clouds()
    assert desk.weft("pod", "list", cloud="a-member").code == 0
    refused = desk.weft("pod", "list", cloud="expired")
    assert (refused.code, "sign in again" in refused.err) == (2, True)


def test_keystoneauth_finds_version_1_through_the_catalog(desk: Desk) -> None:
    """The catalog has only the root URL; any OpenStack client finds version 1 of the service type there."""
    session = OpenStackConfig().get_one(cloud="a-member").get_session()
    answer = session.get("/pods", endpoint_filter={"service_type": SERVICE_TYPE, "version": "1"})
    assert answer.json() == {"pods": []}


def test_catalog_url_may_include_the_version(desk: Desk) -> None:
    """Such as http://host/v1/."""
    desk.keystone.weft_url = f"{desk.url}/v1/"
    assert desk.weft("pod", "list").code == 0


def test_catalog_without_weft_is_reported(desk: Desk) -> None:
    """Exit code 1 with what to do; --endpoint and WEFT_ENDPOINT replace the catalog."""
    desk.keystone.weft_url = ""
    missing = desk.weft("pod", "list")
    assert missing.code == 1
    assert SERVICE_TYPE in missing.err
    assert "WEFT_ENDPOINT" in missing.err
    assert desk.weft("pod", "list", "--endpoint", desk.url).code == 0
    desk.environment.setenv("WEFT_ENDPOINT", desk.url)
    assert desk.weft("pod", "list").code == 0
    for nonsense in ("nonsense", "http://", "http://[::1", "http://weft:x", "http://weft:99999"):
        bad = desk.weft("pod", "list", "--endpoint", nonsense)
        assert (bad.code, "an address such as" in bad.err) == (2, True), nonsense


@pytest.mark.parametrize("cloud", [None, "nix"])
def test_missing_credentials_are_reported(desk: Desk, cloud: str | None) -> None:
    """No cloud, or an unknown one: exit code 2, naming the option."""
    bad = desk.weft("pod", "list", cloud=cloud)
    assert (bad.code, "--os-cloud" in bad.err) == (2, True)


@pytest.mark.parametrize("variable", ["OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE"])
@pytest.mark.parametrize("password", ["@S3cret!", "%S3cret", "*S3cret", '"S3cret', "!S3cret x", "a: S3cret"])
def test_error_in_clouds_yaml_does_not_show_a_password(
    desk: Desk, caplog: pytest.LogCaptureFixture, variable: str, password: str
) -> None:
    """File and line are shown, with exit code 2; the parser's own message would quote the line."""
    broken = desk.folder / "broken.yaml"
    broken.write_text(f"clouds:\n  a-member:\n    auth:\n      password: {password}\n")
    desk.environment.setenv(variable, str(broken))
    bad = desk.weft("pod", "list", "--json")
    assert (bad.code, f"{broken}:" in bad.err, "quoted" in bad.err) == (2, True, True), bad.err
    assert "S3cret" not in bad.err + bad.out + caplog.text


def test_wrong_password_is_reported(desk: Desk) -> None:
    """Exit code 2."""
    desk.clouds["a-member"]["auth"]["password"] = "wrong"
    desk.write_clouds()
    bad = desk.weft("pod", "list")
    assert (bad.code, "Keystone refused" in bad.err) == (2, True)


def test_refused_connection_gives_one_sentence(desk: Desk) -> None:
    """For weft's API and for Keystone: exit code 1 with the address and what to do."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    gone = desk.weft("pod", "list", "--endpoint", nowhere)
    assert (gone.code, len(gone.err.splitlines())) == (1, 1)
    assert nowhere in gone.err
    assert "nothing listens there" in gone.err
    desk.clouds["a-member"]["auth"]["auth_url"] = nowhere + "/v3"
    desk.write_clouds()
    gone = desk.weft("pod", "list")
    assert (gone.code, nowhere in gone.err, "Traceback" in gone.err) == (1, True, False)


def test_untrusted_certificate_is_reported_and_can_be_trusted(desk: Desk) -> None:
    """An unknown authority is exit code 1 with what to set; with `cacert` it works."""
    certificate = own_certificate(desk.folder)
    with served(desk.house.served(desk.keystone.identity), certificate) as url:
        bad = desk.weft("pod", "list", "--endpoint", url)
        assert bad.code == 1
        assert "not trusted" in bad.err
        assert "cacert" in bad.err
        desk.clouds["a-member"]["cacert"] = str(certificate[0])
        desk.write_clouds()
        assert desk.weft("pod", "list", "--endpoint", url).code == 0


@pytest.mark.parametrize("way", ["--os-cacert", "OS_CACERT"])
def test_ca_of_option_or_environment_is_trusted(desk: Desk, way: str) -> None:
    """Also for a cloud of clouds.yaml, as with OpenStack's client; a missing file is exit code 2."""
    file, key = own_certificate(desk.folder)
    with served(desk.house.served(desk.keystone.identity), (file, key)) as url:
        for given, code in ((str(file), 0), (str(desk.folder / "nix.pem"), 2)):
            more = [way, given] if way.startswith("--") else []
            if not more:
                desk.environment.setenv(way, given)
            done = desk.weft("pod", "list", "--endpoint", url, *more)
            assert done.code == code and ("nix.pem" in done.err) is (code == 2)


def test_other_service_at_the_url_is_reported(desk: Desk) -> None:
    """A dashboard's HTML page is an error; after a proxy's 502, trying again is advised."""
    other = FastAPI()
    other.add_api_route("/v1/pods", lambda: HTMLResponse("<h1>welcome</h1>"), methods=["GET"])
    other.add_api_route("/v1/reservations", lambda: {"pods": []}, methods=["GET"])
    other.add_api_route("/v1/nodes", lambda: HTMLResponse("bad gateway", 502), methods=["GET"])
    with served(other) as url:
        page = desk.weft("pod", "list", "--endpoint", url)
        assert (page.code, "not an answer of weft" in page.err) == (1, True)
        json = desk.weft("reservation", "list", "--endpoint", url)
        assert (json.code, "not an answer of weft" in json.err) == (1, True)
        proxy = desk.weft("node", "list", "--endpoint", url)
        assert (proxy.code, "502" in proxy.err) == (1, True)


def test_https_to_an_http_keystone_is_reported(desk: Desk) -> None:
    """Not as an untrusted certificate."""
    auth = desk.clouds["a-member"]["auth"]
    auth["auth_url"] = auth["auth_url"].replace("http://", "https://")
    desk.write_clouds()
    bad = desk.weft("pod", "list")
    assert (bad.code, "it doesn't speak TLS there; http:// in its address" in bad.err) == (1, True), bad.err


def test_token_unknown_to_keystone_is_reported() -> None:
    """Not as a wrong auth_url."""
    said = outside(NotFound("Failed to validate token (HTTP 404)"), "list pods", "Keystone")
    assert isinstance(said, UnauthenticatedError) and "get a new one" in str(said)
    assert "check auth_url" in str(outside(NotFound("Not Found (HTTP 404)"), "list pods", "Keystone"))


@pytest.mark.parametrize("password", ["0012", "no", "0x1f", "1_000"])
def test_password_that_yaml_reads_otherwise_is_reported(desk: Desk, password: str) -> None:
    """YAML reads `0012` as 10, and Keystone would refuse the user."""
    text = Path("clouds.yaml").read_text()
    kept = desk.clouds["a-member"]["auth"]["password"]
    Path("clouds.yaml").write_text(text.replace(f"password: {kept}", f"password: {password}", 1))
    bad = desk.weft("pod", "list")
    assert (bad.code, "auth.password: this value is not allowed: a text in quotes" in bad.err) == (2, True)
    assert "0012" not in bad.err and "1_000" not in bad.err and "0x1f" not in bad.err


@pytest.mark.parametrize(
    "text",
    [
        "base: &base\n  auth: {auth_url: http://k, password: '0012'}\nclouds:\n  a:\n    <<: *base\n",
        "base: &base {auth_url: http://k, password: 12}\nclouds:\n  a:\n    auth:\n      <<: *base\n",
        "clouds:\n  0x1:\n    auth: {auth_url: http://k, password: x}\n  b: ~\n",
    ],
)
def test_merged_profiles_of_clouds_yaml_are_read(text: str) -> None:
    """YAML's merge key `<<` is common in clouds.yaml."""
    check_clouds([("clouds.yaml", text.encode)])
    if "'0012'" in text:
        with pytest.raises(InputError, match=r"clouds\.a\.auth\.password: .* a text in quotes"):
            check_clouds([("clouds.yaml", text.replace("'", "").encode)])


def test_password_of_digits_is_sent_as_written(desk: Desk) -> None:
    """The control: 12345678 is the same as text and as a number."""
    desk.clouds["a-member"]["auth"]["password"] = "12345678"
    desk.write_clouds()
    Path("clouds.yaml").write_text(Path("clouds.yaml").read_text().replace("'12345678'", "12345678"))
    bad = desk.weft("pod", "list")
    assert (bad.code, "Keystone refused" in bad.err) == (2, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"auth": {"password": None}}, "auth.password: missing: the user's password, under `auth`"),
        (
            {"auth": {"auth_url": "keystone.example:5000/v3"}},
            "auth_url: 'keystone.example:5000/v3' is not allowed",
        ),
        ({"cacert": "/no/such.pem"}, "cacert: '/no/such.pem' is not allowed: a file with certificates"),
        ({"key": "/no/such.key", "cert": "/no/such.pem"}, "cert: '/no/such.pem' is not allowed"),
    ],
)
def test_incomplete_sign_in_data_is_reported_by_field(desk: Desk, change: dict[str, Any], said: str) -> None:
    """In one line, before any request."""
    mine = desk.clouds["a-member"]
    desk.clouds["a-member"] = {**mine, **change, "auth": {**mine["auth"], **change.get("auth", {})}}
    desk.write_clouds()
    bad = desk.weft("pod", "list")
    assert (bad.code, said in bad.err, bad.err.count("\n")) == (2, True, 1), bad.err


@pytest.mark.parametrize("text", ["clouds:\n", f"clouds: {'[' * 4000}"])
def test_malformed_clouds_file_is_reported(desk: Desk, text: str) -> None:
    Path("clouds.yaml").write_text(text)
    bad = desk.weft("pod", "list")
    assert (bad.code, "clouds.yaml: " in bad.err, "internal error" in bad.err) == (2, True, False), bad.err

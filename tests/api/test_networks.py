"""Tenants' own networks over HTTP: who sees what of them, and the notices of Neutron's driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.tenanthouse import TenantHouse
from weft.api.app import create_app
from weft.api.notices import notices, read_token
from weft.app.metrics import StoreCollector
from weft.app.policy import Policy
from weft.engine.base.database import Database
from weft.model.errors import InputError, TemporaryError
from weft.model.pod import PodState
from weft.testing.serving import served

TOKEN = "the-token-of-neutron"
BASIC = {"Authorization": f"Basic {TOKEN}"}


class Bell:
    """Counts its calls, or fails."""

    def __init__(self) -> None:
        self.rung, self.broken = 0, False

    def __call__(self) -> None:
        if self.broken:
            raise TemporaryError("give a hint", "the database", "it is away")
        self.rung += 1


@pytest.fixture
def house(database: Database, database_url: str) -> Iterator[TenantHouse]:
    house = TenantHouse(database, database_url)
    yield house
    house.close()


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def api(house: TenantHouse, bell: Bell) -> Iterator[httpx.Client]:
    collectors = [StoreCollector(house.store)]
    more = [notices(TOKEN, bell)]
    app = create_app(house.service, house.cloud, Policy(), collectors=collectors, more=more)
    with served(app) as url, httpx.Client(base_url=url) as client:
        yield client


def by(house: TenantHouse, project: str, role: str = "member") -> dict[str, str]:
    return {"X-Auth-Token": house.cloud.add_user(f"{project}-{role}", project=project, roles=(role,))}


def test_tenant_sees_its_own_networks_without_hosts_and_adapters(
    house: TenantHouse, api: httpx.Client
) -> None:
    network = house.network()
    port = house.adapter(network)
    elsewhere = house.adapter(network, "gpu14")
    elsewhere.fields["bound_host"] = "gpu99"
    house.ready(network)
    mine = by(house, "team-b")
    (row,) = api.get("/v1/networks", headers=mine).json()["networks"]
    assert (row["id"], row["name"], row["state"]) == (network.id, "mine", "READY")
    assert (row["ports_in"], row["waiting"], row["out"]) == (1, 0, 1)
    for name in (network.id, "mine"):
        shown = api.get(f"/v1/networks/{name}", headers=mine).json()
        ports = {p["id"]: p for p in shown["ports"]}
        assert (ports[port.id]["state"], ports[port.id]["host"], ports[port.id]["member"]) == ("in", "", "")
        assert ports[elsewhere.id]["why"] == "operators see why"
    operator = api.get("/v1/networks/mine", headers=by(house, "admin", "admin")).json()
    ports = {p["id"]: p for p in operator["ports"]}
    assert (ports[port.id]["host"], int(ports[port.id]["member"], 16)) == ("gpu15", house.guid())
    assert ports[elsewhere.id]["why"] == "host gpu99 is no node of the site"
    events = api.get("/v1/networks/mine/events", headers=mine).json()["events"]
    assert f"port {port.id} is in segment {row['segment']}" in [e["message"] for e in events]
    assert "gpu" not in str(events)


def test_operator_abandons_a_release_and_reads_its_receipt(house: TenantHouse, api: httpx.Client) -> None:
    """Members may do neither; a body without a reason is 400."""
    network = house.network()
    port = house.adapter(network)
    house.ready(network)
    owner = house.owner(network)
    for manager in house.fabric.managers:
        manager.reachable = False
    house.cloud.lose(port)
    house.cloud.lose(network)
    house.look()
    house.visit(owner)
    operator, path = by(house, "admin", "admin"), f"/v1/networks/{network.id}"
    assert api.post(f"{path}/abandon", json={"reason": "x"}, headers=by(house, "team-b")).status_code == 403
    assert api.post(f"{path}/abandon", json={}, headers=operator).status_code == 400
    assert api.get(f"{path}/receipt", headers=operator).status_code == 409
    answer = api.post(f"{path}/abandon", json={"reason": "scrapped"}, headers=operator)
    assert (answer.status_code, answer.json()["state"]) == (202, "RELEASING")
    house.visit(owner, PodState.RELEASED)
    receipt = api.get(f"{path}/receipt", headers=operator).json()["receipt"]
    assert (receipt["clean"], receipt["abandoned"]["reason"]) == (False, "scrapped")
    assert api.get(f"{path}/receipt", headers=by(house, "team-b")).status_code == 403


def test_networks_of_other_projects_are_404(house: TenantHouse, api: httpx.Client) -> None:
    house.ready(house.network())
    other = by(house, "team-a")
    assert api.get("/v1/networks", headers=other).json() == {"networks": []}
    for path in ("/v1/networks/mine", "/v1/networks/mine/events"):
        assert api.get(path, headers=other).status_code == 404
    assert api.get("/v1/networks?all_projects=true", headers=other).status_code == 403
    everybodys = api.get("/v1/networks?all_projects=true", headers=by(house, "admin", "admin")).json()
    assert [n["project_id"] for n in everybodys["networks"]] == ["team-b"]


def test_networks_are_paged_and_names_may_repeat(house: TenantHouse, api: httpx.Client) -> None:
    made = sorted(house.network("same", house.free_number(n)).id for n in range(3))
    house.look()
    mine = by(house, "team-b")
    first = api.get("/v1/networks?limit=2", headers=mine).json()
    then = api.get(f"/v1/networks?limit=2&marker={first['next']}", headers=mine).json()
    assert [n["id"] for n in (*first["networks"], *then["networks"])] == made and "next" not in then
    assert api.get("/v1/networks/same", headers=mine).status_code == 409


def test_metrics_count_ports_in_their_partition(house: TenantHouse, api: httpx.Client) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    text = api.get("/metrics").text
    assert 'weft_network_ports{state="in"} 1.0' in text and "weft_networks 1.0" in text


def test_metrics_show_waiting_time_of_ports_and_age_of_readings(house: TenantHouse) -> None:
    """What alerts use: a port that never gets into its partition, and a cloud that can't be read any more."""

    def ages() -> tuple[float, float]:
        """As a new collector reports them, before it has read a cloud."""
        found = {s.name: s.value for metric in StoreCollector(house.store).collect() for s in metric.samples}
        return found["weft_network_port_waiting_seconds"], found["weft_network_read_age_seconds"]

    assert ages() == (0.0, 0.0)
    house.clock.seconds = time.time() - 7200.0  # the metrics' ages are by the database's own clock
    network = house.network()
    house.adapter(network)
    house.look()
    assert all(7100.0 < age < 7800.0 for age in ages())
    house.clock.seconds = time.time() - 600.0
    house.ready(network)
    waiting, unread = ages()
    assert waiting == 0.0 and 500.0 < unread < 1200.0


# -- notices ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/mlnx/cloudx/Port"),
        ("POST", "/mlnx//cloudx/Network"),
        ("PUT", "/mlnx/cloudx/Port/00000000-0000-4000-8000-000000000001"),
        ("DELETE", "/mlnx/cloudx/Network/00000000-0000-4000-8000-000000000001"),
    ],
)
def test_notice_wakes_weft_and_its_job_is_completed(
    api: httpx.Client, bell: Bell, method: str, path: str
) -> None:
    """Whatever its body is: the driver's own, empty, or no JSON."""
    for content in (b'{"id": "x"}', b"", b"{"):
        answer = api.request(method, path, content=content, headers=BASIC)
        assert answer.status_code == 202
        job = answer.json()
        assert job.startswith("app/jobs/") and len(job) <= 36 and answer.headers["Location"] == f"/mlnx/{job}"
        assert api.get(f"/mlnx/{job}", headers=BASIC).json()["Status"] == "Completed"
    assert bell.rung == 3


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Basic wrong"}, {"Authorization": f"Bearer {TOKEN}"}, {"Authorization": TOKEN}],
)
def test_notice_without_the_token_is_refused(
    house: TenantHouse, api: httpx.Client, bell: Bell, headers: dict[str, str]
) -> None:
    """A tenant's or an operator's own token isn't accepted."""
    for token in ({}, by(house, "team-b"), by(house, "admin", "admin")):
        for method, path in (("POST", "/mlnx/cloudx/Port"), ("GET", "/mlnx/app/jobs/1")):
            assert api.request(method, path, headers={**headers, **token}).status_code == 401
    assert bell.rung == 0


def test_notice_that_cannot_be_passed_on_is_answered_503(api: httpx.Client, bell: Bell) -> None:
    """The driver repeats a notice after 5xx; after any other status it would drop it, or get stuck."""
    bell.broken = True
    assert api.post("/mlnx/cloudx/Port", headers=BASIC).status_code == 503
    bell.broken = False
    assert api.post("/mlnx/cloudx/Port", headers=BASIC).status_code == 202


def test_notice_routes_are_404_without_a_configured_token(house: TenantHouse) -> None:
    with served(create_app(house.service, house.cloud, Policy())) as url:
        assert httpx.post(f"{url}/mlnx/cloudx/Port", headers=BASIC).status_code == 404


def test_token_file_is_read_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert read_token(file, "--neutron-token") == TOKEN
    file.chmod(0o644)
    with pytest.raises(InputError, match="others can't read"):
        read_token(file, "--neutron-token")
    file.chmod(0o600)
    for text in ("", "short", "with a space in the middle of it", "ünter-uns-gesagt-geheim"):
        file.write_text(text)
        with pytest.raises(InputError, match="--neutron-token"):
            read_token(file, "--neutron-token")
    with pytest.raises(InputError, match="No such file"):
        read_token(tmp_path / "none", "--neutron-token")

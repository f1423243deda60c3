"""What proves that something is absent and what doesn't, decided in one place and tried with every kind of false
answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions, transport
from weft.model.errors import TemporaryError, UnknownError
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.specs import NetworkSpec, ServerSpec
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
STRANGER = "weft site=lab pod=99999999-1111-2222-3333-444444444444 key=network/rdma"
NETWORK = Resource(
    key="network/rdma",
    name="weft-00000000-network-rdma",
    where="lab",
    spec=NetworkSpec(physical_network="ibnet", segment=0x101, port_security=False),
)
SERVER = Resource(
    key="server/gpu01",
    name="weft-00000000-server-gpu01",
    where="lab",
    spec=ServerSpec(host="gpu01", flavor="gpu8", image="tiny", ports=()),
)
IDS = {NETWORK.key: "net-1", SERVER.key: "srv-1"}


@dataclass(frozen=True)
class Rig:
    cloud: TinyCloud
    driver: OpenStackDriver

    def status(self, wanted: Resource) -> Status:
        return self.driver.find(SCOPE, [wanted], IDS)[wanted.key].status

    def network(self, **more: object) -> dict[str, object]:
        """Add the pod's network as it should be, with these changes; its row."""
        row: dict[str, object] = {
            "id": "net-1",
            "name": NETWORK.name,
            "description": SCOPE.mark(NETWORK.key).text(),
            "project_id": PROJECT,
            "created_at": "2026-01-01T00:00:00Z",
            "provider:network_type": "vlan",
            "provider:physical_network": "ibnet",
            "provider:segmentation_id": 0x101,
            "port_security_enabled": False,
            **more,
        }
        self.cloud.things["networks"] = [row]
        return row

    def server(self, **more: object) -> dict[str, object]:
        row: dict[str, object] = {
            "id": "srv-1",
            "name": SERVER.name,
            "description": SCOPE.mark(SERVER.key).text(),
            "tenant_id": PROJECT,
            "created": "2026-01-01T00:00:00Z",
            "status": "ACTIVE",
            "locked": False,
            "flavor": {"original_name": "gpu8"},
            "OS-EXT-SRV-ATTR:host": "gpu01",
            **more,
        }
        self.cloud.things["servers"] = [row]
        return row


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield Rig(cloud, driver)
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    """A cloud without resources and false answers."""
    house.cloud.reset()
    return house


HTML = Reply(200, "<html><body>We'll be back soon</body></html>", "text/html", own=False)
COLLECTIONS = ("networks", "servers", "security_groups", "services")
LIES = {
    "a page of HTML": HTML,
    "an empty object": Reply(200, {}),
    "an empty list": Reply(200, []),
    "null in the place of the list": Reply(200, dict.fromkeys(COLLECTIONS)),
    "an object in the place of the list": Reply(200, {key: {} for key in COLLECTIONS}),
    "a list of texts": Reply(200, {key: ["x"] for key in COLLECTIONS}),
    "no content": Reply(204),
    "accepted": Reply(202, {"networks": [], "servers": []}),
    "multiple choices": Reply(300, {"versions": []}),
    "a redirection": Reply(302, headers={"Location": "http://127.0.0.1:9/login"}, own=False),
    "not modified": Reply(304),
    "unauthorized": Reply(401, {"error": {"message": "expired", "code": 401}}),
    "forbidden": Reply(403, {"forbidden": {"message": "no", "code": 403}}),
    "gone": Reply(410, {"itemNotFound": {"message": "Thing net-1 srv-1 is gone"}}),
    "a proxy's 404": Reply(404, "<h1>404 Not Found</h1> net-1 srv-1", "text/html", own=False),
    "a proxy's 404 in JSON": Reply(404, {"error": {"message": "no route for net-1 srv-1"}}, own=False),
    "a URL that the service doesn't know": Reply(404, {"message": "The resource could not be found.", "code": 404}),
    "a 404 about another thing": Reply(404, {"itemNotFound": {"message": "Instance abc could not be found."}}),
    "an error": Reply(500, {"computeFault": {"message": "boom"}}),
    "unavailable": Reply(503, "x", "text/plain", own=False),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        (NETWORK, "GET /network/networks"),
        (NETWORK, "GET /network/networks/net-1"),
        (NETWORK, "GET /network/security-groups"),
        (SERVER, "GET /compute/servers/detail"),
        (SERVER, "GET /compute/servers/srv-1"),
        (SERVER, "GET /compute/os-services"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_false_answer_proves_absence(rig: Rig, wanted: Resource, where: str, lie: str) -> None:
    """One of the three answers is false: unknown, for finding and for deleting."""
    rig.cloud.lies = [(where, LIES[lie])]
    with pytest.raises(UnknownError):
        rig.driver.find(SCOPE, [wanted], IDS)
    with pytest.raises(UnknownError):
        rig.driver.delete(SCOPE, [wanted], IDS)
    assert where in rig.cloud.asked
    rig.cloud.lies = []
    assert rig.status(wanted) is Status.ABSENT


@pytest.mark.parametrize("wanted", [NETWORK, SERVER], ids=["network", "server"])
def test_proof_of_absence_names_what_was_read(rig: Rig, wanted: Resource) -> None:
    """The proof for the receipt has the listing, the GET by id, and what else they showed."""
    proof = rig.driver.find(SCOPE, [wanted], IDS)[wanted.key].reason
    assert "404 by its id" in proof and "0 listed" in proof and PROJECT in proof and "seen with it" in proof
    never_made = rig.driver.find(SCOPE, [wanted], {})[wanted.key].reason
    assert "by its id" not in never_made and "0 listed" in never_made


def test_empty_list_without_a_role_proves_nothing(rig: Rig) -> None:
    """Neutron answers [] and 404 to callers without rights, who don't see the group `default` either."""
    rig.network(hidden=True)
    absent = TinyCloud.absent("network", "net-1")
    rig.cloud.lies = [("GET /network/networks/net-1", absent)]
    rig.cloud.things["security_groups"] = []
    with pytest.raises(UnknownError, match="every project has one"):
        rig.driver.find(SCOPE, [NETWORK], IDS)
    rig.cloud.things["security_groups"] = [{"id": "other", "name": "default", "project_id": "f" * 32}]
    with pytest.raises(UnknownError, match="every project has one"):
        rig.driver.find(SCOPE, [NETWORK], IDS)


def test_resource_hidden_from_listings_is_found_by_id(rig: Rig) -> None:
    """A removed tag, a soft-deleted server, a stale list: a GET by the known id finds it."""
    rig.network(hidden=True)
    assert rig.status(NETWORK) is Status.SETTLED
    rig.server(hidden=True, status="SOFT_DELETED")
    seen = rig.driver.find(SCOPE, [SERVER], IDS)[SERVER.key]
    assert seen.there and "soft-deleted" in seen.reason


@pytest.mark.parametrize("description", [STRANGER, "mine", "", None])
def test_known_id_outweighs_a_tenants_description(rig: Rig, description: str | None) -> None:
    """With another pod's mark or none it is still the pod's, differs, and is deleted."""
    rig.network(description=description)
    seen = rig.driver.find(SCOPE, [NETWORK], IDS)[NETWORK.key]
    assert [d.field for d in seen.differences] == ["mark"]
    assert rig.driver.delete(SCOPE, [NETWORK], IDS)[NETWORK.key].error is None
    assert not rig.cloud.things["networks"]


def test_resource_with_another_pods_mark_and_no_known_id_is_not_the_pods(rig: Rig) -> None:
    rig.network(description=STRANGER)
    assert not rig.driver.find(SCOPE, [NETWORK], {})[NETWORK.key].there


@pytest.mark.parametrize(("user", "there"), [("u", True), ("colleague", False)])
def test_marked_server_is_the_pods_if_wefts_user_created_it(rig: Rig, user: str, there: bool) -> None:
    """Another user's server with the mark is neither found nor deleted, and the audit reports its user."""
    rig.server(user_id=user)
    assert rig.driver.find(SCOPE, [SERVER], {})[SERVER.key].there is there
    [marked] = [t for t in rig.driver.marked(SCOPE.site, ()) if t.kind is SERVER.kind]
    assert marked.ours is there
    rig.driver.delete(SCOPE, [SERVER], {})
    deleted = "DELETE /compute/servers/srv-1" in rig.cloud.asked
    assert deleted is there


def test_locked_server_is_unlocked_and_deleted(rig: Rig) -> None:
    """A tenant's lock doesn't keep a node beyond the lease."""
    rig.server(locked=True)
    rig.cloud.lies = [("POST /compute/servers/srv-1/action", Reply(202))]
    rig.driver.delete(SCOPE, [SERVER], IDS)
    changes = [line for line in rig.cloud.asked if not line.startswith("GET") and "tokens" not in line]
    assert changes == ["POST /compute/servers/srv-1/action", "DELETE /compute/servers/srv-1"]


def test_soft_deleted_server_is_deleted_by_force(rig: Rig) -> None:
    """With reclaim_instance_interval its owner could restore it on a node that was released."""
    rig.server(hidden=True, status="SOFT_DELETED")
    rig.cloud.lies = [("POST /compute/servers/srv-1/action", Reply(202))]
    rig.driver.delete(SCOPE, [SERVER], IDS)
    assert rig.cloud.asked[-1] == "POST /compute/servers/srv-1/action"


def test_server_whose_cell_is_down_is_unknown(rig: Rig) -> None:
    """Nova shows only its id and the status UNKNOWN (microversion 2.69)."""
    rig.cloud.things["servers"] = [
        {"id": "srv-1", "status": "UNKNOWN", "created": "", "tenant_id": PROJECT, "links": []}
    ]
    with pytest.raises(UnknownError, match="its cell doesn't answer"):
        rig.driver.find(SCOPE, [SERVER], IDS)


@pytest.mark.parametrize("missing", ["id", "provider:segmentation_id", "created_at"])
def test_malformed_row_is_unknown_or_a_difference(rig: Rig, missing: str) -> None:
    """A row without a field that each has: no traceback, and not settled if the field matters."""
    row = rig.network()
    del row[missing]
    try:
        seen = rig.driver.find(SCOPE, [NETWORK], IDS)[NETWORK.key]
    except UnknownError:
        assert missing == "id"
        return
    assert seen.there and [d.field for d in seen.differences] == (["segment"] if "segment" in missing else [])


def test_creation_answered_with_a_page_is_retried(rig: Rig) -> None:
    """Its outcome is unknown: a temporary error, and the next reading shows it."""
    rig.cloud.lies = [("POST /network/networks", HTML)]
    outcome = rig.driver.create(SCOPE, [NETWORK], {})[NETWORK.key]
    assert type(outcome.error) is TemporaryError


def test_endless_listing_is_unknown(rig: Rig) -> None:
    """A page that names itself as the next one."""
    again = [{"rel": "next", "href": "http://x/networks?marker=a"}]
    rig.cloud.lies = [("GET /network/networks", Reply(200, {"networks": [], "networks_links": again}))]
    with pytest.raises(UnknownError, match="without an end"):
        rig.driver.find(SCOPE, [NETWORK], IDS)


def test_oversized_answer_is_unknown(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body is read up to a limit."""
    monkeypatch.setattr(transport, "LARGEST", 1000)
    rig.cloud.lies = [("GET /network/networks", Reply(200, {"networks": [{"id": "x" * 5000}]}))]
    with pytest.raises(UnknownError, match="larger than"):
        rig.driver.find(SCOPE, [NETWORK], IDS)


def test_host_hidden_by_nova_is_unknown(rig: Rig) -> None:
    """Only administrators see the attribute, so without it the server may still have a host."""
    row = rig.server()
    del row["OS-EXT-SRV-ATTR:host"]
    assert "host" not in rig.driver.find(SCOPE, [SERVER], {SERVER.key: "srv-1"})[SERVER.key].facts
    row["OS-EXT-SRV-ATTR:host"] = None
    assert rig.driver.find(SCOPE, [SERVER], {SERVER.key: "srv-1"})[SERVER.key].facts["host"] is None

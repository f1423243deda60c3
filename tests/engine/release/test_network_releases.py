"""Releases of tenants' own networks end: clean, or with what is unknown, or by an operator."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.audit.test_sweep import sweep
from tests.engine.house import QUICK
from tests.engine.tenanthouse import TenantHouse
from weft.engine.base.database import Database
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, ForbiddenError, NotFoundError
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.testing.cloud_state import Thing

NODE = "gpu15"


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[TenantHouse]:
    house = TenantHouse(database, database_url)
    yield house
    house.close()


def dark(house: TenantHouse, yes: bool = True) -> None:
    """Let no manager of the fabric answer, or (False) all of them again."""
    for manager in house.fabric.managers:
        manager.reachable = not yes


def leaving(house: TenantHouse) -> tuple[Thing, OwnerRecord]:
    """A network that its tenant deleted while the fabric can't be read; a port of it was in its partition."""
    network = house.network()
    port = house.adapter(network, NODE)
    house.ready(network)
    owner = house.owner(network)
    dark(house)
    house.cloud.lose(port)
    house.cloud.lose(network)
    house.look()
    house.visit(owner)
    return network, house.see(owner.id)


def ended(house: TenantHouse, owner: OwnerRecord) -> Receipt:
    """Visit until the network's release ends; returns its receipt, which isn't clean."""
    owner = house.visit(owner, PodState.RELEASED)
    signed = house.store.records.receipt(owner.id)
    assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
    assert not signed.receipt.clean and signed.receipt.abandoned is not None
    return signed.receipt


def test_overdue_network_release_ends_with_what_is_unknown(house: TenantHouse) -> None:
    """After an hour of work on it, as a pod's: number and node are kept until both are cleared."""
    _, owner = leaving(house)
    house.clock.sleep(0.9 * QUICK.ends)
    assert house.visit(owner).state is PodState.RELEASING
    house.clock.sleep(0.2 * QUICK.ends)
    receipt = ended(house, owner)
    number = house.free_number()
    assert receipt.abandoned and receipt.abandoned.by == "weft"
    assert receipt.abandoned.kept == (f"segment/ib0 {number}",)
    assert receipt.quarantined == (NODE,) and {*house.store.capacity().quarantines} == {NODE}
    assert {i.result for i in receipt.items if i.plane == "segment"} == {"unknown"}
    assert house.numbers() == {number: owner.owner}
    dark(house, False)
    sweep(house)
    assert house.numbers() == {number: owner.owner}, "its node isn't cleared"
    assert house.store.clear_quarantine(NODE)
    sweep(house)
    assert house.numbers() == {} and not house.ports_in(number)


def test_network_release_is_tried_until_its_limit(house: TenantHouse) -> None:
    """A quarter of an hour quarantines what isn't seen clean; the proof comes as soon as the fabric is back."""
    _, owner = leaving(house)
    house.clock.sleep(0.5 * QUICK.ends)
    house.visit(owner)
    assert {*house.store.capacity().quarantines} == {NODE}, (
        "another tenant's server must not find the key there"
    )
    dark(house, False)
    house.visit(owner, PodState.RELEASED)
    signed = house.store.records.receipt(owner.id)
    assert signed is not None and signed.receipt.clean and signed.receipt.quarantined == (NODE,)
    assert house.numbers() == {}


def test_operator_abandons_a_release_that_cannot_finish(house: TenantHouse) -> None:
    """Others may not, and nothing else can be abandoned so; the receipt has user and reason."""
    network, owner = leaving(house)
    verbs, member, stranger = house.service, house.request("team-b"), house.request("team-c")
    with pytest.raises(ForbiddenError):
        verbs.networks.abandon(member, network.id, "in a hurry")
    with pytest.raises(NotFoundError):
        verbs.networks.abandon(stranger, network.id, "curious")
    with pytest.raises(ConflictError, match="is RELEASING: there is no receipt before its release"):
        verbs.networks.receipt(house.operator, network.id)
    assert verbs.networks.abandon(house.operator, network.id, "scrapped").state is PodState.RELEASING
    with pytest.raises(ConflictError, match="its end has been requested already"):
        verbs.networks.abandon(house.operator, network.id, "scrapped")
    receipt = ended(house, owner)
    assert receipt.abandoned is not None and receipt.abandoned.reason == "scrapped"
    assert receipt.quarantined == (NODE,) and house.numbers() == {house.free_number(): owner.owner}
    for name in (network.id, "mine"):
        assert verbs.networks.receipt(house.operator, name).receipt == receipt
    with pytest.raises(ForbiddenError):  # it names nodes and adapters
        verbs.networks.receipt(member, network.id)


def test_live_network_cannot_be_abandoned(house: TenantHouse) -> None:
    network = house.network()
    house.adapter(network, NODE)
    house.ready(network)
    with pytest.raises(ConflictError, match="is READY: only a release that can't finish can be abandoned"):
        house.service.networks.abandon(house.operator, network.id, "tidy")
    with pytest.raises(ConflictError, match="is READY: there is no receipt"):
        house.service.networks.receipt(house.operator, network.id)
    assert house.owner(network).state is PodState.READY


def test_sites_own_release_is_not_abandoned_by_weft_itself(house: TenantHouse) -> None:
    """It has no limit: the operator who destroys a site's resources is there to abandon it."""
    owner = house.visit(house.make("site"), PodState.READY)
    house.store.release(owner.id, "release asked")
    dark(house)
    house.visit(owner)
    house.clock.sleep(3 * QUICK.ends)
    assert house.visit(owner).state is PodState.RELEASING
    assert not house.store.capacity().quarantines

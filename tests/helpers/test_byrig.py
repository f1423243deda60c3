"""Tests that share a lab or a service run in one process."""

from __future__ import annotations

from tests.helpers.byrig import rig_of


def test_tests_that_share_a_lab_or_service_have_one_group() -> None:
    demos, live = "tests/e2e/test_demos.py", "tests/e2e/test_storage_live.py"
    contract = "tests/drivers/openstack/test_storage_contract.py"
    assert rig_of(f"{demos}::test_a") == rig_of(f"{demos}::test_b[roce]") == demos
    assert rig_of(f"{live}::test_a") == rig_of(f"{contract}::test_b[real]") != demos
    assert rig_of("tests/drivers/fabric_contract/test_a.py::test_b[eos]") == "eos"

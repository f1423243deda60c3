"""The service user's sessions on the lab, through proxies before Neutron and Nova that can lose answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.drivers.openstack.cutter import cutter
from tests.drivers.openstack.wired import Wired, connect
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.owner import Owner
from weft.ports.resources import Scope
from weftlab.lab import Lab


@pytest.fixture
def wired(lab: Lab, tmp_path: Path) -> Iterator[Wired]:
    """A driver for one test; everything with its site's mark is removed afterwards."""
    tenant = connect(lab.clouds_yaml, "team-a")
    network, compute = str(tenant.network.get_endpoint()), str(tenant.compute.get_endpoint())
    with cutter(network) as (neutron, neutron_url), cutter(compute) as (nova, nova_url):
        clouds = yaml.safe_load(lab.clouds_yaml.read_text())
        clouds["clouds"]["weft"].update(
            network_endpoint_override=neutron_url, compute_endpoint_override=nova_url
        )
        file = tmp_path / "clouds.yaml"
        file.write_text(yaml.safe_dump(clouds))
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        scope = Scope(
            f"wired-{uuid.uuid4().hex[:6]}", Owner.pod(str(uuid.uuid4())), "p", str(tenant.current_project_id)
        )
        yield Wired(sessions, driver, neutron, nova, scope, tenant)
        left = driver.marked(scope.site, [])
        for _ in range(100):
            if not left:
                break
            driver.remove_marked(left)
            left = driver.marked(scope.site, [])
        assert left == []
        driver.close()
        sessions.close()

"""Neutron with networking-mlnx's driver: only where it is asked for, before the other drivers, with weft's token."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

from weft.api.notices import PREFIX, read_token
from weftlab import config, jobs, mlnx
from weftlab.layout import LabError, Layout
from weftlab.service import Service
from weftlab.site import make_site, settings


def layout(folder: Path) -> Layout:
    return Layout(folder / "state", folder / "cache", 21000)


def test_driver_comes_first_and_has_wefts_token(tmp_path: Path) -> None:
    where = layout(tmp_path)
    site = make_site(settings(tenant_networks=True), where)
    mlnx.write_token(where)
    token = read_token(mlnx.token_path(where), "--neutron-token")
    mlnx.write_token(where)
    assert read_token(mlnx.token_path(where), "--neutron-token") == token
    assert stat.S_IMODE(mlnx.token_path(where).stat().st_mode) & 0o007 == 0
    plain = config.neutron(where, tmp_path)
    found = mlnx.with_driver(plain, where, site)
    assert found["ml2"]["mechanism_drivers"] == "mlnx_sdn_assist,sriovnicswitch,openvswitch"
    assert found["sdn"]["token"] == token and found["sdn"]["physical_networks"] == "ibnet"
    assert found["sdn"]["url"] == where.url("front") + PREFIX
    assert plain["ml2"]["mechanism_drivers"] == "sriovnicswitch,openvswitch" and "sdn" not in plain


def test_both_neutron_processes_have_the_driver_after_its_tables(tmp_path: Path) -> None:
    where = layout(tmp_path)
    for served in (True, False):
        chosen = settings(tenant_networks=served, ipus=0)
        site = make_site(chosen, where)
        assert mlnx.is_served(site) is served
        made = jobs.all_jobs(where, chosen, site, tmp_path, lambda work: None)
        services = {s.name: s for s in made if isinstance(s, Service)}
        for name in ("neutron", "neutron-rpc"):
            assert ("PYTHONPATH" in services[name].env) is served
            assert ("schema of mlnx" in services[name].after) is served
        assert ("--neutron-token" in services["weft"].argv) is served
        assert any(j.name == "schema of mlnx" for j in made) is served
        assert "PYTHONPATH" not in services["nova"].env


def test_drivers_tables_are_created_again_only_after_a_failure(tmp_path: Path) -> None:
    """Starting a lab again skips the step, which takes seconds, unless it failed before."""
    where = layout(tmp_path)
    (where.data / "neutron").mkdir(parents=True)
    site = make_site(settings(tenant_networks=True), where)
    program = tmp_path / "env" / "bin" / "neutron-db-manage"
    program.parent.mkdir(parents=True)
    for code, expected in ((1, False), (0, True)):
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
        step = mlnx.schema_step(where, tmp_path / "env", site, ())
        assert step.done is not None and not step.done()
        with suppress(LabError):
            step.run()
        assert step.done() is expected
    again = mlnx.schema_step(where, tmp_path / "env", site, ())
    assert again.done is not None and again.done()

"""The lab's ports, folders, graph of jobs, and configuration files."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from weftlab.config import render
from weftlab.jobs import all_jobs, services_of
from weftlab.layout import PORT_OFFSETS, PORTS_EACH, LabError, Layout, free_ports, load, save
from weftlab.service import Job, Service, Step, order, without
from weftlab.site import make_site, settings

FILLED = Path("/")


def jobs_of(layout: Layout, **asked: object) -> tuple[Job, ...]:
    chosen = settings(computes=2, **asked)  # pyright: ignore[reportArgumentType]
    return all_jobs(layout, chosen, make_site(chosen, layout), FILLED, lambda work: work())


def test_two_labs_share_no_port() -> None:
    """Every port is in the lab's own range, and ranges don't overlap."""
    assert len(set(PORT_OFFSETS.values())) == len(PORT_OFFSETS)
    assert max(PORT_OFFSETS.values()) < PORTS_EACH
    first, second = (Layout(Path("/a"), Path("/c"), base) for base in (22000, 22000 + PORTS_EACH))
    assert not {first.port(n) for n in PORT_OFFSETS} & {second.port(n) for n in PORT_OFFSETS}


def test_used_port_is_reported_with_its_service() -> None:
    layout = Layout(Path("/a"), Path("/c"), free_ports())
    assert layout.taken_ports() == {}
    with socket.create_server(("127.0.0.1", layout.port("neutron"))):
        assert layout.taken_ports() == {"neutron": layout.port("neutron")}


def test_jobs_of_two_labs_share_no_path_or_port(tmp_path: Path) -> None:
    """Paths, ports, and the simulator's socket."""
    one = Layout(tmp_path / "one", tmp_path / "cache", 22000)
    two = Layout(tmp_path / "two", tmp_path / "cache", 23000)
    mine = services_of(jobs_of(one))
    for other, own in ((two, mine), (one, services_of(jobs_of(two)))):
        words = [w for s in own for w in (*s.argv, *s.env.values(), str(s.log), str(s.cwd))]
        assert not [w for w in words if str(other.state) in w]
        assert not [w for w in words for n in PORT_OFFSETS if str(other.port(n)) in w]
    sockets = {s.env.get("IBSIM_SOCKNAME") for s in (*mine, *services_of(jobs_of(two)))} - {None}
    assert len(sockets) == 2


def test_fabric_alone_has_no_openstack_jobs(tmp_path: Path) -> None:
    """`--only fabric` has just the simulator, two subnet managers and two agents."""
    names = {s.name for s in services_of(jobs_of(Layout(tmp_path, tmp_path, 22000), fabric_only=True))}
    assert names == {"ibsim", "opensm-sm1", "opensm-sm2", "agent-sm1", "agent-sm2"}


def test_no_job_waits_for_one_that_is_left_out(tmp_path: Path) -> None:
    """`--without` passes on what the left-out jobs waited for, so that the rest still starts in order."""
    layout = Layout(tmp_path, tmp_path, 22000)
    names = [j.name for j in order(jobs_of(layout, left_out=("weft", "nova-fleet", "computes")))]
    assert "nova-fleet" not in names and "weft" not in names and "neutron-agents" in names


def test_job_graph_with_cycle_unknown_or_duplicate_name_is_refused() -> None:
    """The error names the jobs."""
    a, b = Step("a", lambda: None, after=("b",)), Step("b", lambda: None, after=("a",))
    with pytest.raises(ValueError, match="a -> b -> a"):
        order((a, b))
    with pytest.raises(ValueError, match="a waits for b, which is not there"):
        order((a,))
    with pytest.raises(ValueError, match="two jobs are named a"):
        order((a, a))
    assert [j.name for j in without((a, Step("b", lambda: None)), frozenset({"b"}))] == ["a"]


def test_state_folder_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    """The sentence has the path and what to do."""
    with pytest.raises(LabError, match="give a shorter --state"):
        Layout(tmp_path / ("x" * 100), tmp_path, 22000).check()
    with pytest.raises(LabError, match="--ports 80 "):
        Layout(tmp_path, tmp_path, 80).check()


def test_settings_of_a_lab_are_stored(tmp_path: Path) -> None:
    """For `down` and `status`; without the file, or with a broken one, there is no lab."""
    layout, chosen = Layout(tmp_path, tmp_path, 22000), settings(nodes=4, left_out=("weft",))
    assert load(tmp_path) is None
    save(layout, chosen)
    assert load(tmp_path) == chosen
    layout.settings_path.write_text("{")
    assert load(tmp_path) is None


def test_configuration_is_valid_for_oslo() -> None:
    """Lists repeat the option, booleans are in lower case, sections keep their order."""
    text = render({"a": {"x": True, "y": [1, "two"]}, "b": {"z": 0}})
    assert text == "[a]\nx = true\ny = 1\ny = two\n\n[b]\nz = 0\n"


def test_each_service_works_and_logs_in_the_state_folder(tmp_path: Path) -> None:
    """The whole graph can be ordered, and no service writes outside of the lab's folder."""
    layout = Layout(tmp_path / "s", tmp_path / "c", 22000)
    jobs = jobs_of(layout)
    assert len(order(jobs)) == len(jobs)
    for service in (j for j in jobs if isinstance(j, Service)):
        assert service.log.is_relative_to(layout.state)
        assert service.cwd is not None and service.cwd.is_relative_to(layout.state)

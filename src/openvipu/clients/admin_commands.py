"""The commands of ``vipu-admin`` beyond partitions."""

from __future__ import annotations

import argparse
from pathlib import Path

from openvipu.clients.config import FILE_NAME, user_file
from openvipu.clients.session import CommandError, Session, complain, ruled, say, sheet, table
from openvipu.proto import admin_pb2 as pb
from openvipu.proto import vipuuser_pb2


def names(text: str) -> list[str]:
    """A comma-separated list of names."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return found


def create_agent(session: Session, arguments: argparse.Namespace) -> None:
    """Add an agent by its address."""
    what = f"create agent ({arguments.name})"
    request = pb.CreateAgentRequest(
        id=arguments.name, spec=pb.AgentSpec(host=arguments.host, port=arguments.port)
    )
    session.succeeded(what, session.call(what, session.admin.CreateAgent, request))


def get_agent(session: Session, arguments: argparse.Namespace) -> None:
    """Show an agent and its IPUs."""
    what = f"get agent ({arguments.name})"
    reply = session.call(what, session.admin.GetAgent, pb.GetAgentRequest(id=arguments.name))
    session.show(reply, lambda: "\n".join([agent_sheet(reply.agent), "", ipu_table(reply.agent)]))


def list_agents(session: Session, arguments: argparse.Namespace) -> None:
    """Show all agents."""
    reply = session.call("list agents", session.admin.ListAgents, pb.ListAgentsRequest())
    session.show(reply, lambda: agent_table(list(reply.agents)))


def remove_agent(session: Session, arguments: argparse.Namespace) -> None:
    """Remove an agent; with ``--force`` also one that doesn't answer."""
    what = f"remove agent ({arguments.name})"
    request = pb.RemoveAgentRequest(id=arguments.name, force=arguments.force)
    session.succeeded(what, session.call(what, session.admin.RemoveAgent, request))


def discover_agents(session: Session, arguments: argparse.Namespace) -> None:
    """Show agents that announce themselves, and under which names they can be added."""
    reply = session.call("discover agent", session.admin.DiscoverAgents, pb.DiscoverAgentsRequest())
    header = ["Host", "Port", "Network Interface", "Time Since Last Seen", "Agent Auto-Add ID"]
    rows = [
        [entry.host, entry.port, entry.interface, f"{entry.seconds_since_seen}s", entry.suggested_id]
        for entry in reply.discovered
    ]
    session.show(reply, lambda: ruled(table(header, rows)))


def agent_table(agents: list[pb.Agent]) -> str:
    """Table of agents, one in each row."""
    header = ["Agent", "Host", "Port", "State", "Serial", "Software", "RNIC", "IPUs in use"]
    rows = [
        [
            agent.id,
            agent.spec.host,
            agent.spec.port,
            "UP" if agent.status.reachable else "DOWN",
            agent.status.serial,
            agent.status.software_version,
            agent.status.rnic_address,
            f"{sum(1 for ipu in agent.status.ipus if ipu.partition_id)}/{len(agent.status.ipus)}",
        ]
        for agent in agents
    ]
    return ruled(table(header, rows))


def agent_sheet(agent: pb.Agent) -> str:
    """The public table of one agent begins with these five lines; ``Exporter`` leads to its metrics [D]."""
    status = agent.status
    used = sum(1 for ipu in status.ipus if ipu.partition_id)
    return sheet(
        [
            ("Agent ID", agent.id),
            ("Host", agent.spec.host),
            ("Port", agent.spec.port),
            ("Status", "Up" if status.reachable else "Down"),
            ("Exporter", status.exporter or "-"),
            ("Product", status.product),
            ("Board serial number", status.serial),
            ("Software version", status.software_version),
            ("GWSW Version", status.gateway_version),
            ("RNIC", status.rnic_address),
            ("IPUs in use", f"{used}/{len(status.ipus)}"),
        ]
    )


def ipu_table(agent: pb.Agent) -> str:
    """Table of the IPUs of the agent's machine."""
    rows = [
        [ipu.number, ipu.chip_id, "yes" if ipu.healthy else "no", ipu.partition_id or "-"]
        for ipu in agent.status.ipus
    ]
    return ruled(table(["IPU", "Chip", "Healthy", "Partition"], rows))


def create_cluster(session: Session, arguments: argparse.Namespace) -> None:
    """Make a cluster of agents with a topology."""
    what = f"create cluster ({arguments.name})"
    spec = pb.ClusterSpec(
        topology=arguments.topology,
        cluster_topology=arguments.cluster_topology,
        num_ipulink_domains=arguments.num_ipulinkdomains,
        agent_ids=arguments.agents,
    )
    request = pb.CreateClusterRequest(id=arguments.name, spec=spec)
    session.succeeded(what, session.call(what, session.admin.CreateCluster, request))


def get_cluster(session: Session, arguments: argparse.Namespace) -> None:
    """Show a cluster."""
    what = f"get cluster ({arguments.name})"
    reply = session.call(what, session.admin.GetCluster, pb.GetClusterRequest(id=arguments.name))
    session.show(reply, lambda: cluster_table([reply.cluster]))


def list_clusters(session: Session, arguments: argparse.Namespace) -> None:
    """Show all clusters."""
    reply = session.call("list clusters", session.admin.ListClusters, pb.ListClustersRequest())
    session.show(reply, lambda: cluster_table(list(reply.clusters)))


def remove_cluster(session: Session, arguments: argparse.Namespace) -> None:
    """Remove a cluster without partitions."""
    what = f"remove cluster ({arguments.name})"
    request = pb.RemoveClusterRequest(id=arguments.name)
    session.succeeded(what, session.call(what, session.admin.RemoveCluster, request))


def cluster_table(clusters: list[pb.Cluster]) -> str:
    """Table of clusters, one in each row."""
    header = ["Cluster", "Topology", "Cluster Topology", "ILDs", "Agents"]
    rows = [
        [
            entry.id,
            entry.spec.topology,
            entry.spec.cluster_topology,
            entry.spec.num_ipulink_domains,
            " ".join(entry.spec.agent_ids),
        ]
        for entry in clusters
    ]
    return ruled(table(header, rows))


def test_cluster(session: Session, arguments: argparse.Namespace) -> None:
    """The table, then a line for every failure; CommandError if there is one."""
    what = f"test cluster ({arguments.name})"
    request = pb.TestClusterRequest(id=arguments.name, tests=arguments.test)
    reply = session.call(what, session.admin.TestCluster, request, timeout=600)
    rows = [
        [
            result.test_type,
            f"{result.duration_seconds:.2f}s",
            f"{result.passed}/{result.total}",
            result.summary,
        ]
        for result in reply.results
    ]
    failures = [f"{result.test_type}: {text}" for result in reply.results for text in result.failures]
    session.show(reply, lambda: ruled(table(["Test Type", "Duration", "Passed", "Summary"], rows)))
    for failure in failures:
        complain(failure)
    if failures:
        raise CommandError(what, f"{len(failures)} checks failed")


def create_allocation(session: Session, arguments: argparse.Namespace) -> None:
    """Give part of a cluster to users; with ``--options`` show what could be given."""
    what = f"create allocation ({arguments.name})"
    request = pb.CreateAllocationRequest(
        id=arguments.name, cluster_id=arguments.cluster, size=arguments.size, agent_ids=arguments.agents
    )
    if arguments.options:
        reply = session.call(what, session.admin.ListAllocationOptions, request)
        if not reply.options:
            raise CommandError(what, "no free allocation")
        session.show(reply, lambda: allocation_table(list(reply.options)))
        return
    session.succeeded(what, session.call(what, session.admin.CreateAllocation, request))


def get_allocation(session: Session, arguments: argparse.Namespace) -> None:
    """Show an allocation."""
    what = f"get allocation ({arguments.name})"
    reply = session.call(what, session.admin.GetAllocation, pb.GetAllocationRequest(id=arguments.name))
    session.show(reply, lambda: allocation_table([reply.allocation]))


def list_allocations(session: Session, arguments: argparse.Namespace) -> None:
    """Show all allocations."""
    reply = session.call("list allocations", session.admin.ListAllocations, pb.ListAllocationsRequest())
    session.show(reply, lambda: allocation_table(list(reply.allocations)))


def remove_allocation(session: Session, arguments: argparse.Namespace) -> None:
    """Remove an allocation."""
    what = f"remove allocation ({arguments.name})"
    request = pb.RemoveAllocationRequest(id=arguments.name)
    session.succeeded(what, session.call(what, session.admin.RemoveAllocation, request))


def allocation_table(allocations: list[vipuuser_pb2.Allocation]) -> str:
    """The public table: a rule above, below and under the header."""
    rows = [[entry.id, " ".join(entry.spec.agent_ids)] for entry in allocations]
    return ruled(table(["Allocation ID", "Agents"], rows), above=True, below=True)


def create_user(session: Session, arguments: argparse.Namespace) -> None:
    """Create the user and write a configuration file for it here, which only its owner can read."""
    what = f"create user ({arguments.name})"
    request = pb.CreateUserRequest(
        id=arguments.name, allocation_ids=arguments.allocations, admin=arguments.admin
    )
    reply = session.call(what, session.admin.CreateUser, request)
    session.succeeded(what, reply, f" Access key is '{reply.access_key}'.")
    path = Path(f"{arguments.name}.{FILE_NAME}")
    text = user_file(session.connection.host, str(reply.user_port), arguments.name, reply.access_key)
    try:
        path.touch(mode=0o600)
        path.write_text(text)
    except OSError as error:
        complain(f"configuration file {path} can't be written: {error.strerror}")
        return
    if not session.show_json:
        say(f"vipu configuration file for the user '{arguments.name}' written: {path}")
        say(f"Use 'vipu --config {path}' to switch to the user context.")


def update_user(session: Session, arguments: argparse.Namespace) -> None:
    """Replace the allocations of a user."""
    what = f"update user ({arguments.name})"
    request = pb.UpdateUserRequest(id=arguments.name, allocation_ids=arguments.allocations)
    session.succeeded(what, session.call(what, session.admin.UpdateUser, request))


def list_users(session: Session, arguments: argparse.Namespace) -> None:
    """Show all users with their roles and allocations."""
    reply = session.call("list users", session.admin.ListUsers, pb.ListUsersRequest())
    rows = [
        [user.id, "admin" if user.admin else "user", " ".join(user.allocation_ids) or "-"]
        for user in reply.users
    ]
    session.show(reply, lambda: ruled(table(["User", "Role", "Allocations"], rows)))


def remove_user(session: Session, arguments: argparse.Namespace) -> None:
    """Remove a user, whose key is refused from now on."""
    what = f"remove user ({arguments.name})"
    request = pb.RemoveUserRequest(id=arguments.name)
    session.succeeded(what, session.call(what, session.admin.RemoveUser, request))

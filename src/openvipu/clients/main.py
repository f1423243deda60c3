"""``vipu`` and ``vipu-admin``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from openvipu.clients import admin_commands as admin
from openvipu.clients import apply, completion, partitions
from openvipu.clients.config import resolve
from openvipu.clients.session import CommandError, Session, complain, ruled, say, table
from openvipu.clients.tree import FORCE, NAME, Tree, option
from openvipu.model.errors import Refusal
from openvipu.proto import catalog_pb2, version_pb2
from openvipu.proto import vipuuser_pb2 as pb

ALLOCATION = option("--allocation", default="", help="only of this allocation")
CLUSTER = option("--cluster", default="", help="the cluster to take the machines from")
ALLOCATIONS = option("--allocations", type=admin.names, default=[], help="comma-separated allocations")
RELOCATABLE = option("--relocatable", action="store_true", help="may move to other IPUs")


def vipu(argv: list[str] | None = None) -> int:
    """The users' command line."""
    tree = Tree("vipu", "Partitions of IPUs, for users.")
    _add_partitions(tree, Path.home())
    tree.add("list", "allocation", _list_allocations, "list the allocations that you may use")
    tree.add(
        "list", "ipu-attr", _list_attributes, "list the attributes of your IPUs", option("agents", nargs="*")
    )
    return _run(tree, argv, is_admin=False)


def vipu_admin(argv: list[str] | None = None) -> int:
    """The administrators' command line."""
    tree = Tree("vipu-admin", "Agents, clusters, allocations, users and partitions, for administrators.")
    _add_partitions(tree, None)
    _add_agents(tree)
    _add_clusters(tree)
    _add_allocations(tree)
    tree.add(
        "create", "user", admin.create_user, "create a user", NAME, ALLOCATIONS,
        option("--admin", action="store_true", help="an administrator"),
    )  # fmt: skip
    tree.add(
        "update", "user", admin.update_user, "give a user another list of allocations", NAME, ALLOCATIONS
    )
    tree.add("list", "user", admin.list_users, "list the users")
    tree.add("remove", "user", admin.remove_user, "remove a user", NAME)
    tree.add("list", "ipu-attr", _list_attributes, "list the attributes of IPUs", option("agents", nargs="*"))
    tree.add_command(
        "apply", apply.apply, "make what a JSON file lists; may be repeated",
        option("file"),
        option("--wait", type=partitions.count, default=0, help="seconds to wait for agents to answer"),
    )  # fmt: skip
    return _run(tree, argv, is_admin=True)


def _add_partitions(tree: Tree, home: Path | None) -> None:
    def create(session: Session, arguments: argparse.Namespace) -> None:
        partitions.create(session, arguments, home)

    def remove(session: Session, arguments: argparse.Namespace) -> None:
        partitions.remove(session, arguments, home)

    def reset(session: Session, arguments: argparse.Namespace) -> None:
        partitions.reset(session, arguments, home)

    tree.add("create", "partition", create, "create a partition", partitions.add_create_options)
    tree.add("remove", "partition", remove, "remove a partition", NAME, FORCE)
    tree.add("reset", "partition", reset, "reset a partition", NAME, RELOCATABLE)
    tree.add("list", "partition", partitions.show_all, "list partitions", ALLOCATION)
    tree.add(
        "get", "partition", partitions.show, "show a partition", NAME,
        option("--gcd", type=partitions.count, help="this GCD only"),
        option("--ipuof-configs", action="store_true", help="print what Poplar reads"),
    )  # fmt: skip


def _add_agents(tree: Tree) -> None:
    tree.add(
        "create", "agent", admin.create_agent, "add an agent", NAME,
        option("--host", required=True, help="of the IPU-Gateway"),
        option("--port", type=partitions.count, default=8080),
    )  # fmt: skip
    tree.add("get", "agent", admin.get_agent, "show an agent", NAME)
    tree.add("list", "agent", admin.list_agents, "list the agents")
    tree.add("remove", "agent", admin.remove_agent, "remove an agent", NAME, FORCE)
    tree.add("discover", "agent", admin.discover_agents, "list the agents that announced themselves")


def _add_clusters(tree: Tree) -> None:
    tree.add(
        "create", "cluster", admin.create_cluster, "create a cluster", NAME,
        option("--agents", type=admin.names, required=True, help="comma-separated, in cable order"),
        option("--topology", default="mesh", help="mesh or torus"),
        option("--cluster-topology", default="none", help="none, looped or switched"),
        option("--num-ipulinkdomains", type=partitions.count, default=1),
    )  # fmt: skip
    tree.add("get", "cluster", admin.get_cluster, "show a cluster", NAME)
    tree.add("list", "cluster", admin.list_clusters, "list the clusters")
    tree.add("remove", "cluster", admin.remove_cluster, "remove a cluster", NAME)
    tree.add(
        "test", "cluster", admin.test_cluster, "test cables and links of a cluster without partitions", NAME,
        option("--test", action="append", default=[], help="this test only (may be repeated)"),
    )  # fmt: skip


def _add_allocations(tree: Tree) -> None:
    tree.add(
        "create", "allocation", admin.create_allocation, "create an allocation", NAME, CLUSTER,
        option("--size", type=partitions.count, default=0, help="IPUs"),
        option("--agents", type=admin.names, default=[], help="exactly these, comma-separated"),
        option("--options", action="store_true", help="list the possible places, create nothing"),
    )  # fmt: skip
    tree.add("get", "allocation", admin.get_allocation, "show an allocation", NAME)
    tree.add("list", "allocation", admin.list_allocations, "list the allocations")
    tree.add("remove", "allocation", admin.remove_allocation, "remove an allocation", NAME)


def _list_allocations(session: Session, arguments: argparse.Namespace) -> None:
    request = catalog_pb2.ListAllocationsRequest()
    reply = session.call("list allocations", session.catalog.ListAllocations, request)
    session.show(reply, lambda: admin.allocation_table(list(reply.allocations)))


def _list_attributes(session: Session, arguments: argparse.Namespace) -> None:
    """The public table: agent and IPU stand once, in the first row of their group."""
    request = pb.ListIPUAttributesRequest(agents=arguments.agents)
    reply = session.call("list ipu-attrs", session.users.ListIPUAttributes, request)
    rows: list[list[object]] = []
    for entry in reply.entries:
        agent: object = entry.agent
        for number, attributes in sorted(entry.ipu_attributes.items()):
            ipu: object = number
            for name, value in sorted(attributes.attributes.items()):
                rows.append([agent, ipu, name, value])
                agent = ipu = ""
    session.show(reply, lambda: ruled(table(["Agent", "IPU", "Attribute", "Value"], rows)))


def _run(tree: Tree, argv: list[str] | None, is_admin: bool) -> int:
    """The exit status: 0, 1 for what the controller refused or a fault, 2 for bad input."""
    tree.add_plain(
        "completion", completion.show, "print a completion script", option("shell", choices=completion.SHELLS)
    )
    arguments = tree.parser.parse_args(argv)
    try:
        return _do(tree, arguments, is_admin)
    except CommandError as failure:
        complain(str(failure))
        return failure.status
    except Refusal as refusal:
        complain(f"{tree.parser.prog}: {refusal}")
        return 2
    except KeyboardInterrupt:
        complain("interrupted; the controller goes on with what it was asked")
        return 130
    except BrokenPipeError:
        # the reader of the pipe has closed it; keep Python from failing on it again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _do(tree: Tree, arguments: argparse.Namespace, is_admin: bool) -> int:
    if hasattr(arguments, "plain"):
        arguments.plain(tree.parser, arguments)
        return 0
    if not arguments.verb and not arguments.server_version:
        tree.parser.print_help()
        return 2
    names = ("api-host", "api-port", "config", "api-user-id", "api-access-key", "tls")
    flags = {name: getattr(arguments, name.replace("-", "_")) for name in names}
    connection = resolve(flags, os.environ, Path.home(), Path.cwd(), is_admin)
    session = Session(connection, arguments.showjson, is_admin)
    with session.channel:
        if arguments.server_version:
            reply = session.call("server version", session.versions.GetVersion, version_pb2.VersionRequest())
            say(f"version: {reply.version}\nhost: {connection.target}")
        else:
            arguments.action(session, arguments)
    return 0

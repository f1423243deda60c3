"""`weft site export`: the site's cloud, or its networks, as files of other tools. Works without a server."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, leaf, say, write_json

FORMATS = ("kolla", "kayobe", "tripleo", "terraform", "prometheus")
"""As in `weft.planning.export.formats`, which isn't imported for `weft --help`."""


def add_site_commands(subparsers: Subparsers) -> None:
    """Register `weft site export`."""
    command = leaf(
        subparsers, "export", _export, "generate a deployment tool's files from a site file", api=False
    )
    command.add_argument("file", metavar="FILE", help="site file (YAML)")
    command.add_argument(
        "--format",
        choices=FORMATS,
        required=True,
        help="kolla: Kolla Ansible's inventory, globals.yml and config; kayobe: Kayobe's configuration of the same; "
        "tripleo: the reference guide's file set for TripleO; terraform: the site's own networks, as weft site apply "
        "creates them, for Terraform; prometheus: configuration, rules and dashboards of Prometheus, Alertmanager and "
        "Grafana",
    )
    command.add_argument(
        "--cloud",
        metavar="NAME",
        help="cloud of the site; default: the only one with a deployment, or for terraform with networks",
    )
    command.add_argument("-o", "--output", metavar="DIR", required=True, help="directory for the files")
    command.add_argument(
        "--live",
        action="store_true",
        help="with terraform: read the cloud as weft's service user, and add import blocks for existing resources",
    )
    command.add_argument(
        "--cloud-profile",
        metavar="NAME",
        help="with terraform: profile of weft's service user in clouds.yaml; default: that of the site's cloud",
    )
    command.add_argument(
        "--force",
        action="store_true",
        help="overwrite files that were changed since the last export, and allow other files in the directory",
    )


def _export(args: argparse.Namespace) -> int:
    from weft.app.siteexport import export_site

    done = export_site(
        args.file, args.format, args.cloud, args.output, args.force, args.live, args.cloud_profile
    )
    if args.json:
        write_json({"written": done.written, "same": done.same, "removed": done.removed, "notes": done.notes})
        return 0
    for path in done.written:
        say(path)
    for path in done.removed:
        say(f"removed: {path}")
    for note in done.notes:
        say(f"note: {note}")
    say(f"{len(done.written)} written, {done.same} already the same, {len(done.removed)} removed")
    return 0

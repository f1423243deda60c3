"""`weft site`: check, import, export, activate, show, impact, enroll, design: the site file and the active site."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from weft.cli import (
    health,
    links,
    place,
    siteenroll,
    siteexport,
    siteimpact,
    siteimport,
    siteresources,
    use,
)
from weft.cli.common import Subparsers, client_of, exit_code, group, leaf, read_stdin, say, warn, write_json
from weft.cli.output import Listing, Record, listed, shown
from weft.cli.siteactivate import activate

if TYPE_CHECKING:
    from weft.model.livecheck import LiveCheck
    from weft.model.site import Site
    from weft.planning.fabric.diff import FabricDifference

_BY_HAND = frozenset({"CERTIFICATE_EXPIRED", "CERTIFICATE_SUPERSEDED", "AUTHORITY_OFFLINE"})


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft site` and its sub-commands."""
    commands = group(subparsers, "site", "the site: machines, switches, cables, ranges")
    check = leaf(commands, "check", _check, "check a site file, and compare it with the fabric", api=False)
    _check_options(check)
    sending = leaf(commands, "activate", activate, "check a site file and activate it")
    sending.add_argument("file", metavar="FILE", help="site file (YAML)")
    sending.add_argument(
        "--base",
        metavar="N",
        type=int,
        help="generation that the file is based on (weft site show); refused if another one is active. "
        "Default: the active one",
    )
    shown(commands, "show", _show, "show the active site and its fabrics")
    health.add_site_commands(commands)
    use.add_site_commands(commands)
    siteimpact.add_site_commands(commands)
    listed(
        commands, "certs", _certs, "list certificates of agents, when they end, and whether they are renewed"
    )
    links.add_site_commands(commands)
    siteresources.add_site_commands(commands)
    siteimport.add_site_commands(commands)
    siteexport.add_site_commands(commands)
    siteenroll.add_site_commands(commands)
    place.add_site_commands(commands)


def _check_options(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", metavar="FILE", help="site file (YAML)")
    check.add_argument(
        "--fabric", metavar="TEXT", help="output of ibnetdiscover to compare with; - for stdin"
    )
    check.add_argument(
        "--fabric-name", metavar="NAME", help="name of the fabric in the site; default: the only one"
    )
    check.add_argument(
        "--write-links",
        metavar="CSV",
        help="with --fabric: adopt the discovered cabling and write all links of the site to this file",
    )
    check.add_argument(
        "--lldp",
        metavar="JSON",
        nargs="+",
        default=[],
        help="output of `lldpcli -f json0 show neighbors`, or Ironic's inspection data, of some devices, to compare"
        " Ethernet cables with; each file is named after its device (tor1.json)",
    )
    check.add_argument(
        "--adapters",
        metavar="JSON",
        nargs="+",
        default=[],
        help="RoCE settings of hosts' adapters (docs/fabric-ethernet.md) to compare with the site's; each file is"
        " named after its node (gpu01.json)",
    )
    check.add_argument(
        "--live",
        action="store_true",
        help="also query the fabrics' managers: subnet managers' settings that isolation depends on, switches' ports,"
        " cables and RoCE settings (this host needs the certificates and credentials that the site names)",
    )
    check.add_argument(
        "--cloud-profile",
        metavar="NAME",
        help="with --live: also read the clouds' host aggregates, and the roles of weft's own user, as that user "
        "(profile in clouds.yaml)",
    )


def _check(args: argparse.Namespace) -> int:
    """`weft site check`: 0, or 1 if the fabric differs or --live found something. Raises `InputErrors`."""
    from weft.app.drivers import missing_extras
    from weft.app.livecheck import certificate_notes, unread_notes
    from weft.app.portclash import clash_notes
    from weft.app.sitecompare import compare, compare_adapters, compare_lldp, write_links
    from weft.app.sitefile import load_site
    from weft.model.errors import InputError
    from weft.planning.site.check import hints

    if args.fabric is None and (args.fabric_name or args.write_links):
        raise InputError("--fabric", None, "the output of ibnetdiscover to compare with")
    if args.cloud_profile is not None and not args.live:
        raise InputError("--cloud-profile", args.cloud_profile, "only with --live")
    site = load_site(args.file, links_needed=args.write_links is None)
    differences: tuple[FabricDifference, ...] = ()
    partial: tuple[str, ...] = ()
    written: int | None = None
    notes = (*hints(site), *missing_extras(site), *certificate_notes(site), *clash_notes(site))
    live = _live(site, args.cloud_profile) if args.live else None
    if args.live and args.cloud_profile is None:
        notes = (*notes, *unread_notes(site))
    if args.fabric is not None:
        piped = args.fabric == "-"
        name, observed, differences = compare(
            site, "<stdin>" if piped else args.fabric, args.fabric_name, read_stdin() if piped else None
        )
        partial = observed.partial
        if args.write_links is not None:
            written, remaining = write_links(site, name, observed, args.write_links)
            notes = (*notes, *remaining)
    differences += compare_lldp(site, args.lldp)
    settings, uncompared = compare_adapters(site, args.adapters)
    notes = (*notes, *uncompared)
    wrong = differences or partial or settings or (live is not None and not live.good)
    code = exit_code(args, wrong)
    if args.json:
        write_json(
            {
                "site": site.name,
                "counts": _counts(site),
                "notes": list(notes),
                "differences": [d.model_dump() for d in differences],
                **({"partial": list(partial)} if partial else {}),
                **({"adapters": list(settings)} if args.adapters else {}),
                "links_written": written,
                **({"live": live.model_dump(mode="json")} if live is not None else {}),
            }
        )
    else:
        _print_check(site, notes, differences, args, written, partial)
        if args.adapters:
            say(f"adapters: {len(settings) or 'no'} setting{'' if len(settings) == 1 else 's'} to change")
        for line in settings:
            say(f"  {line}")
        if live is not None:
            _report_live(live)
    return code


def _live(site: Site, profile: str | None) -> LiveCheck:
    """Query the managers. Args: profile: of weft's own user, to read its roles and the clouds' aggregates, or None."""
    from weft.app.livecheck import check_accounts, check_aggregates, check_live

    live = check_live(site)
    return live if profile is None else live + check_accounts(site, profile) + check_aggregates(site, profile)


def _report_live(live: LiveCheck) -> None:
    asked = f"{live.managers} manager{'' if live.managers == 1 else 's'} queried"
    wrong = len(live.weaknesses)
    say(f"live: {asked}, {wrong or 'no'} setting{'' if wrong == 1 else 's'} to change")
    for problem in live.problems:
        say(f"  problem: {problem}")
    for cable in live.differences:
        say(f"  {cable.kind}: {cable.what}")
    for note in live.notes:
        say(f"  note: {note}")
    for one in live.weaknesses:
        say(f"  {one.fabric}, {one.manager}: {one.setting} is {one.found}, must be {one.wanted}")
        say(f"    without it a tenant with root on a server can: {one.allows}")


def _print_check(
    site: Site,
    notes: tuple[str, ...],
    differences: tuple[FabricDifference, ...],
    args: argparse.Namespace,
    written: int | None,
    partial: tuple[str, ...],
) -> None:
    counts = ", ".join(f"{what} {number}" for what, number in _counts(site).items())
    say(f"site {site.name}: the file is valid: {counts}")
    for note in notes:
        say(f"note: {note}")
    if args.fabric is not None or args.lldp:
        shown = " in what a partial discovery shows" if partial else ""
        say(f"fabric: {len(differences) or 'no'} difference{'' if len(differences) == 1 else 's'}{shown}")
    for line in differences:
        say(f"  {line.kind}: {line.what}")
    for why in partial:
        say(f"  partial: {why}; nodes and cables that aren't shown may be there")
    if written is not None:
        say(f"{written} links written to {args.write_links}")


def _counts(site: Site) -> dict[str, int]:
    return {
        "nodes": len(site.nodes),
        "compute nodes": sum(n.role == "compute" for n in site.nodes),
        "adapters": sum(len(n.hcas) for n in site.nodes),
        "accelerators": sum(len(n.accelerators) for n in site.nodes),
        "switches": len(site.switches),
        "links": site.link_count,
        "racks": len(site.racks),
        "fabrics": len(site.fabrics),
        "clouds": len(site.clouds),
        **{what: number for what, number in _further(site).items() if number},
    }


def _further(site: Site) -> dict[str, int]:
    """Counts of kinds that not every site has."""
    return {
        "IPU-Machines": len(site.ipu_machines),
        "networks": len(site.networks),
        "devices": len(site.devices),
        "interfaces": len(site.interfaces),
    }


def _show(args: argparse.Namespace) -> Record:
    """`weft site show`; with `--json` the whole site."""
    client = client_of(args)
    if args.json:
        return Record({}, client.site.whole())
    view = client.site.show()
    names = ("name", "generation", "activated_at", "activated_by", "nodes", "switches", "links")
    fabrics = view.get("fabrics") or ()
    managers = [{**one, "fabric": f["fabric"]} for f in fabrics for one in f["managers"]]
    problems = [{"fabric": f["fabric"], "problem": said} for f in fabrics for said in f.get("problems") or ()]
    details = {
        "fabrics": Listing(("fabric", "name", "state", "problems"), managers),
        "problems": Listing(("fabric", "problem"), problems),
    }
    return Record({name: view.get(name) for name in names}, view, details)


def _certs(args: argparse.Namespace) -> Listing:
    """`weft site certs`; explains on stderr how to renew those that weft can't."""
    rows = client_of(args).site.certificates()
    if stuck := [row for row in rows if row["code"] in _BY_HAND]:
        agents = "".join(f" --agent {row['name']}=HOST" for row in stuck if row["kind"] == "agent")
        warn(
            f"weft: to renew {len(stuck)} by hand, on the host with the authority's key: "
            f"weft fabric-agent certs --dir DIR{agents} --renew; then copy the files to the agents' hosts"
        )
    return Listing(("fabric", "kind", "name", "expires_at", "seen_at", "code", "state"), rows)

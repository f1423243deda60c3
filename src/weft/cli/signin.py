"""Sign-in options of every `openstack` command, besides those that each command has (`weft.cli.common`).

They are taken out of the command line, at any position, before it is parsed: so no parser needs all of them, and this
module is imported only if there is one. Names are those of osc-lib and keystoneauth's plugins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

OPTIONS = (
    "--os-auth-type",
    "--os-auth-url",
    "--os-username",
    "--os-user-id",
    "--os-user-domain-name",
    "--os-user-domain-id",
    "--os-password",
    "--os-token",
    "--os-project-name",
    "--os-project-id",
    "--os-project-domain-name",
    "--os-project-domain-id",
    "--os-system-scope",
    "--os-application-credential-id",
    "--os-application-credential-name",
    "--os-application-credential-secret",
    "--os-default-domain",
    "--os-interface",
    "--os-cert",
    "--os-key",
)
"""Options, each with an environment variable of the same name and meaning."""


def taken(words: Sequence[str]) -> tuple[dict[str, str | bool], list[str]]:
    """The options that are given, by their names without dashes, and the command line without them.

    What follows `--` is left as it is.
    """
    parser = argparse.ArgumentParser(
        prog="weft", add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for option in OPTIONS:
        parser.add_argument(option)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--insecure", action="store_true")
    either.add_argument("--verify", dest="insecure", action="store_false")
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_args(list(words[:end]))
    return vars(found), [*rest, *words[end:]]

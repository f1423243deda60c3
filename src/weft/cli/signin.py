"""Options of every `openstack` command to sign in with, besides those that each command has (`weft.cli.common`).

Taken out of a command line before it is parsed, wherever they stand: no command's parser is made with all of them, and
this module is only imported if there is one. By the names of osc-lib and keystoneauth's plugins.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

OPTIONS: tuple[tuple[str, str], ...] = (
    ("--os-auth-type", "OS_AUTH_TYPE"),
    ("--os-auth-url", "OS_AUTH_URL"),
    ("--os-username", "OS_USERNAME"),
    ("--os-user-id", "OS_USER_ID"),
    ("--os-user-domain-name", "OS_USER_DOMAIN_NAME"),
    ("--os-user-domain-id", "OS_USER_DOMAIN_ID"),
    ("--os-password", "OS_PASSWORD"),
    ("--os-token", "OS_TOKEN"),
    ("--os-project-name", "OS_PROJECT_NAME"),
    ("--os-project-id", "OS_PROJECT_ID"),
    ("--os-project-domain-name", "OS_PROJECT_DOMAIN_NAME"),
    ("--os-project-domain-id", "OS_PROJECT_DOMAIN_ID"),
    ("--os-system-scope", "OS_SYSTEM_SCOPE"),
    ("--os-application-credential-id", "OS_APPLICATION_CREDENTIAL_ID"),
    ("--os-application-credential-name", "OS_APPLICATION_CREDENTIAL_NAME"),
    ("--os-application-credential-secret", "OS_APPLICATION_CREDENTIAL_SECRET"),
    ("--os-default-domain", "OS_DEFAULT_DOMAIN"),
    ("--os-interface", "OS_INTERFACE"),
    ("--os-cert", "OS_CERT"),
    ("--os-key", "OS_KEY"),
)
"""Option -> variable that means the same."""


def taken(words: Sequence[str]) -> tuple[dict[str, str | bool], list[str]]:
    """The options that are given, by their names without dashes, and the command line without them.

    What follows `--` is left as it is.
    """
    parser = argparse.ArgumentParser(
        prog="weft", add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for option, _ in OPTIONS:
        parser.add_argument(option)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--insecure", action="store_true")
    either.add_argument("--verify", dest="insecure", action="store_false")
    end = words.index("--") if "--" in words else len(words)
    found, rest = parser.parse_known_args(list(words[:end]))
    return vars(found), [*rest, *words[end:]]

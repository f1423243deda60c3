"""Generated documents: commands, API routes, errors, codes, and the policy rules with their sample file.

`python -m weft.cli.pages` writes them into `docs/` of the working directory; a test fails if they are out of date.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, cast

from weft.app.doctor.findings import CODES as DOCTOR_CODES
from weft.cli.config import agents
from weft.cli.main import PROVIDERS, build_parser
from weft.cli.output import OPTIONS
from weft.config.agents import AgentSetting, settings_of
from weft.config.example import toml_value
from weft.config.table import OTHER_VARIABLES, SECTIONS, Setting
from weft.config.table import TABLE as SETTINGS
from weft.generate.llms import llms_text
from weft.generate.schemas import fill
from weft.model.errortable import TABLE, TYPE_PREFIX
from weft.model.messages import CODES, Code
from weftcheck.catalog import CODES as CHECKS
from weftcheck.expected import MEMBERS

PAGES = ("cli.md", "api.md", "configuration.md", "doctor.md", "host-checks.md", "problems/README.md")
_METHODS = ("get", "put", "post", "delete")


def commands() -> str:
    """docs page of every built-in command with its arguments."""
    parts: list[str] = []
    top = _children(build_parser())
    for name in PROVIDERS:
        for path, parser in _leaves(top[name], f"weft {name}"):
            parts += [f"### `{path}`", "", f"{parser.description}", ""]
            rows = [_row(action) for action in parser._actions if _shown(action)]  # pyright: ignore[reportPrivateUsage]
            if rows:
                parts += ["| argument | meaning |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage]
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]
            return cast(dict[str, argparse.ArgumentParser], action.choices)
    return {}


def _leaves(parser: argparse.ArgumentParser, path: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    children = _children(parser)
    if not children or any(_shown(a) for a in parser._actions):  # pyright: ignore[reportPrivateUsage]
        yield path, parser
    for name, child in children.items():
        yield from _leaves(child, f"{path} {name}")


def _shown(action: argparse.Action) -> bool:
    """Whether an argument is the command's own: not help, nor an option for signing in or of output formats."""
    hidden = ("-h", "--os-cloud", "--os-region-name", "--os-cacert", "--endpoint", *OPTIONS)
    branch = isinstance(action, argparse._SubParsersAction)  # pyright: ignore[reportPrivateUsage]
    return not branch and not any(option in hidden for option in action.option_strings)


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else "|".join(map(str, action.choices or ()))
    if action.nargs == 0:
        value = ""
    names = ", ".join(f"{option} {value}".strip() for option in action.option_strings) or value or action.dest
    default = f"`{action.default}`" if isinstance(action.default, Path) else ""
    meaning = (action.help or "").replace("%(default)s", "see `--help`" if default else str(action.default))
    needed = " (required)" if action.required and action.option_strings else ""
    return f"| `{names}` | {_cell(meaning)}{needed} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def openapi() -> dict[str, Any]:
    """The API's schema."""
    from weft.api.app import create_app

    # The schema depends on the routes alone: no backend is needed.
    return create_app(cast(Any, None), cast(Any, None)).openapi()


def routes() -> str:
    """Every route with its parameters, body and response."""
    lines = ["| request | what | parameters | body | answer |", "|---|---|---|---|---|"]
    for path, methods in openapi()["paths"].items():
        for method in _METHODS:
            if operation := methods.get(method):
                query = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
                status, answer = next((s, a) for s, a in operation["responses"].items() if s.startswith("2"))
                lines.append(
                    f"| `{method.upper()} {path}` | {_cell(' '.join(operation['description'].split()))} | "
                    f"{', '.join(query)} | "
                    f"{_schema(operation.get('requestBody', {}))} | {status} {_schema(answer)} |"
                )
    return "\n".join(lines) + "\n"


def _schema(part: dict[str, Any]) -> str:
    schema = part.get("content", {}).get("application/json", {}).get("schema", {})
    return f"`{schema['$ref'].rpartition('/')[2]}`" if "$ref" in schema else ""


def problems() -> str:
    """The table of errors."""
    lines = ["| `type` | status | exit code | meaning |", "|---|---|---|---|"]
    for row in TABLE:
        meaning = (row.error.__doc__ or "").splitlines()[0].split(". ")[0].rstrip(".")
        lines.append(f"| `{TYPE_PREFIX}{row.slug}` | {row.status} | {row.exit_code} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def rules() -> str:
    """The policy rules with their defaults."""
    from weft.app.policyrules import list_rules

    lines = ["| rule | default | what |", "|---|---|---|"]
    lines += [f"| `{rule.name}` | `{rule.check_str}` | {rule.description} |" for rule in list_rules()]
    return "\n".join(lines) + "\n"


_GAP = re.compile(r"\{[^}]*\}")


def codes() -> str:
    """Every code with its sentences, its values, and the section that explains it."""
    lines = ["| code | from | operators read | tenants read | values |", "|---|---|---|---|---|"]
    for name, code in sorted(CODES.items()):
        values = ", ".join(f"`{value}`" for value in code.types)
        lines.append(
            f"| [`{name}`]({code.page}.md#{name.lower()}) | {code.component} | {_sentence(code.operator)} | "
            f"{_for_tenants(code)} | {values} |"
        )
    return "\n".join(lines) + "\n"


def _for_tenants(code: Code) -> str:
    if code.tenant is None:
        return "withheld"
    return "the same" if code.tenant is True else _sentence(str(code.tenant))


def _sentence(template: str) -> str:
    return _cell(_GAP.sub("…", template))


def host_checks() -> str:
    """A section for each code of weft-check."""
    parts: list[str] = []
    for name, entry in CHECKS.items():
        members = ", ".join(f"`{one.strip()}`" for one in entry.member.split(",") if one)
        parts += [
            f"### {name}",
            f"{entry.what[0].upper()}{entry.what[1:]}.",
            "",
            f"- **Read**: {entry.reads}",
            *([f"- **Fails by itself**: {entry.alone}"] if entry.alone else []),
            *([f"- **Expected value**: {members}"] if members else []),
            f"- **Costs**: {entry.cost}",
            f"- **Mend**: {entry.mend}",
            "",
        ]
    return "\n".join(parts)


def host_check_members() -> str:
    """The members of weft-check's document of expected values."""
    lines = ["| member | example | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | `{one.example}` | {_cell(one.meaning)} |" for name, one in MEMBERS.items()]
    return "\n".join(lines) + "\n"


def settings() -> str:
    """A table for each section of weft.toml."""
    parts: list[str] = []
    for section, meaning in SECTIONS.items():
        parts += [f"### `[{section}]`", meaning, ""]
        if kind := agents().get(section):
            parts += ["| key | value | default | meaning |", "|---|---|---|---|"]
            parts += [_agent_setting(one) for one in settings_of(kind)]
        else:
            parts += ["| key | value | default | variable, option | meaning |", "|---|---|---|---|---|"]
            parts += [_setting(one) for one in SETTINGS if one.section == section]
        parts.append("")
    return "\n".join(parts)


def _setting(one: Setting) -> str:
    names = ", ".join(f"`{name}`" for name in (one.variable, one.option) if name)
    key = f"`{one.key}`, `{one.key}_file`" if one.secret else f"`{one.key}`"
    return f"| {key} | {_cell(one.kind.said)} | {one.default_text} | {names} | {_cell(one.meaning)} |"


def _agent_setting(one: AgentSetting) -> str:
    key = f"`{one.key}`, `{one.key}_file`" if one.secret else f"`{one.key}`"
    default = "required" if one.required else toml_value(one.default) if one.default else ""
    return f"| {key} | {one.what} | {default} | {_cell(one.meaning)} |"


def variables() -> str:
    """The environment's variables that no setting of weft.toml corresponds to."""
    lines = ["| variable | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(meaning)} |" for name, meaning in OTHER_VARIABLES.items()]
    return "\n".join(lines) + "\n"


def doctor_codes() -> str:
    """The codes of weft doctor."""
    lines = ["| code | level | meaning | page |", "|---|---|---|---|"]
    for name, code in DOCTOR_CODES.items():
        lines.append(f"| `{name}` | {code.level} | {_cell(code.meaning)} | [{code.page}]({code.page}) |")
    return "\n".join(lines) + "\n"


def policy_sample() -> str:
    """What `oslopolicy-sample-generator --namespace weft` writes."""
    from oslo_config import cfg
    from oslo_policy import generator

    out = io.StringIO()
    with redirect_stdout(out):
        generator.generate_sample(["--namespace", "weft"], cfg.ConfigOpts())
    return (
        "# A policy file for `weft serve --policy`: include only the rules that you change.\n"
        + out.getvalue()
    )


def files(docs: Path) -> dict[Path, str]:
    """Every document under `docs` generated here, with its contents."""
    texts = {
        "cli:commands": commands(),
        "api:routes": routes(),
        "api:problems": problems(),
        "policy:rules": rules(),
        "config:settings": settings(),
        "doctor:codes": doctor_codes(),
        "config:variables": variables(),
        "problems:codes": codes(),
        "hostchecks:codes": host_checks(),
        "hostchecks:members": host_check_members(),
    }
    found = {docs / name: fill((docs / name).read_text(), texts) for name in PAGES}
    found[docs / "llms.txt"] = llms_text(docs)
    found[docs / "policy.yaml.sample"] = policy_sample()
    found[docs / "schemas" / "openapi.json"] = json.dumps(openapi(), indent=1, ensure_ascii=False) + "\n"
    return found


def main() -> int:
    """Write all generated documents; 2 outside the project's root directory."""
    docs = Path("docs")
    if not docs.is_dir():
        print("run this in the project's root directory: there is no docs/ here", file=sys.stderr)
        return 2
    for path, text in files(docs).items():
        path.write_text(text)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())

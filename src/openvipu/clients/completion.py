"""``completion bash|zsh``: a script that completes verbs, nouns and flags without asking the controller."""

from __future__ import annotations

import argparse

from openvipu.clients.session import say
from openvipu.clients.tree import paths, words_after

SHELLS = ("bash", "zsh")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The text to ``eval`` or to put in the shell's completion directory."""
    program = parser.prog
    function = "_" + program.replace("-", "_")
    cases = [
        f'    "{" ".join(path)}") words="{" ".join(words_after(parser, path))}" ;;' for path in paths(parser)
    ]
    lines = [
        *(["autoload -U +X bashcompinit && bashcompinit"] if shell == "zsh" else []),
        f"{function}() {{",
        '  local words="" typed="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        '    case "${COMP_WORDS[i]}" in -*) ;; *) if ((i < 3)); then typed+="${typed:+ }${COMP_WORDS[i]}"; fi ;; esac',
        "  done",
        '  case "$typed" in',
        *cases,
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
        "}",
        f"complete -F {function} {program}",
    ]
    return "\n".join(lines)


def show(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    say(script(parser, arguments.shell))

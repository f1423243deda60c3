"""One measurement: a pair of nodes, one direction, several rails at once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from weftcheck.bandwidthplan import Plan
from weftcheck.found import Endpoint
from weftcheck.ratetext import NoRate, Rate, of_run
from weftcheck.remote import Session, finish

LISTEN = 20
"""Seconds in which a client finds the other side listening."""
SLACK = 25
"""Seconds for start, connection and end of a run beside the measuring itself."""
_LOOP = """
m() {{ p="$1"; shift; e=$(($(date +%s)+{listen}))
while :; do o=$(timeout -k 5 {limit} "$@" 2>&1); c=$?
case "$o" in *"Couldn't connect"*|*"Connection refused"*)
[ $(date +%s) -lt $e ] && {{ sleep 0.25; continue; }};; esac
break; done
printf '%s\\n' "$o" "rc=$c" | sed "s/^/$p> /"; }}
"""
_SERVE = """
m() {{ p="$1"; shift; {{ timeout -k 5 {limit} "$@" 2>&1; echo "rc=$?"; }} | sed "s/^/$p> /"; }}
"""


def arguments(
    plan: Plan, mine: Endpoint, port: int, peer: str | None, gbps: float | None = None
) -> list[str]:
    """The command line of one side.

    Args:
        peer: None: the side that listens and receives.
        gbps: nominal rate, by which UCX, which measures no given time, gets its number of messages.
    """
    messages = int(min(1_000_000, max(200, (gbps or 1.0) * plan.seconds * 1e9 / 8 / plan.size)))
    if plan.program == "ucx":
        words = ["ucx_perftest", *([peer] if peer else []), "-p", str(port)]
        return [*words, *(["-t", "tag_bw", "-s", str(plan.size), "-n", str(messages), "-f"] if peer else [])]
    words = ["ib_write_bw", "-d", mine.device, "-i", str(mine.port), "-F", "--report_gbits"]
    words += ["-s", str(plan.size), "-D", str(plan.seconds), "-p", str(port)]
    for option, value in (("-x", mine.gid_index), ("--pkey_index", mine.pkey_index)):
        words += [option, str(value)] if value is not None else []
    words += [f"--use_cuda={mine.gpu}"] if mine.gpu is not None else []
    return [*words, *([peer] if peer else [])]


def script(
    plan: Plan,
    ends: Mapping[int, Endpoint],
    ports: Mapping[int, int],
    peer: str | None,
    gbps: Mapping[int, float | None] | None = None,
) -> str:
    """Script for a shell: runs all rails at once; each line of output begins with its rail's number."""
    limit = plan.seconds + SLACK
    head = (_LOOP if peer else _SERVE).format(limit=limit, listen=LISTEN)
    lines = [head.strip()]
    for rail, mine in ends.items():
        words = arguments(plan, mine, ports[rail], peer, (gbps or {}).get(rail))
        if plan.program == "ucx":
            layer = "tcp" if not mine.port else "rc"
            device = mine.device if not mine.port else f"{mine.device}:{mine.port}"
            words = ["env", f"UCX_TLS={layer}", f"UCX_NET_DEVICES={device}", *words]
        lines.append(f"m {rail} {' '.join(shlex.quote(word) for word in words)} </dev/null &")
    return "\n".join([*lines, "wait", ""])


def by_rail(text: str) -> dict[int, tuple[int | None, str]]:
    """What a script printed: rail -> exit code (None: it isn't there) and text."""
    lines: dict[int, list[str]] = {}
    codes: dict[int, int] = {}
    for line in text.splitlines():
        match = re.match(r"(\d{1,3})> ?(.*)", line)
        if match is None:
            continue
        rail = int(match[1])
        code = re.fullmatch(r"rc=(\d{1,3})", match[2])
        if code:
            codes[rail] = int(code[1])
        else:
            lines.setdefault(rail, []).append(match[2])
    return {rail: (codes.get(rail), "\n".join(lines.get(rail, []))) for rail in {*lines, *codes}}


def measure(
    plan: Plan,
    sender: Session,
    receiver: Session,
    inside: str,
    ends: Mapping[int, tuple[Endpoint, Endpoint]],
    ports: Mapping[int, int],
    gbps: Mapping[int, float | None],
) -> dict[int, Rate | NoRate]:
    """Each rail's rate from `sender` to `receiver`.

    Args:
        inside: the receiver's address for the sender.
        ends: rail -> endpoints of sender and receiver.
        gbps: rail -> nominal rate in Gb/s; None: not known.
        ports: rail -> TCP port, which no earlier measurement used, so that no left-over server answers.
    """
    most = plan.seconds + 2 * SLACK + LISTEN
    listening = receiver.start(script(plan, {rail: end[1] for rail, end in ends.items()}, ports, None))
    said = sender.run(script(plan, {rail: end[0] for rail, end in ends.items()}, ports, inside, gbps), most)
    rates = _rates(plan, list(ends), said.text, said.code, sender)
    good = all(isinstance(rate, Rate) for rate in rates.values())
    # A receiver without its sender would wait for the whole limit; what it says of itself matters if the sender failed.
    heard = finish(listening, 10.0 if good else 1.0)
    if good:
        return rates
    theirs = _rates(plan, list(ends), heard.text, heard.code, receiver)
    return {rail: _which(rate, theirs[rail]) for rail, rate in rates.items()}


def _rates(
    plan: Plan, rails: Sequence[int], text: str, code: int | None, where: Session
) -> dict[int, Rate | NoRate]:
    found = by_rail(text)
    rates: dict[int, Rate | NoRate] = {}
    for rail in rails:
        ended, said = found.get(rail, (None, ""))
        if ended is not None:
            rates[rail] = of_run(plan.program, ended, said)
        elif code == 255 or where.lost:
            rates[rail] = NoRate("NODE_LOST")
        else:
            rates[rail] = NoRate("TIMED_OUT")
    return rates


def _which(rate: Rate | NoRate, theirs: Rate | NoRate) -> Rate | NoRate:
    """The sender's result; if the receiver didn't listen, the receiver's, which says why."""
    if isinstance(rate, NoRate) and rate.reason in ("NO_PEER", "TIMED_OUT") and isinstance(theirs, NoRate):
        return theirs if theirs.reason not in ("TIMED_OUT", "NO_PEER", "NOT_UNDERSTOOD") else rate
    return rate

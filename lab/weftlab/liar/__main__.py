"""`python -m weftlab.liar --control PORT --service NAME PORT URL …`: until SIGTERM."""

from __future__ import annotations

import argparse

from weft.ending import EndSignal
from weftlab.liar.control import running
from weftlab.liar.proxy import Route


def main() -> None:
    """Run proxies and their control until SIGTERM."""
    parser = argparse.ArgumentParser(prog="weftlab.liar")
    parser.add_argument("--control", type=int, required=True, metavar="PORT", help="of the control")
    parser.add_argument(
        "--service",
        nargs=3,
        action="append",
        required=True,
        metavar=("NAME", "PORT", "URL"),
        help="a service, the liar's port for it, its real address",
    )
    args = parser.parse_args()
    ended = EndSignal()
    with running([Route(name, int(port), url) for name, port, url in args.service], args.control):
        ended.wait()


if __name__ == "__main__":
    main()

"""`weft pod plan --offline --site site.yaml -f pod.yaml [--json]`: a plan without a server."""

from __future__ import annotations

import argparse
from pathlib import Path

from weft.app.offline import plan_file
from weft.cli.common import exit_code, read_order
from weft.model.placement import Refusal
from weft.planning.shapes.plantext import plan_text, refusal_text


def plan_offline(
    order_path: str | Path,
    site_path: str | Path,
    as_json: bool = False,
    args: argparse.Namespace | None = None,
) -> int:
    """Print the plan, or the refusal; `-` reads the order from standard input.

    Args:
        args: of the command, which keep the exit code.

    Returns 0 for a plan, 1 for a refusal. Raises `InputErrors` (exit code 2).
    """
    order = read_order(str(order_path))
    plan = plan_file(order, site_path)
    code = exit_code(args or argparse.Namespace(), isinstance(plan, Refusal))
    if as_json:
        print(plan.model_dump_json(indent=2))
    elif isinstance(plan, Refusal):
        print(refusal_text(order.name, plan), end="")
    else:
        print(plan_text(plan), end="")
    return code

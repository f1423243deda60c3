"""``python -m bench.openvipu``: the table of figures; exit status 1 if a goal is missed."""

from __future__ import annotations

import json
import sys

from bench.openvipu.report import rows


def main() -> int:
    found = rows()
    if "--json" in sys.argv:
        print(json.dumps(found, indent=2))
    else:
        for row in found:
            met = {True: "met", False: "MISSED", None: ""}[row["met"]]
            print(f"{row['name']:58} {row['value']:>10} {row['unit']:8} goal {row['goal'] or '-':<12} {met}")
    return 0 if all(row["met"] is not False for row in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())

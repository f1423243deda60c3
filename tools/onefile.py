#!/usr/bin/env python3
"""Make weft-check one file that Python 3.9 runs: `tools/onefile.py TARGET`."""

import sys
import zipapp
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"


def main() -> int:
    """Return 2 without exactly one target."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    zipapp.create_archive(
        SOURCE,
        target,
        interpreter="/usr/bin/env python3",
        main="weftcheck.cli:program",
        filter=lambda path: path.parts[0] == "weftcheck" and path.suffix == ".py",
        compressed=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
